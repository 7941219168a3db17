#include "planner/cost/extrapolate.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/draws.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

using Predictor = std::function<double(double bytes)>;

/// The part of the way from one number of workers to another that a third one lies beyond the latter.
double steps_beyond(double from, double to, double third) {
  return from == to ? 0 : (third - to) / (to - from);
}

/// The median of those that are numbers (of an even count the larger middle one); nothing if none is. To a
/// time of 0 there is no ratio.
std::optional<double> finite_median(std::array<double, 5> values) {
  auto* const end =
      std::remove_if(values.begin(), values.end(), [](double each) { return !std::isfinite(each); });
  if (end == values.begin()) return std::nullopt;
  auto* const middle = values.begin() + (end - values.begin()) / 2;
  std::nth_element(values.begin(), middle, end);
  return *middle;
}

/// Two numbers of workers tell how times change with them: startups by the algorithm's number of startups,
/// the rest by its passes over the link. On a machine that is a link with alpha and beta that is exact.
class FromTwo {
 public:
  FromTwo(const MeasuredOn& near, const MeasuredOn& far, std::int64_t workers, const Algorithm& algorithm,
          Growth growth)
      : near_(near), far_(far), workers_(workers) {
    const auto on = [&](std::int64_t each) {
      return Factors{.startups = startups(growth, algorithm, each),
                     .passes = factors(algorithm, each).passes};
    };
    const Factors on_near = on(near.workers);
    const Factors on_far = on(far.workers);
    const Factors wanted = on(workers);
    startup_steps_ = steps_beyond(on_far.startups, on_near.startups, wanted.startups);
    pass_steps_ = steps_beyond(on_far.passes, on_near.passes, wanted.passes);
    near_startup_ = startup_of(*near.curve);
    far_startup_ = startup_of(*far.curve);
    if (near_startup_ == 0 || far_startup_ == 0) near_startup_ = far_startup_ = 0;
    const std::vector<double> near_sizes = sizes_of(*near.curve);
    const std::vector<double> far_sizes = sizes_of(*far.curve);
    first_ = std::max(near_sizes.front(), far_sizes.front());
    last_ = std::max(first_, std::min(near_sizes.back(), far_sizes.back()));
    const double by_passes = wanted.passes / on_near.passes;
    const double by_startups = wanted.startups / on_near.startups;
    if (workers > near.workers) {
      most_ = std::max({1.0, by_passes, by_startups});
      return;
    }
    least_ = std::min({1.0, by_passes, by_startups});
    least_startup_ = std::max(0.0, near_startup_ + startup_steps_ * (near_startup_ - far_startup_));
    near_passes_ = on_near.passes;
    far_passes_ = on_far.passes;
    least_by_passes_ = by_passes;
  }

  double us(double bytes) const {
    const double near_us = with_same_bends(near_, near_startup_, bytes);
    // A single size on another side of a jump than its counterpart on the other curve says nothing.
    const auto ratio_at = [&](double factor) {
      const double size = std::clamp(factor * bytes, first_, last_);
      return with_same_bends(far_, far_startup_, size) / with_same_bends(near_, near_startup_, size);
    };
    const std::optional<double> median =
        finite_median({ratio_at(0.25), ratio_at(0.5), ratio_at(1), ratio_at(2), ratio_at(4)});
    if (!median) return near_us;
    // More workers never take less time, even if noise says so.
    const double ratio = near_.workers > far_.workers ? std::min(1.0, *median) : std::max(1.0, *median);
    const double step = near_us * (1 - ratio);
    if (step == 0) return near_us;
    const double startup_share = std::clamp((near_startup_ - far_startup_) / step, 0.0, 1.0);
    const double steps = pass_steps_ + (startup_steps_ - pass_steps_) * startup_share;
    return std::clamp(near_us + steps * step, std::max(least_ * near_us, least_us(near_us, ratio)),
                      most_ * near_us);
  }

 private:
  /// On fewer workers the bus bandwidth rises by no more than it does from the other curve to the near one.
  double least_us(double near_us, double ratio) const {
    if (least_by_passes_ == 0 || near_.workers > far_.workers) return 0;
    const double near_rest = std::max(0.0, near_us - near_startup_);
    const double far_rest = std::max(0.0, near_us * ratio - far_startup_);
    if (far_rest == 0) return 0;
    const double slower = std::min(1.0, near_rest / near_passes_ / (far_rest / far_passes_));
    return std::min(near_us, least_startup_ + least_by_passes_ * near_rest * slower);
  }

