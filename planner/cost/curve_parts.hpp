// Curves of costs that are made of other curves, and the sizes and startups that are read off these for it.

#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/network.hpp"

namespace planner {

using CurvePoints = std::vector<std::pair<double, double>>;

/// The sizes at which a curve bends, in increasing order.
std::vector<double> sizes_of(const core::CostCurve& curve);

/// The curve through the values of `us` at these sizes. It does not fall, since nothing gets faster by being
/// longer: a size that took longer than a larger one gets the time of that one.
core::CostCurve sampled_at(const std::vector<double>& sizes, const std::function<double(double)>& us);

/// The larger of the curve and a line through 0, with the sizes where they cross.
core::CostCurve larger(const core::CostCurve& curve, double us_per_byte);

/// y = fixed + each * x.
struct RisingLine {
  double fixed = 0;
  double each = 0;
  double at(double x) const { return fixed + each * x; }
};

/// The line with neither part below 0, by least squares of relative errors. Needs values above 0.
RisingLine rising_line(const CurvePoints& points);

/// The startup that a curve's small messages show; 0 if the smallest one measured is not small enough. From
/// several sizes, as a single one is noisy.
double startup_of(const core::CostCurve& curve);

}  // namespace planner
