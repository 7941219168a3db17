#include "collectives/low_rank/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "collectives/sparse/ring.hpp"
#include "sim/draws.hpp"

namespace low_rank {
namespace {

/// A tensor that is approximated as P Q': where it and its factors lie.
struct Approximated {
  Matrix tensor;
  std::size_t rank = 0;    ///< at most the tensor's rows and columns
  std::size_t at = 0;      ///< in the gradient
  std::size_t p = 0;       ///< rank x rows, in the first message
  std::size_t q = 0;       ///< rank x columns, in the second message
  std::size_t number = 0;  ///< of the tensor in the group

  std::span<float> row(std::span<float> gradient, std::size_t i) const {
    return gradient.subspan(at + i * tensor.columns, tensor.columns);
  }
  std::span<float> of_p(std::span<float> message, std::size_t i) const {
    return message.subspan(p + i * tensor.rows, tensor.rows);
  }
  std::span<float> of_q(std::span<float> message, std::size_t i) const {
    return message.subspan(q + i * tensor.columns, tensor.columns);
  }
};

struct Plain {
  std::size_t at = 0;  ///< in the gradient
  std::size_t to = 0;  ///< in the first message
  std::size_t elements = 0;
};

/// The rank of the approximation of a tensor.
std::size_t rank_of(const Matrix& tensor, const PowerSgdOptions& options) {
  return std::min({options.rank, tensor.rows, tensor.columns});
}

struct Layout {
  std::vector<Approximated> approximated;
  std::vector<Plain> plain;
  PowerSgdMessages messages;
  std::size_t elements = 0;
};

Layout layout_of(std::span<const Matrix> tensors, const PowerSgdOptions& options) {
  Layout out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Matrix& tensor = tensors[i];
    if (is_approximated(tensor, options)) {
      const std::size_t rank = rank_of(tensor, options);
      out.approximated.push_back({.tensor = tensor,
                                  .rank = rank,
                                  .at = out.elements,
                                  .p = out.messages.first,
                                  .q = out.messages.second,
                                  .number = i});
      out.messages.first += rank * tensor.rows;
      out.messages.second += rank * tensor.columns;
    } else {
      out.plain.push_back({.at = out.elements, .to = out.messages.first, .elements = tensor.elements()});
      out.messages.first += tensor.elements();
    }
    out.elements += tensor.elements();
  }
  return out;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return out;
}

bool is_zero(std::span<const float> x) {
  return std::all_of(x.begin(), x.end(), [](float each) { return each == 0; });
}

/// Draws the factors that are 0, as all are in the first call: they would stay 0 for ever.
void draw(const Approximated& each, const PowerSgdOptions& options, std::uint64_t calls,
          std::span<float> factors) {
  for (std::size_t r = 0; r < each.rank; ++r) {
    const std::span<float> factor = each.of_q(factors, r);
    if (!is_zero(factor)) continue;
    for (std::size_t j = 0; j < factor.size(); ++j)
      factor[j] = static_cast<float>(sim::standard_normal(sim::hash(options.seed, calls, each.number, r, j)));
  }
}

/// P = M Q
void first_factors(const Approximated& each, std::span<float> gradient, std::span<float> factors,
                   std::span<float> message) {
  for (std::size_t r = 0; r < each.rank; ++r)
    for (std::size_t i = 0; i < each.tensor.rows; ++i)
      each.of_p(message, r)[i] = static_cast<float>(dot(each.row(gradient, i), each.of_q(factors, r)));
}

/// Makes the columns of P orthonormal, by the modified Gram-Schmidt process. One that depends on those
/// before it becomes 0.
void make_orthonormal(const Approximated& each, std::span<float> message) {
  constexpr double kDependent = 1e-6;  // of a column's length
  for (std::size_t r = 0; r < each.rank; ++r) {
    const std::span<float> column = each.of_p(message, r);
    const double before = std::sqrt(dot(column, column));
    for (std::size_t other = 0; other < r; ++other) {
      const std::span<const float> earlier = each.of_p(message, other);
      const auto along = static_cast<float>(dot(column, earlier));
      for (std::size_t i = 0; i < column.size(); ++i) column[i] -= along * earlier[i];
    }
    const double length = std::sqrt(dot(column, column));
    const bool is_dependent = length <= kDependent * before;  // false where it is not finite
    for (float& x : column) x = is_dependent ? 0 : static_cast<float>(static_cast<double>(x) / length);
  }
}

/// Q = M' P
void second_factors(const Approximated& each, std::span<float> gradient, std::span<float> message,
                    std::span<float> factors) {
  for (std::size_t r = 0; r < each.rank; ++r) {
    const std::span<float> factor = each.of_q(factors, r);
    std::ranges::fill(factor, 0.0F);
    for (std::size_t i = 0; i < each.tensor.rows; ++i) {
      const float weight = each.of_p(message, r)[i];
      const std::span<const float> row = each.row(gradient, i);
      for (std::size_t j = 0; j < row.size(); ++j) factor[j] += weight * row[j];
    }
  }
}

/// Returns element (i, j) of P Q'.
float product(const Approximated& each, std::span<float> message, std::span<float> factors, std::size_t i,
              std::size_t j) {
  float out = 0;
  for (std::size_t r = 0; r < each.rank; ++r) out += each.of_p(message, r)[i] * each.of_q(factors, r)[j];
  return out;
}

/// Replaces the matrix by the approximation of the sum, and stores what a worker's share of it leaves out.
void decode(const Approximated& each, std::span<float> message, std::span<float> factors, float workers,
            std::span<float> gradient, std::span<float> residual) {
  for (std::size_t i = 0; i < each.tensor.rows; ++i) {
    const std::span<float> row = each.row(gradient, i);
    for (std::size_t j = 0; j < row.size(); ++j) {
      const float sum = product(each, message, factors, i, j);
      if (!residual.empty()) each.row(residual, i)[j] = row[j] - sum / workers;
      row[j] = sum;
    }
  }
}

/// Forgets what was kept of a tensor whose sum is not finite.
void forget_broken(const Approximated& each, std::span<float> gradient, std::span<float> residual,
                   std::span<float> factors) {
  const std::span<float> sum = gradient.subspan(each.at, each.tensor.elements());
  if (std::ranges::all_of(sum, [](float x) { return std::isfinite(x); })) return;
  if (!residual.empty()) std::ranges::fill(residual.subspan(each.at, sum.size()), 0.0F);
  std::ranges::fill(factors.subspan(each.q, each.rank * each.tensor.columns), 0.0F);
}

void refuse(const char* what) { throw std::invalid_argument(std::string("power_sgd: ") + what); }

}  // namespace