  /// The time on the workers of a curve, with its bends where they are expected on the workers that are
  /// wanted: between the same size of a message and the same size of each worker's part of it.
  double with_same_bends(const MeasuredOn& from, double startup, double bytes) const {
    const std::vector<std::pair<double, double>>& points = from.curve->points();
    const double shift = std::sqrt(static_cast<double>(from.workers) / static_cast<double>(workers_));
    double size = shift * bytes;
    if (!points.empty()) size = std::clamp(size, points.front().first, points.back().first);
    return size > 0 ? startup + std::max(0.0, from.curve->us(size) - startup) * bytes / size
                    : from.curve->us(bytes);
  }

  MeasuredOn near_;
  MeasuredOn far_;
  std::int64_t workers_;
  double startup_steps_ = 0;
  double pass_steps_ = 0;
  double near_startup_ = 0;
  double far_startup_ = 0;
  double first_ = 0;
  double last_ = 0;
  double least_ = 1;
  double most_ = 1;
  double least_startup_ = 0;
  double near_passes_ = 1;
  double far_passes_ = 1;
  double least_by_passes_ = 0;  ///< 0 on more workers
};

/// Predicted times without an error estimate.
Predictor predictor(const std::vector<MeasuredOn>& measured, std::int64_t workers, const Algorithm& algorithm,
                    const StartupShare& share) {
  const Neighbours nearest = neighbours(measured, workers);
  if (nearest.far)
    return [from = FromTwo(nearest.near, *nearest.far, workers, algorithm, share.growth)](double bytes) {
      return from.us(bytes);
    };
  return [scaled = ScaledCurve(nearest.near, workers, algorithm, share)](double bytes) {
    return scaled.us(bytes);
  };
}

/// Whether leaving out a number of workers tests a prediction in the same direction: to more workers the
/// smallest number says nothing, to fewer the largest, and to a number between others neither does.
bool tests_direction(const std::vector<MeasuredOn>& measured, std::size_t left_out, std::int64_t workers) {
  const bool is_up = workers > measured.back().workers;
  const bool is_down = workers < measured.front().workers;
  if (!is_up && !is_down && measured.size() < 3) return true;
  return !(left_out == 0 && !is_down) && !(left_out + 1 == measured.size() && !is_up);
}

/// Logarithms of measured over predicted, each number of workers predicted from the others. How startups grow
/// takes two numbers of workers to see, and so does whether they add up: what was left out does not unsee it.
struct LeftOutRatios {
  std::vector<double> all;    ///< sorted
  double directed_error = 0;  ///< the mean error of those that test a prediction in the same direction
};

LeftOutRatios left_out_ratios(const std::vector<MeasuredOn>& measured, std::int64_t workers,
                              const Algorithm& algorithm, CollectiveKind kind, const StartupShare& share) {
  constexpr std::size_t kMaxTested = 2048;  // sizes of a curve
  LeftOutRatios out;
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    std::vector<MeasuredOn> others = measured;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const StartupShare theirs =
        share.adds || others.size() < 2 ? share : startup_share(others, measured[i].workers, algorithm, kind);
    const auto predicted = predictor(others, measured[i].workers, algorithm, theirs);
    const std::vector<double> sizes = sizes_of(*measured[i].curve);
    const std::size_t step = (sizes.size() + kMaxTested - 1) / kMaxTested;
    for (std::size_t at = 0; at < sizes.size(); at += step) {
      const double us = measured[i].curve->us(sizes[at]);
      const double predicted_us = us > 0 ? predicted(sizes[at]) : 0;
      if (predicted_us <= 0) continue;
      out.all.push_back(sim::portable_log(us / predicted_us));
      if (!tests_direction(measured, i, workers)) continue;
      sum += sim::portable_exp(std::abs(out.all.back())) - 1;
      ++count;
    }
  }
  std::ranges::sort(out.all);
  if (count > 0) out.directed_error = sum / count;
  return out;
}

double nearest_distance(const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  return distance(neighbours(measured, workers).near.workers, workers);
}

/// Returns how much farther the prediction reaches than those by which it was tested.
double reach(const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  double tested = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < measured.size(); ++i)
    tested = std::min(tested, distance(measured[i].workers, measured[i - 1].workers));
  return std::max(1.0, nearest_distance(measured, workers) / tested);
}

/// The logarithms of the range where nothing can be tested, as with a single number of workers: 19 in 20 of
/// the predictions from one half or one quarter of the workers of the bundled machines with a switch lie in
/// it.
std::pair<double, double> untested_range(const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  constexpr double kLow = 0.7;
  constexpr double kHigh = 1.6;
  constexpr double kFarthest = 4;
  const double farther = std::max(1.0, nearest_distance(measured, workers) / sim::portable_log(kFarthest));
  return {farther * sim::portable_log(kLow), farther * sim::portable_log(kHigh)};
}

