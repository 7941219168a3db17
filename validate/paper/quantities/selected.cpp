// The selections of sparse all-reduces and their balance, in runs on synthetic gradients.

#include <algorithm>
#include <cmath>

#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/transport/in_process.hpp"
#include "validate/paper/quantities.hpp"
#include "validate/paper/sampled.hpp"

namespace validate {
namespace {

using transport::Transport;

constexpr double kPercent = 100;

/// The fill-in of TopkDSA's sum.
Values fill_in_percent(const Request& request) {
  const SampledGradients sampled = read_sampled(request);
  std::vector<std::size_t> non_zeros(sampled.ranks);
  transport::run_ranks(sampled.ranks, [&](Transport& t) {
    const sparse::SparseVector own = compression::top_k(sampled.gradient(t.rank(), 0), sampled.kept);
    non_zeros[t.rank()] = sparse::topk_dsa(t, own, sampled.elements).non_zeros;
  });
  return {{"", kPercent * static_cast<double>(non_zeros.front()) / static_cast<double>(sampled.elements)}};
}

/// The numbers of elements that calls of Ok-Topk have selected: on each rank, and of the sum.
struct Selections {
  std::vector<std::vector<std::size_t>> local;  ///< indexed by rank and call
  std::vector<std::size_t> global;              ///< indexed by call
};

Selections select(const SampledGradients& sampled) {
  Selections out{std::vector<std::vector<std::size_t>>(sampled.ranks), {}};
  transport::run_ranks(sampled.ranks, [&](Transport& t) {
    sparse::OkTopkState state;
    for (std::uint64_t call = 0; call < sampled.calls; ++call) {
      const std::vector<float> gradient = sampled.gradient(t.rank(), call);
      const sparse::Selected selected = sparse::ok_topk(t, gradient, {.k = sampled.kept}, state);
      out.local[t.rank()].push_back(compression::count_at_least(gradient, state.local_threshold));
      if (t.rank() == 0) out.global.push_back(selected.sum.indexes.size());
    }
  });
  return out;
}

/// The mean deviation from the requested number.
Values selection_deviation_percent(const Request& request) {
  const SampledGradients sampled = read_sampled(request);
  const Selections selections = select(sampled);
  const auto kept = static_cast<double>(sampled.kept);
  double local = 0;
  for (const auto& calls : selections.local)
    for (const std::size_t count : calls) local += std::abs(static_cast<double>(count) - kept) / kept;
  double global = 0;
  for (const std::size_t count : selections.global)
    global += std::abs(static_cast<double>(count) - kept) / kept;
  const auto calls = static_cast<double>(sampled.calls);
  return {{"local", kPercent * local / calls / sampled.ranks}, {"global", kPercent * global / calls}};
}

/// Words received by the rank with the most, when selections are split into equal regions of the gradient.
double naive_words(const SampledGradients& sampled, std::uint64_t call) {
  std::vector<std::size_t> of_region(sampled.ranks);
  std::vector<std::size_t> own(sampled.ranks);
  for (std::uint32_t rank = 0; rank < sampled.ranks; ++rank) {
    const sparse::SparseVector selected = compression::top_k(sampled.gradient(rank, call), sampled.kept);
    for (std::uint32_t region = 0; region < sampled.ranks; ++region) {
      const auto place = [&](std::uint32_t at) {
        return std::lower_bound(selected.indexes.begin(), selected.indexes.end(),
                                sparse::part_begin(sampled.elements, at, sampled.ranks));
      };
      const auto count = static_cast<std::size_t>(place(region + 1) - place(region));
      of_region[region] += count;
      if (region == rank) own[region] = count;
    }
  }
  std::size_t max = 0;
  for (std::uint32_t region = 0; region < sampled.ranks; ++region)
    max = std::max(max, 2 * (of_region[region] - own[region]));
  return static_cast<double>(max);
}

/// As naive_words(), but in Ok-Topk's regions; the cost of computing them is spread over the calls that use
/// them.
double balanced_words(const SampledGradients& sampled) {
  std::vector<std::int64_t> bytes(sampled.ranks);
  transport::run_ranks(sampled.ranks, [&](Transport& end) {
    sparse::OkTopkState state;
    const sparse::OkTopkOptions options = {.k = sampled.kept};
    for (std::uint64_t call = 0; call < 2; ++call) {
      transport::Counted counted(end);
      (void)sparse::ok_topk(counted, sampled.gradient(end.rank(), call), options, state);
      const std::int64_t making = counted.phase("boundaries").bytes_received;
      bytes[end.rank()] = call == 0 ? making / static_cast<std::int64_t>(options.repartition_every)
                                    : bytes[end.rank()] + counted.phase("split").bytes_received;
    }
  });
  constexpr double kBytesPerWord = 4;
  return static_cast<double>(*std::ranges::max_element(bytes)) / kBytesPerWord;
}

Values split_gain(const Request& request) {
  const SampledGradients sampled = read_sampled(request);
  return {{"", naive_words(sampled, 1) / balanced_words(sampled)}};
}

/// The share of calls that balance shares before they gather them, among those that do not recompute
/// thresholds.
Values balancing_calls_percent(const Request& request) {
  const SampledGradients sampled = read_sampled(request);
  std::uint64_t balancing = 0;
  std::uint64_t usual = 0;
  transport::run_ranks(sampled.ranks, [&](Transport& end) {
    sparse::OkTopkState state;
    for (std::uint64_t call = 0; call < sampled.calls; ++call) {
      transport::Counted counted(end);
      (void)sparse::ok_topk(counted, sampled.gradient(end.rank(), call), {.k = sampled.kept}, state);
      if (end.rank() != 0) continue;
      const auto has = [&](std::string_view phase) { return counted.phase(phase) != transport::Counts{}; };
      if (has("gather")) ++usual;
      if (has("balance")) ++balancing;
    }
  });
  if (usual == 0) request.at("calls").expected("calls beyond the first");
  return {{"", kPercent * static_cast<double>(balancing) / static_cast<double>(usual)}};
}

}  // namespace

std::vector<Quantity> selected_quantities() {
  const std::vector<std::string_view> keys = sampled_keys({});
  return {{"fill_in_percent", "nonzero elements in TopkDSA's sum", keys, fill_in_percent},
          {"selection_deviation_percent", "mean deviation of Ok-Topk's selections from the requested number",
           keys, selection_deviation_percent},
          {"split_gain", "words to the busiest rank with equal regions, over those with Ok-Topk's", keys,
           split_gain},
          {"balancing_calls_percent", "Ok-Topk's calls that balance shares before they gather", keys,
           balancing_calls_percent}};
}

}  // namespace validate
