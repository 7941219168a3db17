// The physical bound that the line rate of a port sets, and curves that are raised to it.

#pragma once

#include <cstdint>
#include <optional>

#include "core/network.hpp"

namespace planner {

/// The line rate of the ports that collectives of `workers` pass. None if the network states no rate, or if
/// the workers do not span its outermost level, whose rate it is.
std::optional<double> line_rate_gbps(const core::Network& network, std::int64_t workers);

/// The physical bound on the time of a collective, in us per byte of its message: every worker's port passes
/// (P-1)/P of the message, twice for an all-reduce.
double physical_us_per_byte(double line_rate_gbps, std::int64_t workers, core::CollectiveKind kind);

/// The curve, with every time raised to at least bytes * us_per_byte; unchanged if no time is below. Messages
/// smaller than the first size keep the first time up to where the bound meets it.
core::CostCurve raised(const core::CostCurve& curve, double us_per_byte);

/// startup + bytes * us_per_byte, raised to at least bytes * min_us_per_byte.
core::CostCurve raised_affine(double startup_us, double us_per_byte, double min_us_per_byte);

}  // namespace planner
