#include "collectives/low_rank/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "collectives/sparse/ring.hpp"
#include "sim/draws.hpp"

namespace low_rank {
namespace {

std::span<float> row(const Approximated& each, std::span<float> gradient, std::size_t i) {
  return gradient.subspan(each.at + i * each.tensor.columns, each.tensor.columns);
}

std::span<const float> row(const Approximated& each, std::span<const float> gradient, std::size_t i) {
  return gradient.subspan(each.at + i * each.tensor.columns, each.tensor.columns);
}

std::span<float> column_of_p(const Approximated& each, std::span<float> factors, std::size_t i) {
  return factors.subspan(each.p + i * each.tensor.rows, each.tensor.rows);
}

std::span<float> column_of_q(const Approximated& each, std::span<float> factors, std::size_t i) {
  return factors.subspan(each.q + i * each.tensor.columns, each.tensor.columns);
}

/// The rank of the approximation of a tensor.
std::size_t rank_of(const Matrix& tensor, const PowerSgdOptions& options) {
  return std::min({options.rank, tensor.rows, tensor.columns});
}

double dot(std::span<const float> a, std::span<const float> b) {
  double out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return out;
}

bool is_zero(std::span<const float> x) {
  return std::ranges::all_of(x, [](float each) { return each == 0; });
}

/// Draws the factors that are 0, as all are in the first call: they would stay 0 for ever.
void draw(const Approximated& each, const PowerSgdOptions& options, std::uint64_t calls, std::span<float> q) {
  for (std::size_t r = 0; r < each.rank; ++r) {
    const std::span<float> factor = column_of_q(each, q, r);
    if (!is_zero(factor)) continue;
    for (std::size_t j = 0; j < factor.size(); ++j)
      factor[j] = static_cast<float>(sim::standard_normal(sim::hash(options.seed, calls, each.number, r, j)));
  }
}

/// P = M Q
void first_factors(const Approximated& each, std::span<const float> gradient, std::span<float> q,
                   std::span<float> p) {
  for (std::size_t r = 0; r < each.rank; ++r)
    for (std::size_t i = 0; i < each.tensor.rows; ++i)
      column_of_p(each, p, r)[i] = static_cast<float>(dot(row(each, gradient, i), column_of_q(each, q, r)));
}

/// Makes the columns of P orthonormal, by the modified Gram-Schmidt process. One that depends on those
/// before it becomes 0.
void make_orthonormal(const Approximated& each, std::span<float> p) {
  constexpr double kDependent = 1e-6;  // of a column's length
  for (std::size_t r = 0; r < each.rank; ++r) {
    const std::span<float> column = column_of_p(each, p, r);
    const double before = std::sqrt(dot(column, column));
    for (std::size_t other = 0; other < r; ++other) {
      const std::span<const float> earlier = column_of_p(each, p, other);
      const auto along = static_cast<float>(dot(column, earlier));
      for (std::size_t i = 0; i < column.size(); ++i) column[i] -= along * earlier[i];
    }
    const double length = std::sqrt(dot(column, column));
    const bool is_dependent = length <= kDependent * before;  // false where it is not finite
    for (float& x : column) x = is_dependent ? 0 : static_cast<float>(static_cast<double>(x) / length);
  }
}

/// Q = M' P
void second_factors(const Approximated& each, std::span<const float> gradient, std::span<float> p,
                    std::span<float> q) {
  for (std::size_t r = 0; r < each.rank; ++r) {
    const std::span<float> factor = column_of_q(each, q, r);
    std::ranges::fill(factor, 0.0F);
    for (std::size_t i = 0; i < each.tensor.rows; ++i) {
      const float weight = column_of_p(each, p, r)[i];
      const std::span<const float> of_row = row(each, gradient, i);
      for (std::size_t j = 0; j < of_row.size(); ++j) factor[j] += weight * of_row[j];
    }
  }
}

/// Returns element (i, j) of P Q'.
float product(const Approximated& each, std::span<float> p, std::span<float> q, std::size_t i,
              std::size_t j) {
  float out = 0;
  for (std::size_t r = 0; r < each.rank; ++r) out += column_of_p(each, p, r)[i] * column_of_q(each, q, r)[j];
  return out;
}

}  // namespace

bool is_approximated(const Matrix& tensor, const PowerSgdOptions& options) {
  const auto sent = static_cast<double>((tensor.rows + tensor.columns) * rank_of(tensor, options));
  return sent * options.min_compression_rate < static_cast<double>(tensor.elements());
}

PowerSgd::PowerSgd(std::span<const Matrix> tensors, const PowerSgdOptions& options) : options_(options) {
  if (options.rank == 0) throw std::invalid_argument("power_sgd: a rank of at least 1 is needed");
  std::size_t rest = 0;
  std::size_t p = 0;
  std::size_t q = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Matrix& tensor = tensors[i];
    if (is_approximated(tensor, options)) {
      const std::size_t rank = rank_of(tensor, options);
      approximated_.push_back({.tensor = tensor, .rank = rank, .at = elements_, .p = p, .q = q, .number = i});
      p += rank * tensor.rows;
      q += rank * tensor.columns;
    } else {
      plain_.push_back({.at = elements_, .elements = tensor.elements()});
      rest += tensor.elements();
    }
    elements_ += tensor.elements();
  }
  rest_.resize(rest);
  p_.resize(p);
  q_.resize(q);
  if (options.error_feedback) residual_.resize(elements_);
}

