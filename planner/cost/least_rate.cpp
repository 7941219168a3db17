#include "planner/cost/least_rate.hpp"

#include <algorithm>

namespace planner {

double least_us_per_byte(const core::CostCurve& curve, double bytes) {
  double out = curve.us(bytes) / bytes;
  const auto look = [&](double size) {
    if (size > 0 && size <= bytes) out = std::min(out, curve.us(size) / size);
  };
  constexpr double kJustBelow = 1 - 1e-9;
  for (const auto& [size, us] : curve.points()) look(size);
  for (const core::CostCurve::Segment& segment : curve.segments()) {
    look(segment.from_bytes);
    look(kJustBelow * segment.to_bytes);
  }
  return out;
}

}  // namespace planner
