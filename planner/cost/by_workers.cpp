#include "planner/cost/by_workers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/cost/curve_parts.hpp"
#include "sim/draws.hpp"

namespace planner {

using core::CollectiveKind;

std::vector<std::int64_t> workers_of(const std::vector<MeasuredOn>& measured) {
  std::vector<std::int64_t> out;
  for (const MeasuredOn& each : measured) out.push_back(each.workers);
  return out;
}

Factors factors(const Algorithm& algorithm, std::int64_t workers) {
  const AlgorithmEntry& named = algorithm_entry(algorithm.name);
  const AlgorithmEntry& entry = named.needs_nodes ? algorithm_entry("ring") : named;
  const auto of = [&](std::int64_t on) {
    return entry.cost({.workers = on, .flat = {.alpha_us = 1, .beta_us_per_byte = 1}}, algorithm);
  };
  const ClosedForm form = of(workers);
  return {.startups = form.startup_us / of(2).startup_us, .passes = form.link_us_per_byte};
}

double startups(Growth growth, const Algorithm& algorithm, std::int64_t workers) {
  const auto doublings = [](double ratio) { return sim::portable_log(ratio) / sim::portable_log(2); };
  if (growth == Growth::logarithm) return doublings(static_cast<double>(workers));
  if (growth == Growth::algorithm || workers <= core::kWorkersOfMachine)
    return factors(algorithm, workers).startups;
  const double before = factors(algorithm, core::kWorkersOfMachine).startups;
  const double half_before = factors(algorithm, core::kWorkersOfMachine / 2).startups;
  return before + (before - half_before) * doublings(static_cast<double>(workers) / core::kWorkersOfMachine);
}

ScaledCurve::ScaledCurve(const MeasuredOn& from, std::int64_t workers, const Algorithm& algorithm,
                         const StartupShare& share)
    : curve_(from.curve), startup_us_(startup_of(*from.curve)), adds_(share.adds) {
  const auto passes = [&](std::int64_t on) {
    return factors(algorithm, on).passes + 2 * share.copied / static_cast<double>(on);
  };
  by_passes_ = passes(workers) / passes(from.workers);
  by_startups_ = share.at(algorithm, workers) / share.at(algorithm, from.workers);
}

double ScaledCurve::us(double bytes) const {
  const double us = curve_->us(bytes);
  const double startup = us > 0 ? std::min(1.0, startup_us_ / us) : 0;
  return us * std::max(by_passes_ + (by_startups_ - by_passes_) * (adds_ ? startup : startup * startup),
                       by_startups_ * startup);
}

double distance(std::int64_t a, std::int64_t b) {
  return std::abs(sim::portable_log(static_cast<double>(a) / static_cast<double>(b)));
}

namespace {

/// The mean relative error of the nearer curve, predicted from the other one alone.
double error_of_scaling(const MeasuredOn& near, const MeasuredOn& far, const Algorithm& algorithm,
                        const StartupShare& share) {
  double sum = 0;
  const std::vector<double> sizes = sizes_of(*near.curve);
  const ScaledCurve scaled(far, near.workers, algorithm, share);
  for (const double bytes : sizes) {
    const double us = near.curve->us(bytes);
    if (us <= 0) return std::numeric_limits<double>::infinity();
    sum += std::abs(scaled.us(bytes) / us - 1);
  }
  return sum / static_cast<double>(sizes.size());
}

/// Whether two curves are those of a link with alpha and beta: each startup is paid, and nothing else is
/// fixed.
bool is_link(const MeasuredOn& near, const MeasuredOn& far, const Algorithm& algorithm) {
  constexpr double kMaxError = 0.1;
  const StartupShare link = {.adds = true};
  const double by_startups = link.at(algorithm, near.workers) / link.at(algorithm, far.workers);
  return std::abs(startup_of(*far.curve) * by_startups / startup_of(*near.curve) - 1) < kMaxError &&
         error_of_scaling(near, far, algorithm, link) < kMaxError;
}

/// The share that two curves show if startups grow like this.
StartupShare share_of(const MeasuredOn& near, const MeasuredOn& far, const Algorithm& algorithm,
                      Growth growth) {
  const double near_us = startup_of(*near.curve);
  const double near_startups = startups(growth, algorithm, near.workers);
  const double far_startups = startups(growth, algorithm, far.workers);
  const double each =
      near_startups == far_startups
          ? 0
          : std::max(0.0, (startup_of(*far.curve) - near_us) / (far_startups - near_startups));
  const double fixed = std::max(0.0, near_us - each * near_startups);
  return {.growth = growth, .fixed = fixed, .each = fixed + each > 0 ? each : 1};
}

/// The mean relative error of startups as fixed + a part for each.
double startup_error(const std::vector<MeasuredOn>& measured, const Algorithm& algorithm, Growth growth) {
  CurvePoints points;
  for (const MeasuredOn& each : measured)
    points.emplace_back(startups(growth, algorithm, each.workers), startup_of(*each.curve));
  const RisingLine line = rising_line(points);
  double out = 0;
  for (const auto& [steps, us] : points) out += std::abs(line.at(steps) / us - 1);
  return out / static_cast<double>(points.size());
}

void sort_by_distance(std::vector<MeasuredOn>& measured, std::int64_t workers) {
  std::ranges::stable_sort(measured, [&](const MeasuredOn& a, const MeasuredOn& b) {
    return distance(a.workers, workers) < distance(b.workers, workers);
  });
}

/// Whether the bus bandwidth of the largest size is one that takes NVLink, or as fast a network.
bool is_as_fast_as_nvlink(const MeasuredOn& from, const Algorithm& algorithm, CollectiveKind kind) {
  const double bytes = sizes_of(*from.curve).back();
  const double passes =
      factors(algorithm, from.workers).passes / (kind == CollectiveKind::all_reduce ? 1 : 2);
  return passes * bytes >= core::kNvlinkBytesPerUs * from.curve->us(bytes);
}

/// What one number of workers cannot show is taken as on machines that were measured: with NVLink from A100
/// to B200, and over PCIe. A worker's copy for itself takes nothing where messages pass something slower.
StartupShare assumed_share(const MeasuredOn& from, std::int64_t workers, const Algorithm& algorithm,
                           CollectiveKind kind, Growth growth) {
  const bool is_whole = kind == CollectiveKind::all_reduce;
  if (!is_as_fast_as_nvlink(from, algorithm, kind))
    return {.growth = growth, .fixed = is_whole ? 1.25 : 3.5, .each = 1};
  StartupShare out = {.growth = growth, .fixed = is_whole ? 3.0 : 8.0, .each = 1};
  if (std::max(from.workers, workers) <= core::kWorkersOfMachine) out.copied = is_whole ? 0.25 : 0.5;
  return out;
}

}  // namespace

Neighbours neighbours(const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  std::vector<MeasuredOn> nearest = measured;
  sort_by_distance(nearest, workers);
  Neighbours out = {.near = nearest.front()};
  const auto is_across = [&](const MeasuredOn& each) {
    return (each.workers < workers) != (out.near.workers < workers);
  };
  const auto across = std::find_if(nearest.begin() + 1, nearest.end(), is_across);
  if (across != nearest.end())
    out.far = *across;
  else if (nearest.size() > 1)
    out.far = nearest[1];
  return out;
}

StartupShare startup_share(const std::vector<MeasuredOn>& measured, std::int64_t workers,
                           const Algorithm& algorithm, CollectiveKind kind) {
  std::vector<MeasuredOn> nearest;
  for (const MeasuredOn& each : measured)
    if (startup_of(*each.curve) > 0) nearest.push_back(each);
  sort_by_distance(nearest, workers);
  const bool is_open = kind == CollectiveKind::all_reduce && !measured.front().is_stated;
  const auto error = [&](Growth growth) { return startup_error(nearest, algorithm, growth); };
  Growth growth = is_open ? Growth::library : Growth::algorithm;
  if (nearest.size() < 2)
    return assumed_share(neighbours(measured, workers).near, workers, algorithm, kind, growth);
  if (is_open && nearest.size() > 2)
    for (const Growth other : {Growth::algorithm, Growth::logarithm})
      if (error(other) < error(growth)) growth = other;
  const auto share = [&](Growth of, bool adds) {
    StartupShare out = share_of(nearest[0], nearest[1], algorithm, of);
    out.adds = adds;
    return out;
  };
  const auto off = [&](const StartupShare& each) {
    return error_of_scaling(nearest[0], nearest[1], algorithm, each);
  };
  if (is_link(nearest[0], nearest[1], algorithm)) return share(Growth::algorithm, true);
  return share(growth, off(share(growth, true)) < off(share(growth, false)));
}

}  // namespace planner
