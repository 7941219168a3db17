// Searches for the least value of a function of one number that can only be tried, each trial costing a few
// training steps: how DeAR and its rivals choose a bucket size.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace planner {

struct Probe {
  double at = 0;
  double value = 0;
  bool operator==(const Probe&) const = default;
};

/// Where to search. Asks for from <= to, and for at least one probe.
struct SearchSpace {
  double from = 0;
  double to = 0;
  std::size_t probes = 10;
  std::uint64_t seed = 1;
};

/// Must give finite values.
using Objective = std::function<double(double)>;

struct BayesianOptions {
  double first = 0;  ///< the first probe, moved into the range
  double xi = 0.1;  ///< of the values' standard deviation: how much more than the best a probe has to promise
};

/// Each next probe is the candidate with the greatest expected improvement under a Gaussian process through
/// all probes so far (DeAR, section IV-B). The seed moves the candidates a little.
std::vector<Probe> bayesian_search(const Objective& objective, const SearchSpace& space,
                                   const BayesianOptions& options);

/// Uniform draws from the range.
std::vector<Probe> random_search(const Objective& objective, const SearchSpace& space);

/// Evenly spaced, both ends included; a single probe is in the middle.
std::vector<Probe> grid_search(const Objective& objective, const SearchSpace& space);

/// The least value, and of equals the one found first. Asks for at least one probe.
const Probe& best_of(const std::vector<Probe>& probes);

}  // namespace planner
