// Minimises a function of one number that can only be evaluated, where each evaluation costs a few training
// steps: how DeAR and its rivals choose a bucket size.

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

/// The search range. Requires from <= to and at least one probe.
struct SearchSpace {
  double from = 0;
  double to = 0;
  std::size_t probes = 10;
  std::uint64_t seed = 1;
};

/// Must return finite values.
using Objective = std::function<double(double)>;

struct BayesianOptions {
  double first = 0;  ///< the first probe, clamped to the range
  double xi = 0.1;   ///< expected-improvement margin, in standard deviations of the values
};

/// Each next probe is the candidate with the greatest expected improvement under a Gaussian process through
/// all earlier probes (DeAR, section IV-B). The seed shifts the candidates slightly.
std::vector<Probe> bayesian_search(const Objective& objective, const SearchSpace& space,
                                   const BayesianOptions& options);

/// Probes uniformly random points of the range.
std::vector<Probe> random_search(const Objective& objective, const SearchSpace& space);

/// Probes evenly spaced points, including both ends; a single probe is in the middle.
std::vector<Probe> grid_search(const Objective& objective, const SearchSpace& space);

/// The probe with the least value; among equals, the first. Requires at least one probe.
const Probe& best_of(const std::vector<Probe>& probes);

}  // namespace planner
