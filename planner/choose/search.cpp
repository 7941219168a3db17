// Sums use an explicit order. A linear algebra library's order depends on vector units and caches, and the
// last bit could decide which candidate is probed next.

#include "planner/choose/search.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/draws.hpp"

namespace planner {
namespace {

constexpr int kCandidates = 1000;

/// Rounds to nine digits for comparisons, so that candidates of mathematically equal merit compare equal.
std::int64_t rounded(double value) { return static_cast<std::int64_t>(std::floor(value * 1e9 + 0.5)); }

/// Matern 5/2 covariance of values at this distance. It is twice differentiable, so steps in the function
/// disturb it less than the smoother squared exponential.
double covariance(double distance, double length) {
  const double d = std::abs(distance) / length * std::sqrt(5.0);
  return (1 + d + d * d / 3) * sim::portable_exp(-d);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

struct Guess {
  double mean = 0;
  double deviation = 0;
};

/// A Gaussian process with mean 0 and variance 1, conditioned on values added one after another.
class GaussianProcess {
 public:
  explicit GaussianProcess(double length) : length_(length) {}

  void see(double place, double value) {
    constexpr double kNoise = 1e-6;  // noise variance; keeps the factor well conditioned if places are close
    std::vector<double> row = known_of(place);
    const double rest = std::sqrt(1 + kNoise - dot(row, row));
    whitened_.push_back((value - dot(row, whitened_)) / rest);
    row.push_back(rest);
    factor_.push_back(std::move(row));
    places_.push_back(place);
  }

  /// Log likelihood of all values, given places and length, up to a constant.
  double log_likelihood() const {
    double sum = -dot(whitened_, whitened_) / 2;
    for (const std::vector<double>& row : factor_) sum -= sim::portable_log(row.back());
    return sum;
  }

  Guess at(double place) const {
    const std::vector<double> known = known_of(place);
    return {.mean = dot(known, whitened_), .deviation = std::sqrt(std::max(0.0, 1 - dot(known, known)))};
  }

 private:
  /// The covariances of this place with the observed ones, divided by the Cholesky factor.
  std::vector<double> known_of(double place) const {
    std::vector<double> known;
    known.reserve(places_.size() + 1);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::vector<double>& row = factor_[i];
      const double common = std::inner_product(known.begin(), known.end(), row.begin(), 0.0);
      known.push_back((covariance(places_[i] - place, length_) - common) / row.back());
    }
    return known;
  }

  double length_;
  std::vector<double> places_;
  std::vector<std::vector<double>> factor_;  ///< the rows of the covariances' Cholesky factor
  std::vector<double> whitened_;             ///< the values, divided by the factor
};

/// The values scaled to mean 0 and standard deviation 1; all 0 if they are equal.
std::vector<double> standardised(const std::vector<Probe>& probes) {
  const auto count = static_cast<double>(probes.size());
  double mean = 0;
  for (const Probe& probe : probes) mean += probe.value / count;
  double variance = 0;
  for (const Probe& probe : probes) variance += (probe.value - mean) * (probe.value - mean) / count;
  const double deviation = std::sqrt(variance);
  std::vector<double> out;
  out.reserve(probes.size());
  for (const Probe& probe : probes) out.push_back(deviation > 0 ? (probe.value - mean) / deviation : 0);
  return out;
}

/// Maps the range to 0 to 1.
struct Scale {
  double from;
  double width;