void PowerSgd::encode(std::span<float> gradient) {
  if (elements_ != gradient.size())
    throw std::invalid_argument("power_sgd: the tensors have other sizes than the gradient");
  for (std::size_t i = 0; i < residual_.size(); ++i) gradient[i] += residual_[i];
  auto to = rest_.begin();
  for (const Plain& each : plain_) to = std::ranges::copy(gradient.subspan(each.at, each.elements), to).out;
  for (const Approximated& each : approximated_) {
    draw(each, options_, calls_, q_);
    first_factors(each, gradient, q_, p_);
  }
  ++calls_;
}

void PowerSgd::factor(std::span<const float> gradient) {
  for (const Approximated& each : approximated_) {
    make_orthonormal(each, p_);
    second_factors(each, gradient, p_, q_);
  }
}

void PowerSgd::decode(std::span<float> gradient, std::uint32_t ranks) {
  auto from = rest_.begin();
  for (const Plain& each : plain_) {
    std::copy_n(from, each.elements, gradient.begin() + static_cast<std::ptrdiff_t>(each.at));
    from += static_cast<std::ptrdiff_t>(each.elements);
  }
  for (const Approximated& each : approximated_) {
    bool is_finite = true;
    for (std::size_t i = 0; i < each.tensor.rows; ++i) {
      const std::span<float> of_row = row(each, gradient, i);
      for (std::size_t j = 0; j < of_row.size(); ++j) {
        const float sum = product(each, p_, q_, i, j);
        is_finite = is_finite && std::isfinite(sum);
        if (!residual_.empty())
          row(each, std::span(residual_), i)[j] = of_row[j] - sum / static_cast<float>(ranks);
        of_row[j] = sum;
      }
    }
    if (is_finite) continue;
    if (!residual_.empty())
      std::ranges::fill(std::span(residual_).subspan(each.at, each.tensor.elements()), 0.0F);
    std::ranges::fill(std::span(q_).subspan(each.q, each.rank * each.tensor.columns), 0.0F);
  }
}

void PowerSgd::sum(transport::Transport& transport, std::span<float> gradient) {
  encode(gradient);
  sparse::ring_all_reduce(transport, rest());
  sparse::ring_all_reduce(transport, p());
  factor(gradient);
  sparse::ring_all_reduce(transport, q());
  decode(gradient, transport.size());
}

}  // namespace low_rank
