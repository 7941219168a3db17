#include "profiler/fit/segments.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace fit {
namespace {

/// Prefix sums over the rows in order of size, from which the least-squares line of any range follows at
/// once.
struct Sums {
  double alpha_alpha = 0;
  double alpha_beta = 0;
  double beta_beta = 0;
  double alpha = 0;
  double beta = 0;
  double rows = 0;

  void add(const Row& row) {
    const double a = row.startups / row.us;
    const double b = row.sent / row.us;
    alpha_alpha += a * a;
    alpha_beta += a * b;
    beta_beta += b * b;
    alpha += a;
    beta += b;
    rows += 1;
  }

  Sums since(const Sums& before) const {
    return {alpha_alpha - before.alpha_alpha,
            alpha_beta - before.alpha_beta,
            beta_beta - before.beta_beta,
            alpha - before.alpha,
            beta - before.beta,
            rows - before.rows};
  }

  /// Returns the minimal sum of squared relative errors with a slope of at least 0.
  double unexplained() const {
    const double determinant = alpha_alpha * beta_beta - alpha_beta * alpha_beta;
    const double flat = alpha_alpha > 0 ? alpha * alpha / alpha_alpha : 0;
    constexpr double kSingular = 1e-12;
    if (determinant <= kSingular * alpha_alpha * beta_beta) return std::max(0.0, rows - flat);
    const double startup = (alpha * beta_beta - beta * alpha_beta) / determinant;
    const double slope = (beta * alpha_alpha - alpha * alpha_beta) / determinant;
    if (slope < 0) return std::max(0.0, rows - flat);
    return std::max(0.0, rows - startup * alpha - slope * beta);
  }
};

/// The places between sizes: place i is before the i-th size, whose first row is rows[begin[i]].
struct Places {
  explicit Places(const std::vector<Row>& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (i == 0 || rows[i].bytes != rows[i - 1].bytes) {
        begin.push_back(i);
        bytes.push_back(rows[i].bytes);
      }
    begin.push_back(rows.size());
  }

  std::size_t sizes() const { return bytes.size(); }

  std::vector<std::size_t> begin;
  std::vector<double> bytes;
};

std::vector<Sums> prefix_sums(const std::vector<Row>& rows, const Places& places) {
  std::vector<Sums> sums(places.sizes() + 1);
  for (std::size_t i = 0; i < places.sizes(); ++i) {
    sums[i + 1] = sums[i];
    for (std::size_t row = places.begin[i]; row < places.begin[i + 1]; ++row) sums[i + 1].add(rows[row]);
  }
  return sums;
}

struct Cut {
  double cost = std::numeric_limits<double>::infinity();
  std::size_t from = 0;
  std::size_t choice = 0;
};

/// best[i]: the cheapest way to cover the sizes before place i, and its last segment.
std::vector<Cut> cheapest_cuts(const std::vector<std::vector<Sums>>& sums, std::size_t sizes, double variance,
                               const SegmentOptions& options) {
  const std::size_t min = std::min(options.min_sizes, sizes);
  const double penalty = options.penalty * std::log(static_cast<double>(std::max<std::size_t>(sizes, 2)));
  std::vector<Cut> best(sizes + 1);
  best[0].cost = 0;
  for (std::size_t end = min; end <= sizes; ++end)
    for (std::size_t from = 0; from + min <= end; ++from) {
      if (std::isinf(best[from].cost)) continue;
      for (std::size_t choice = 0; choice < sums.size(); ++choice) {
        const double unexplained = sums[choice][end].since(sums[choice][from]).unexplained();
        const double cost = best[from].cost + unexplained / variance + penalty;
        if (cost < best[end].cost) best[end] = {cost, from, choice};
      }
    }
  return best;
}

Segment segment(std::span<const std::vector<Row>> choices, const Places& places, std::size_t end,
                const Cut& cut) {
  const auto bytes_at = [&](std::size_t place) {
    return place < places.sizes() ? places.bytes[place] : places.bytes.back() + 1;  // includes the last size
  };
  const std::vector<Row>& rows = choices[cut.choice];
  const std::vector<Row> inside(rows.begin() + static_cast<std::ptrdiff_t>(places.begin[cut.from]),
                                rows.begin() + static_cast<std::ptrdiff_t>(places.begin[end]));
  return {.from_bytes = bytes_at(cut.from),
          .to_bytes = bytes_at(end),
          .choice = cut.choice,
          .line = solve(inside, false).line};
}

}  // namespace

std::vector<Segment> find_segments(std::span<const std::vector<Row>> choices, double noise,
                                   const SegmentOptions& options) {
  assert(!choices.empty() && !choices.front().empty());
  const Places places(choices.front());
  std::vector<std::vector<Sums>> sums;
  sums.reserve(choices.size());
  for (const std::vector<Row>& rows : choices) sums.push_back(prefix_sums(rows, places));
  const std::vector<Cut> best = cheapest_cuts(sums, places.sizes(), noise * noise, options);
  std::vector<Segment> segments;
  for (std::size_t end = places.sizes(); end > 0; end = best[end].from)
    segments.insert(segments.begin(), segment(choices, places, end, best[end]));
  return segments;
}

double noise(const std::vector<Row>& rows) {
  constexpr double kMin = 0.005;
  constexpr double kMedianToDeviation = 1.4826;  // for a normal distribution
  std::vector<double> deviations;
  for (std::size_t i = 1; i + 1 < rows.size(); ++i) {
    const double share = (rows[i].bytes - rows[i - 1].bytes) / (rows[i + 1].bytes - rows[i - 1].bytes);
    const double between = rows[i - 1].us + share * (rows[i + 1].us - rows[i - 1].us);
    const double spread = std::sqrt(1 + share * share + (1 - share) * (1 - share));
    deviations.push_back(std::abs(rows[i].us - between) / rows[i].us / spread);
  }
  if (deviations.empty()) return kMin;
  const auto middle = deviations.begin() + static_cast<std::ptrdiff_t>(deviations.size() / 2);
  std::nth_element(deviations.begin(), middle, deviations.end());
  return std::max(kMin, kMedianToDeviation * *middle);
}

}  // namespace fit
