#include "core/scaled.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "core/host_stream.hpp"

namespace core {
namespace {

using Points = std::vector<std::pair<double, double>>;
using Segments = std::vector<CostCurve::Segment>;

struct Factors {
  double startup;
  double per_byte;

  Link of(const Link& link) const {
    return {.alpha_us = startup * link.alpha_us,
            .beta_us_per_byte = per_byte * link.beta_us_per_byte,
            .gamma_us_per_byte = link.gamma_us_per_byte};
  }
  /// startup f + per_byte (us - f), written so that equal factors leave no rounding error of f.
  double of(double us, double first_us) const { return per_byte * us + (startup - per_byte) * first_us; }
};

/// The lines between points that may be negative, which a list of points may not.
CostCurve through_signed(const Points& points) {
  Segments segments;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    const auto& [from, us] = points[i];
    const auto& [to, next_us] = points[i + 1];
    const double slope = (next_us - us) / (to - from);
    segments.push_back(
        {.from_bytes = from, .to_bytes = to, .startup_us = us - from * slope, .us_per_byte = slope});
  }
  segments.back().to_bytes = std::nextafter(segments.back().to_bytes, HUGE_VAL);  // includes the last point
  return CostCurve::of_segments(segments);
}

CostCurve scaled(const CostCurve& curve, const Factors& factors) {
  const double first_us = curve.startup_us();
  if (!curve.segments().empty()) {
    Segments segments = curve.segments();
    for (CostCurve::Segment& segment : segments) {
      segment.startup_us = factors.of(segment.startup_us, first_us);
      segment.us_per_byte *= factors.per_byte;
    }
    return CostCurve::of_segments(segments);
  }
  Points points = curve.points();
  assert(!points.empty());
  for (auto& [bytes, us] : points) us = factors.of(us, first_us);
  const bool under_zero = std::ranges::any_of(points, [](const auto& point) { return point.second < 0; });
  return under_zero && points.size() > 1 ? through_signed(points) : CostCurve::through(points);
}

/// Scales the values that belong to the points along with their times; values of removed points are dropped.
void scale_with(const Points& before, const Points& after, std::vector<double>& each) {
  if (after.size() != before.size()) each.clear();
  for (std::size_t i = 0; i < each.size(); ++i)
    each[i] *= before[i].second > 0 ? after[i].second / before[i].second : 0;
}

void scale(std::optional<double>& us, double factor) {
  if (us) *us *= factor;
}

}  // namespace

Network scaled(const Network& network, double startup_factor, double per_byte_factor) {
  assert(startup_factor >= 0 && per_byte_factor >= 0);
  const Factors factors = {.startup = startup_factor, .per_byte = per_byte_factor};
  Network out = network;
  if (out.link) out.link = factors.of(*out.link);
  for (Level& level : out.levels) level.link = factors.of(level.link);
  for (Measured& measured : out.measured) {
    const Points before = measured.curve.points();
    measured.curve = scaled(measured.curve, factors);
    scale_with(before, measured.curve.points(), measured.spread_us);
    scale_with(before, measured.curve.points(), measured.p99_us);
    if (startup_factor != per_byte_factor) measured.fit.reset();
  }
  if (per_byte_factor == 0)
    out.line_rate_gbps.reset();
  else if (out.line_rate_gbps)
    *out.line_rate_gbps /= per_byte_factor;
  return out;
}

Profile scaled(const Profile& profile, double compute_factor) {
  assert(compute_factor >= 0);
  // The time of kernels is scaled. The device waits as long as before for the host to launch them, less what
  // they take longer.
  const auto scale_pass = [&](double& us, std::optional<double>& device_us) {
    if (!device_us) {
      us *= compute_factor;
      return compute_factor;
    }
    const double before = us;
    const double wait = us - *device_us;
    const double longer = *device_us * (compute_factor - 1);
    *device_us *= compute_factor;
    us = *device_us + std::max(0.0, wait - std::max(0.0, longer));
    return before > 0 ? us / before : 1;
  };
  Profile out = profile;
  for (ProfileLayer& layer : out.layers) {
    scale(layer.forward_spread_us, scale_pass(layer.forward_us, layer.forward_device_us));
    const double backward_factor = scale_pass(layer.backward_us, layer.backward_device_us);
    scale(layer.backward_spread_us, backward_factor);
    for (ProfileTensor& tensor : layer.tensors) scale(tensor.backward_us, backward_factor);
  }
  return with_host_stream(std::move(out));
}

}  // namespace core
