// Costs of a collective on numbers of workers that were not measured, from the curves of others, and how far
// they can be trusted.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/by_workers.hpp"

namespace planner {

struct Extrapolation {
  core::CostCurve curve;
  std::vector<std::int64_t> from;  ///< the numbers of workers whose curves were scaled
  /// The mean factor, less 1, between predicted and measured times where each number of workers is predicted
  /// from the others; none with a single one.
  std::optional<double> left_out_error;
  /// The range of factors of the predicted times within which 95 % of the true times are expected.
  double low_factor = 1;
  double high_factor = 1;
};

/// Scales the nearest measured curves, below and above `workers`, by the factors of `algorithm` (ring for
/// one that is defined on levels only). Needs at least one curve, none of them on `workers` itself. Of more
/// than 16 numbers of workers it looks at the nearest on both sides.
Extrapolation extrapolate(const std::vector<MeasuredOn>& all, std::int64_t workers,
                          const Algorithm& algorithm, core::CollectiveKind kind);

/// An extrapolation whose left-out error exceeds this is refused.
constexpr double kMaxLeftOutError = 0.4;

}  // namespace planner
