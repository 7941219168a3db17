#include "planner/cost/low_rank.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/limits.hpp"

namespace planner {
namespace {

using sim::Time;

struct Factors {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
};

Factors factors_of(const core::ProfileTensor& tensor, std::int64_t rank) {
  if (tensor.shape.empty() && !tensor.is_scalar)
    throw core::Unsupported("a profile with the shapes of all tensors, on which PowerSGD's cost depends",
                            fmt::format("tensor '{}' without", core::printable(tensor.name)), "/profile");
  const std::int64_t rows = tensor.is_scalar ? 1 : tensor.shape.front();
  const std::int64_t columns = tensor.elements / rows;
  return {.rows = rows, .columns = columns, .rank = std::min({rank, rows, columns})};
}

/// The test of powerSGD_hook.
bool is_approximated(const Factors& factors, double min_compression_rate) {
  const double sent = (static_cast<double>(factors.rows) + static_cast<double>(factors.columns)) *
                      static_cast<double>(factors.rank);
  return sent * min_compression_rate <
         static_cast<double>(factors.rows) * static_cast<double>(factors.columns);
}

Time time_of(const CodeCost& cost, std::int64_t bytes) {
  return sim::from_us(cost.us(static_cast<double>(bytes)));
}

}  // namespace

LowRankVolumes::LowRankVolumes(const Workload& workload, const LowRankOptions& options,
                               const LowRankCode& code) {
  for (const Gradient& gradient : workload.gradients) {
    const core::ProfileTensor& tensor = workload.profile->layers[gradient.layer].tensors[gradient.tensor];
    const Factors factors = factors_of(tensor, options.rank);
    const bool is_matrix = is_approximated(factors, options.min_compression_rate);
    LowRankVolume sum = before_.back();
    if (is_matrix) {
      const std::int64_t element = gradient.bytes / tensor.elements;
      sum.p_bytes += factors.rows * factors.rank * element;
      sum.q_bytes += factors.columns * factors.rank * element;
      sum.encode = sim::after(sum.encode, time_of(code.encode, gradient.bytes));
      sum.in_transit = sim::after(sum.in_transit, time_of(code.in_transit, gradient.bytes));
      sum.decode = sim::after(sum.decode, time_of(code.decode, gradient.bytes));
    } else {
      sum.rest_bytes += gradient.bytes;
    }
    before_.push_back(sum);
    matrices_.push_back(is_matrix ? gradient.bytes : 0);
  }
}

LowRankVolume LowRankVolumes::of(std::uint32_t begin, std::uint32_t end) const {
  const LowRankVolume& from = before_[begin];
  const LowRankVolume& to = before_[end];
  return {.rest_bytes = to.rest_bytes - from.rest_bytes,
          .p_bytes = to.p_bytes - from.p_bytes,
          .q_bytes = to.q_bytes - from.q_bytes,
          .encode = to.encode - from.encode,
          .in_transit = to.in_transit - from.in_transit,
          .decode = to.decode - from.decode};
}

std::int64_t LowRankVolumes::largest_matrix(std::uint32_t begin, std::uint32_t end) const {
  return *std::max_element(matrices_.begin() + begin, matrices_.begin() + end);
}

bool has_shapes(const core::Profile& profile) {
  return std::ranges::all_of(profile.layers, [](const core::ProfileLayer& layer) {
    return std::ranges::none_of(layer.tensors, [](const core::ProfileTensor& tensor) {
      return tensor.shape.empty() && !tensor.is_scalar;
    });
  });
}

}  // namespace planner
