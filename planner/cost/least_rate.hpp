// The best rate of a collective, for lower bounds.

#pragma once

#include "core/cost_curve.hpp"

namespace planner {

/// The least time per byte in messages of at most this many bytes, whatever their number.
double least_us_per_byte(const core::CostCurve& curve, double bytes);

}  // namespace planner