void add_error(Extrapolation& out, const std::vector<MeasuredOn>& measured, std::int64_t workers,
               const Algorithm& algorithm, CollectiveKind kind, const StartupShare& share) {
  constexpr double kTail = 0.025;
  const LeftOutRatios left_out =
      measured.size() < 2 ? LeftOutRatios{} : left_out_ratios(measured, workers, algorithm, kind, share);
  const std::vector<double>& ratios = left_out.all;
  if (ratios.empty()) {
    const auto [low, high] = untested_range(measured, workers);
    out.low_factor = sim::portable_exp(low);
    out.high_factor = sim::portable_exp(high);
    return;
  }
  out.left_out_error = left_out.directed_error;
  const auto at = [&](double quantile) {
    return ratios[static_cast<std::size_t>(std::lround(quantile * static_cast<double>(ratios.size() - 1)))];
  };
  const double widened = reach(measured, workers);
  std::tie(out.low_factor, out.high_factor) =
      with_untested({sim::portable_exp(widened * std::min(0.0, at(kTail))),
                     sim::portable_exp(widened * std::max(0.0, at(1 - kTail)))},
                    measured, workers);
}

/// Keeps the nearest numbers of workers on both sides, because testing each by the others takes as many steps
/// as there are pairs.
std::vector<MeasuredOn> nearest(const std::vector<MeasuredOn>& all, std::int64_t workers) {
  constexpr std::ptrdiff_t kMost = 16;
  const auto above = std::partition_point(all.begin(), all.end(),
                                          [&](const MeasuredOn& each) { return each.workers < workers; });
  auto begin = above - std::min(above - all.begin(), kMost / 2);
  const auto end = begin + std::min(all.end() - begin, kMost);
  begin = end - std::min(end - all.begin(), kMost);
  return {begin, end};
}

}  // namespace

std::pair<double, double> with_untested(std::pair<double, double> tested,
                                        const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  const auto [low, high] = untested_range(measured, workers);
  // One test more is imagined, which shows what is expected without any test; its variance is added.
  const double share = 1 / static_cast<double>(measured.size() + 1);
  const auto sum = [&](double of_tests, double without) {
    return std::sqrt(of_tests * of_tests + share * without * without);
  };
  return {sim::portable_exp(-sum(sim::portable_log(tested.first), low)),
          sim::portable_exp(sum(sim::portable_log(tested.second), high))};
}

std::string growth_text(Growth growth, const Algorithm& algorithm, std::int64_t workers) {
  const std::string_view name =
      algorithm_entry(algorithm.name).needs_nodes ? "ring" : std::string_view(algorithm.name);
  if (growth == Growth::algorithm || (growth == Growth::library && workers <= core::kWorkersOfMachine))
    return fmt::format("bytes sent and startups grow as with {}", name);
  return fmt::format(
      "bytes sent grow as with {}, startups{} as with trees", name,
      growth == Growth::library ? fmt::format(" beyond {} workers", core::kWorkersOfMachine) : "");
}

Extrapolation extrapolate(const std::vector<MeasuredOn>& all, std::int64_t workers,
                          const Algorithm& algorithm, CollectiveKind kind) {
  assert(!all.empty());
  const std::vector<MeasuredOn> measured = nearest(all, workers);
  const Neighbours scaled = neighbours(measured, workers);
  const StartupShare share = startup_share(measured, workers, algorithm, kind);
  std::vector<MeasuredOn> used = {scaled.near};
  if (scaled.far) used.push_back(*scaled.far);
  std::ranges::sort(used, [](const auto& a, const auto& b) { return a.workers < b.workers; });
  std::vector<double> sizes;
  for (const MeasuredOn& each : used)
    for (const double bytes : sizes_of(*each.curve)) sizes.push_back(bytes);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const Predictor us = predictor(measured, workers, algorithm, share);
  std::vector<Peak> peaks = peaks_of(sizes, us);
  const core::CostCurve& nearest_curve = *scaled.near.curve;
  if (peaks.empty())  // a narrow one may lie between these sizes
    peaks = peaks_of(sizes_of(nearest_curve), [&](double bytes) { return nearest_curve.us(bytes); });
  Extrapolation out = {.curve = sampled_at(sizes, us),
                       .from = workers_of(used),
                       .growth = share.growth,
                       .peaks = std::move(peaks)};
  add_error(out, measured, workers, algorithm, kind, share);
  return out;
}

}  // namespace planner