bool is_approximated(const Matrix& tensor, const PowerSgdOptions& options) {
  const auto sent = static_cast<double>((tensor.rows + tensor.columns) * rank_of(tensor, options));
  return sent * options.min_compression_rate < static_cast<double>(tensor.elements());
}

PowerSgdMessages messages(std::span<const Matrix> tensors, const PowerSgdOptions& options) {
  return layout_of(tensors, options).messages;
}

void power_sgd(transport::Transport& transport, std::span<const Matrix> tensors, std::span<float> gradient,
               const PowerSgdOptions& options, PowerSgdState& state) {
  const Layout layout = layout_of(tensors, options);
  if (options.rank == 0) refuse("a rank of at least 1 is needed");
  if (layout.elements != gradient.size()) refuse("the tensors have other sizes than the gradient");
  if (state.calls == 0) state.factors.assign(layout.messages.second, 0);
  if (options.error_feedback && state.calls == 0) state.residual.assign(gradient.size(), 0);
  if (state.factors.size() != layout.messages.second ||
      state.residual.size() != (options.error_feedback ? gradient.size() : 0))
    refuse("the state is that of other tensors");

  for (std::size_t i = 0; i < state.residual.size(); ++i) gradient[i] += state.residual[i];
  std::vector<float> first(layout.messages.first);
  for (const Plain& each : layout.plain)
    std::copy_n(gradient.begin() + static_cast<std::ptrdiff_t>(each.at), each.elements,
                first.begin() + static_cast<std::ptrdiff_t>(each.to));
  for (const Approximated& each : layout.approximated) {
    draw(each, options, state.calls, state.factors);
    first_factors(each, gradient, state.factors, first);
  }
  sparse::ring_all_reduce(transport, std::span(first));
  for (const Plain& each : layout.plain)
    std::copy_n(first.begin() + static_cast<std::ptrdiff_t>(each.to), each.elements,
                gradient.begin() + static_cast<std::ptrdiff_t>(each.at));
  for (const Approximated& each : layout.approximated) {
    make_orthonormal(each, first);
    second_factors(each, gradient, first, state.factors);
  }
  sparse::ring_all_reduce(transport, std::span(state.factors));
  for (const Approximated& each : layout.approximated) {
    decode(each, first, state.factors, static_cast<float>(transport.size()), gradient, state.residual);
    forget_broken(each, gradient, state.residual, state.factors);
  }
  ++state.calls;
}

}  // namespace low_rank
