#include "planner/cost/line_rate.hpp"

#include <algorithm>
#include <limits>

#include "planner/cost/curve_parts.hpp"
#include "planner/cost/derived.hpp"

namespace planner {

using core::CollectiveKind;
using core::CostCurve;

namespace {

/// Times below a bound by no more than this factor are below it by rounding.
constexpr double kAlmost = 1 - 1e-9;

}  // namespace

std::optional<double> line_rate_gbps(const core::Network& network, std::int64_t workers) {
  if (!network.line_rate_gbps || has_measured_nodes(network)) return std::nullopt;
  std::int64_t below_outermost = 1;
  for (std::size_t i = 0; i + 1 < network.levels.size() && below_outermost < workers; ++i)
    below_outermost *= network.levels[i].size.value_or(workers);
  return below_outermost < workers ? network.line_rate_gbps : std::nullopt;
}

double physical_us_per_byte(double line_rate_gbps, std::int64_t workers, CollectiveKind kind) {
  const double passes = kind == CollectiveKind::all_reduce ? 2 : 1;
  const auto p = static_cast<double>(workers);
  return passes * (p - 1) / p * 8e-3 / line_rate_gbps;
}

core::CostCurve raised(const CostCurve& curve, double us_per_byte) {
  if (sizes_of(curve).empty()) {
    constexpr double kFarBytes = 1e12;
    const double slope = (curve.us(kFarBytes) - curve.us(0)) / kFarBytes;
    return slope < kAlmost * us_per_byte ? raised_affine(curve.us(0), slope, us_per_byte) : curve;
  }
  CostCurve out = larger(curve, us_per_byte);
  const bool changes = std::ranges::any_of(
      out.points(), [&](const auto& point) { return curve.us(point.first) < kAlmost * point.second; });
  return changes ? out : curve;
}

core::CostCurve raised_affine(double startup_us, double us_per_byte, double min_us_per_byte) {
  if (us_per_byte >= kAlmost * min_us_per_byte) return CostCurve::affine(startup_us, us_per_byte);
  if (startup_us <= 0) return CostCurve::affine(0, min_us_per_byte);
  const double cross = startup_us / (min_us_per_byte - us_per_byte);
  return CostCurve::of_segments(
      {{.from_bytes = 0, .to_bytes = cross, .startup_us = startup_us, .us_per_byte = us_per_byte},
       {.from_bytes = cross,
        .to_bytes = std::numeric_limits<double>::infinity(),
        .startup_us = 0,
        .us_per_byte = min_us_per_byte}});
}

}  // namespace planner
