#include "profiler/traces/protocol_switch.hpp"

#include <algorithm>
#include <cmath>

#include "sim/draws.hpp"

namespace traces {
namespace {

using Points = std::vector<std::pair<double, double>>;

/// What NCCL estimates of a ring by one of its protocols, and chooses by (its tuning model): a startup, one
/// for each step over NVLink, and a bandwidth as part of the ring's.
struct Protocol {
  double startup_us;
  double step_us;
  double bandwidth;
};
constexpr double kLowLatencyBandwidth = 0.42;  // depends on the GPU; this is from A100 to GB200
constexpr Protocol kLowLatency = {.startup_us = 6.6, .step_us = 0.6, .bandwidth = kLowLatencyBandwidth};
constexpr Protocol kLowLatency128 = {.startup_us = 14.0, .step_us = 1.9, .bandwidth = 0.92};
constexpr Protocol kSimple = {.startup_us = 8.4, .step_us = 3.4, .bandwidth = 1};

/// The size from which another protocol is estimated to be faster than the one for small messages.
double switch_bytes(double steps, double us_per_byte) {
  const auto crossing = [&](const Protocol& other) {
    const double startup_us =
        other.startup_us - kLowLatency.startup_us + steps * (other.step_us - kLowLatency.step_us);
    return startup_us / (us_per_byte * (1 / kLowLatency.bandwidth - 1 / other.bandwidth));
  };
  return std::min(crossing(kLowLatency128), crossing(kSimple));
}

double slope(const std::pair<double, double>& from, const std::pair<double, double>& to) {
  return std::max(0.0, (to.second - from.second) / (to.first - from.first));
}

/// How many times as long a message takes that is many times as long, on scales of logarithms.
double growth(const std::pair<double, double>& from, const std::pair<double, double>& to) {
  return sim::portable_log(to.second / from.second) / sim::portable_log(to.first / from.first);
}

}  // namespace

std::optional<ProtocolSwitch> protocol_switch(const Points& points, core::CollectiveKind collective,
                                              std::int64_t workers) {
  constexpr double kReached = 1.1;  // NCCL counts on more than what is measured
  constexpr double kFarApart = 2.001;
  constexpr std::size_t kMinPoints = 4;
  if (workers < 2 || workers > core::kWorkersOfMachine || points.size() < kMinPoints ||
      points.front().first <= 0)
    return std::nullopt;
  if (std::any_of(points.begin(), points.end(), [](const auto& point) { return point.second <= 0; }))
    return std::nullopt;
  const auto p = static_cast<double>(workers);
  const double steps = (p - 1) * (collective == core::CollectiveKind::all_reduce ? 2 : 1);
  double bytes_per_us = 0;
  for (const auto& [bytes, us] : points) bytes_per_us = std::max(bytes_per_us, bytes * steps / p / us);
  if (bytes_per_us < core::kNvlinkBytesPerUs) return std::nullopt;
  const double at = std::floor(switch_bytes(steps, steps / p / (kReached * bytes_per_us)));
  for (std::size_t i = 1; i + 2 < points.size(); ++i) {
    const auto& from = points[i];
    const auto& to = points[i + 1];
    if (!(from.first + 1 < at && at < to.first) || to.first < kFarApart * from.first) continue;
    if (growth(from, to) < growth(to, points[i + 2])) continue;
    const double straight =
        from.second + (to.second - from.second) / (to.first - from.first) * (at - from.first);
    const double before =
        std::min(straight, from.second + slope(points[i - 1], from) * (at - 1 - from.first));
    const double after = std::max(straight, to.second - slope(to, points[i + 2]) * (to.first - at));
    if (before < after)
      return ProtocolSwitch{.after = i, .before_jump = {at - 1, before}, .after_jump = {at, after}};
  }
  return std::nullopt;
}

}  // namespace traces