  double place(double at) const { return width > 0 ? (at - from) / width : 0; }
};

/// Uses the length with the greatest likelihood; among equals, the longest.
GaussianProcess fit(const std::vector<Probe>& probes, const std::vector<double>& values, const Scale& scale) {
  const auto with_length = [&](double length) {
    GaussianProcess process(length);
    for (std::size_t i = 0; i < probes.size(); ++i) process.see(scale.place(probes[i].at), values[i]);
    return process;
  };
  GaussianProcess likeliest = with_length(2);
  for (const double length :
       {1.5, 1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125, 0.09375, 0.0625, 0.046875, 0.03125}) {
    GaussianProcess other = with_length(length);
    if (rounded(other.log_likelihood()) > rounded(likeliest.log_likelihood())) likeliest = std::move(other);
  }
  return likeliest;
}

/// Expected improvement over `min`, counting only the part beyond xi (Jones, Schonlau and Welch 1998, with
/// Lizotte's margin).
double expected_improvement(const Guess& guess, double min, double xi) {
  const double gain = min - guess.mean - xi;
  if (guess.deviation < 1e-9) return std::max(0.0, gain);
  const double z = gain / guess.deviation;
  return gain * sim::normal_below(z) + guess.deviation * sim::normal_density(z);
}

/// Both ends of the range, and one random place from each of equal cells between them.
std::vector<double> candidates(const SearchSpace& space) {
  std::vector<double> out = {space.from};
  const double cell = (space.to - space.from) / (kCandidates - 1);
  for (int i = 1; i < kCandidates - 1; ++i) {
    const double within = sim::uniform(sim::hash(space.seed, i)) - 0.5;
    out.push_back(std::clamp(space.from + cell * (i + within), space.from, space.to));
  }
  out.push_back(space.to);
  return out;
}

/// The merit of a candidate: expected improvement, then uncertainty.
struct Merit {
  std::int64_t improvement = 0;
  std::int64_t deviation = 0;

  bool is_over(const Merit& other) const {
    return improvement != other.improvement ? improvement > other.improvement : deviation > other.deviation;
  }
};

/// The best unprobed place of `all`, among equals the lowest; NaN if all are probed.
double next_place(const std::vector<double>& all, const std::vector<Probe>& probes, const Scale& scale,
                  double xi) {
  const std::vector<double> values = standardised(probes);
  const GaussianProcess process = fit(probes, values, scale);
  const double min = *std::ranges::min_element(values);
  double next = std::numeric_limits<double>::quiet_NaN();
  Merit max = {.improvement = -1};
  for (const double at : all) {
    const Guess guess = process.at(scale.place(at));
    const double improvement = std::max(0.0, expected_improvement(guess, min, xi));
    const Merit merit = {.improvement = rounded(improvement), .deviation = rounded(guess.deviation)};
    const bool is_probed = std::ranges::any_of(probes, [at](const Probe& probe) { return probe.at == at; });
    if (is_probed || !merit.is_over(max)) continue;
    max = merit;
    next = at;
  }
  return next;
}

}  // namespace

std::vector<Probe> bayesian_search(const Objective& objective, const SearchSpace& space,
                                   const BayesianOptions& options) {
  assert(space.from <= space.to && space.probes > 0);
  const Scale scale = {.from = space.from, .width = space.to - space.from};
  const std::vector<double> all = candidates(space);
  std::vector<Probe> probes;
  for (double at = std::clamp(options.first, space.from, space.to); !std::isnan(at);
       at = next_place(all, probes, scale, options.xi)) {
    probes.push_back({.at = at, .value = objective(at)});
    if (probes.size() == space.probes) break;
  }
  return probes;
}

std::vector<Probe> random_search(const Objective& objective, const SearchSpace& space) {
  assert(space.from <= space.to && space.probes > 0);
  std::vector<Probe> probes;
  for (std::size_t i = 0; i < space.probes; ++i) {
    const double part = sim::uniform(sim::hash(space.seed, i));
    const double at = std::clamp(space.from + (space.to - space.from) * part, space.from, space.to);
    probes.push_back({.at = at, .value = objective(at)});
  }
  return probes;
}

std::vector<Probe> grid_search(const Objective& objective, const SearchSpace& space) {
  assert(space.from <= space.to && space.probes > 0);
  std::vector<Probe> probes;
  const auto last = static_cast<double>(space.probes - 1);
  for (std::size_t i = 0; i < space.probes; ++i) {
    const double part = last > 0 ? static_cast<double>(i) / last : 0.5;
    const double at = part < 1 ? space.from + (space.to - space.from) * part : space.to;
    probes.push_back({.at = at, .value = objective(at)});
  }
  return probes;
}

const Probe& best_of(const std::vector<Probe>& probes) {
  assert(!probes.empty());
  return *std::ranges::min_element(probes, {}, &Probe::value);
}

}  // namespace planner
