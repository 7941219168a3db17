#include "traces/scaled.hpp"

#include <algorithm>

namespace traces {
namespace {

CostCurve scaled(const CostCurve& curve, double startup_factor, double per_byte_factor) {
  if (!curve.segments().empty()) {
    std::vector<CostCurve::Segment> segments = curve.segments();
    for (CostCurve::Segment& segment : segments) {
      segment.startup_us *= startup_factor;
      segment.us_per_byte *= per_byte_factor;
    }
    return CostCurve::of_segments(segments);
  }
  std::vector<std::pair<double, double>> points = curve.points();
  const double first = points.front().second;
  for (auto& [bytes, us] : points)
    us = std::max(0.0, startup_factor * first + per_byte_factor * (us - first));
  return CostCurve::through(points);
}

}  // namespace

Network scaled(const Network& network, double startup_factor, double per_byte_factor) {
  Network out = network;
  const auto scale = [&](Link& link) {
    link.alpha_us *= startup_factor;
    link.beta_us_per_byte *= per_byte_factor;
  };
  if (out.link) scale(*out.link);
  for (Level& level : out.levels) scale(level.link);
  for (Measured& measured : out.measured) {
    measured.curve = scaled(measured.curve, startup_factor, per_byte_factor);
    measured.fit.reset();  // of the curve as it was
  }
  if (out.line_rate_gbps && per_byte_factor > 0)
    *out.line_rate_gbps /= per_byte_factor;
  else
    out.line_rate_gbps.reset();
  return out;
}

Profile scaled(const Profile& profile, double compute_factor) {
  Profile out = profile;
  const auto scale = [&](std::optional<double>& us) {
    if (us) *us *= compute_factor;
  };
  for (ProfileLayer& layer : out.layers) {
    layer.forward_us *= compute_factor;
    layer.backward_us *= compute_factor;
    scale(layer.forward_spread_us);
    scale(layer.backward_spread_us);
    for (ProfileTensor& tensor : layer.tensors) scale(tensor.backward_us);
  }
  return out;
}

}  // namespace traces
