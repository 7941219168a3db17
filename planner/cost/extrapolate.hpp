// Costs of a collective on numbers of workers that were not measured, from the curves of others, and how far
// they can be trusted.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/by_workers.hpp"
#include "planner/cost/curve_parts.hpp"

namespace planner {

struct Extrapolation {
  core::CostCurve curve;
  std::vector<std::int64_t> from;  ///< the numbers of workers whose curves were scaled
  /// The mean factor, less 1, between predicted and measured times where each number of workers is predicted
  /// from the others; none with a single one.
  std::optional<double> left_out_error;
  Growth growth = Growth::algorithm;  ///< how its startups grow with the workers
  /// The range of factors of the predicted times within which 95 % of the true times are expected. In a peak
  /// the true times may be longer by its factor.
  double low_factor = 1;
  double high_factor = 1;
  std::vector<Peak> peaks = {};
};

/// Scales the nearest measured curves, below and above `workers`, by the factors of `algorithm` (ring for
/// one that is defined on levels only). Needs at least one curve, none of them on `workers` itself. Of more
/// than 16 numbers of workers it looks at the nearest on both sides.
Extrapolation extrapolate(const std::vector<MeasuredOn>& all, std::int64_t workers,
                          const Algorithm& algorithm, core::CollectiveKind kind);

/// Widens the range of factors that tests showed, where each number of workers was predicted from the others,
/// by what so few of them cannot show.
std::pair<double, double> with_untested(std::pair<double, double> tested,
                                        const std::vector<MeasuredOn>& measured, std::int64_t workers);

/// What an extrapolation to these workers assumes: "bytes sent and startups grow as with ring".
std::string growth_text(Growth growth, const Algorithm& algorithm, std::int64_t workers);

/// An extrapolation whose left-out error exceeds this is refused.
constexpr double kMaxLeftOutError = 0.4;

}  // namespace planner
