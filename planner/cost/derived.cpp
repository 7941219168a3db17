#include "planner/cost/derived.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "sim/draws.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::CostCurve;
using Points = std::vector<std::pair<double, double>>;

/// Times below a bound by no more than this factor are below it by rounding.
constexpr double kAlmost = 1 - 1e-9;

/// The sizes at which a curve bends.
std::vector<double> sizes_of(const CostCurve& curve) {
  constexpr double kJustBelow = 1 - 1e-9;
  std::vector<double> out;
  for (const auto& [bytes, us] : curve.points()) out.push_back(bytes);
  for (const CostCurve::Segment& segment : curve.segments()) {
    out.push_back(segment.from_bytes);
    out.push_back(segment.to_bytes * kJustBelow);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The curve through the values of `us` at these sizes. It does not fall, since nothing gets faster by being
/// longer: a size that took longer than a larger one gets the time of that one.
CostCurve sampled_at(const std::vector<double>& sizes, const std::function<double(double)>& us) {
  Points points;
  for (const double bytes : sizes) points.emplace_back(bytes, us(bytes));
  for (std::size_t i = points.size() - 1; i-- > 0;)
    points[i].second = std::min(points[i].second, points[i + 1].second);
  return CostCurve::through(points);
}

// ---- other numbers of workers

/// What an algorithm pays on a number of workers: startups in multiples of those of two workers, and passes
/// of the message over the link.
struct Factors {
  double startups = 1;
  double passes = 1;
};

Factors factors(const Algorithm& algorithm, std::int64_t workers) {
  const AlgorithmEntry& named = algorithm_entry(algorithm.name);
  const AlgorithmEntry& entry = named.needs_nodes ? algorithm_entry("ring") : named;
  const auto of = [&](std::int64_t on) {
    return entry.cost(
        {.workers = on, .flat = {.alpha_us = 1, .beta_us_per_byte = 1, .gamma_us_per_byte = 0}, .nodes = {}},
        algorithm);
  };
  const ClosedForm form = of(workers);
  return {.startups = form.startup_us / of(2).startup_us, .passes = form.link_us_per_byte};
}

/// How startups grow with the workers. A library that is free to choose sums small messages of many workers
/// along trees.
enum class Growth {
  algorithm,  ///< by the algorithm's number of startups
  library,    ///< a ring's up to 8 workers; beyond them each doubling adds what that from 4 to 8 does
  logarithm   ///< each doubling adds as much
};

double startups(Growth growth, const Algorithm& algorithm, std::int64_t workers) {
  constexpr std::int64_t kOfOneMachine = 8;
  const auto doublings = [](double ratio) { return sim::portable_log(ratio) / sim::portable_log(2); };
  if (growth == Growth::logarithm) return doublings(static_cast<double>(workers));
  if (growth == Growth::algorithm || workers <= kOfOneMachine) return factors(algorithm, workers).startups;
  const double before = factors(algorithm, kOfOneMachine).startups;
  const double half_before = factors(algorithm, kOfOneMachine / 2).startups;
  return before + (before - half_before) * doublings(static_cast<double>(workers) / kOfOneMachine);
}

/// y = fixed + each * x with neither below 0, by least squares of relative errors. Needs values above 0.
struct RisingLine {
  double fixed = 0;
  double each = 0;
  double at(double x) const { return fixed + each * x; }
};

RisingLine rising_line(const Points& points) {
  double ones = 0;
  double ones_x = 0;
  double x_x = 0;
  double fixed = 0;
  double each = 0;
  for (const auto& [x, y] : points) {
    ones += 1 / (y * y);
    ones_x += x / (y * y);
    x_x += x * x / (y * y);
    fixed += 1 / y;
    each += x / y;
  }
  const double determinant = ones * x_x - ones_x * ones_x;
  constexpr double kSingular = 1e-12;
  if (determinant <= kSingular * ones * x_x) return {.fixed = fixed / ones};
  const RisingLine out = {.fixed = (fixed * x_x - each * ones_x) / determinant,
                          .each = (each * ones - fixed * ones_x) / determinant};
  if (out.fixed < 0) return {.each = each / x_x};
  return out.each < 0 ? RisingLine{.fixed = fixed / ones} : out;
}

/// The startup that a curve's small messages show; 0 if the smallest one measured is not small enough. From
/// several sizes, as a single one is noisy.
double startup_of(const CostCurve& curve) {
  constexpr double kMostOfTheTime = 0.9;
  constexpr double kSmall = 8;
  const std::vector<double> sizes = sizes_of(curve);
  if (sizes.size() < 2) return 0;
  Points small;
  for (const double bytes : sizes) {
    if (small.size() > 1 && bytes > kSmall * sizes.front()) break;
    const double us = curve.us(bytes);
    if (us <= 0) return 0;
    small.emplace_back(bytes, us);
  }
  const RisingLine line = rising_line(small);
  return line.fixed >= kMostOfTheTime * line.at(sizes.front()) ? line.fixed : 0;
}

/// A startup is fixed + a part for each of the algorithm's startups. Only the ratio of the two is needed.
struct StartupShare {
  Growth growth = Growth::algorithm;
  double fixed = 0;
  double each = 1;
  /// Whether a startup is paid in full by messages of any size, as on a link with alpha and beta.
  bool adds = false;
  /// What a worker copies for itself while it receives the others' parts, as a part of one of these.
  double copied = 0;

  double at(const Algorithm& algorithm, std::int64_t workers) const {
    return fixed + each * startups(growth, algorithm, workers);
  }
};

/// Large messages grow with the passes, which keeps the bus bandwidth; the share of the time that is startup
/// grows with the startups. Squared, because a startup overlaps with the first bytes of a longer message. No
/// message takes less than the startup alone, which with many more workers the square would let it.
double scaled_us(const MeasuredOn& from, std::int64_t workers, const Algorithm& algorithm,
                 const StartupShare& share, double bytes) {
  const double us = from.curve->us(bytes);
  const auto passes = [&](std::int64_t on) {
    return factors(algorithm, on).passes + 2 * share.copied / static_cast<double>(on);
  };
  const double by_passes = passes(workers) / passes(from.workers);
  const double by_startups = share.at(algorithm, workers) / share.at(algorithm, from.workers);
  const double startup = us > 0 ? std::min(1.0, startup_of(*from.curve) / us) : 0;
  return us * std::max(by_passes + (by_startups - by_passes) * (share.adds ? startup : startup * startup),
                       by_startups * startup);
}

/// The mean relative error of the nearer curve, predicted from the other one alone.
double error_of_scaling(const MeasuredOn& near, const MeasuredOn& far, const Algorithm& algorithm,
                        const StartupShare& share) {
  double sum = 0;
  const std::vector<double> sizes = sizes_of(*near.curve);
  for (const double bytes : sizes) {
    const double us = near.curve->us(bytes);
    if (us <= 0) return std::numeric_limits<double>::infinity();
    sum += std::abs(scaled_us(far, near.workers, algorithm, share, bytes) / us - 1);
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
  Points points;
  for (const MeasuredOn& each : measured)
    points.emplace_back(startups(growth, algorithm, each.workers), startup_of(*each.curve));
  const RisingLine line = rising_line(points);
  double out = 0;
  for (const auto& [steps, us] : points) out += std::abs(line.at(steps) / us - 1);
  return out / static_cast<double>(points.size());
}

double logarithm(double ratio) { return sim::portable_log(ratio); }

/// Distance between two numbers of workers.
double distance(std::int64_t a, std::int64_t b) {
  return std::abs(logarithm(static_cast<double>(a) / static_cast<double>(b)));
}

using Predictor = std::function<double(double bytes)>;

void sort_by_distance(std::vector<MeasuredOn>& measured, std::int64_t workers) {
  std::stable_sort(measured.begin(), measured.end(), [&](const MeasuredOn& a, const MeasuredOn& b) {
    return distance(a.workers, workers) < distance(b.workers, workers);
  });
}

/// The curve nearest to a number of workers, and the one by which to tell how times change with the workers:
/// that on the other side, or the next nearest.
struct Neighbours {
  MeasuredOn near;
  std::optional<MeasuredOn> far;
};

Neighbours neighbours(const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  std::vector<MeasuredOn> nearest = measured;
  sort_by_distance(nearest, workers);
  Neighbours out = {.near = nearest.front(), .far = {}};
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

/// What a worker copies for itself: on NVLink machines, from A100 to B200; nothing where the bus bandwidth
/// shows that messages pass something slower than a worker's memory.
double copied_part(const MeasuredOn& from, const Algorithm& algorithm, CollectiveKind kind) {
  constexpr double kMinBytesPerUs = 50e3;
  const bool is_whole = kind == CollectiveKind::all_reduce;
  const double bytes = sizes_of(*from.curve).back();
  const double passes = factors(algorithm, from.workers).passes / (is_whole ? 1 : 2);
  if (passes * bytes < kMinBytesPerUs * from.curve->us(bytes)) return 0;
  return is_whole ? 0.25 : 0.5;
}

/// How startups grow, and with one number of workers what is fixed of them: as on NVLink machines from A100
/// to B200. An all-reduce whose algorithm is not stated is a library's, unless its curves say otherwise:
/// three startups tell how they grow, and two curves whether each is a link with alpha and beta.
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
    return {.growth = growth,
            .fixed = kind == CollectiveKind::all_reduce ? 3.0 : 8.0,
            .each = 1,
            .copied = copied_part(neighbours(measured, workers).near, algorithm, kind)};
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
  return [=](double bytes) { return scaled_us(nearest.near, workers, algorithm, share, bytes); };
}

/// Whether leaving out a number of workers tests a prediction in the same direction: to more workers the
/// smallest number says nothing, to fewer the largest, and to a number between others neither does.
bool tells(const std::vector<MeasuredOn>& measured, std::size_t left_out, std::int64_t workers) {
  const bool is_up = workers > measured.back().workers;
  const bool is_down = workers < measured.front().workers;
  if (!is_up && !is_down && measured.size() < 3) return true;
  return !(left_out == 0 && !is_down) && !(left_out + 1 == measured.size() && !is_up);
}

/// Logarithms of measured over predicted, each number of workers predicted from the others. How startups grow
/// takes two numbers of workers to see, and so does whether they add up: what was left out does not unsee it.
struct LeftOutRatios {
  std::vector<double> all;   ///< sorted
  double telling_error = 0;  ///< the mean error of those that test a prediction in the same direction
};

LeftOutRatios left_out_ratios(const std::vector<MeasuredOn>& measured, std::int64_t workers,
                              const Algorithm& algorithm, CollectiveKind kind, const StartupShare& share) {
  LeftOutRatios out;
  double sum = 0;
  double count = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    std::vector<MeasuredOn> others = measured;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const StartupShare theirs =
        share.adds || others.size() < 2 ? share : startup_share(others, measured[i].workers, algorithm, kind);
    const auto predicted = predictor(others, measured[i].workers, algorithm, theirs);
    for (const double bytes : sizes_of(*measured[i].curve)) {
      const double us = measured[i].curve->us(bytes);
      if (us <= 0 || predicted(bytes) <= 0) continue;
      out.all.push_back(logarithm(us / predicted(bytes)));
      if (!tells(measured, i, workers)) continue;
      sum += sim::portable_exp(std::abs(out.all.back())) - 1;
      ++count;
    }
  }
  std::sort(out.all.begin(), out.all.end());
  if (count > 0) out.telling_error = sum / count;
  return out;
}

/// Returns how much farther the prediction reaches than those by which it was tested.
double reach(const std::vector<MeasuredOn>& measured, std::int64_t workers) {
  double tested = std::numeric_limits<double>::infinity();
  double nearest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < measured.size(); ++i) {
    nearest = std::min(nearest, distance(measured[i].workers, workers));
    if (i > 0) tested = std::min(tested, distance(measured[i].workers, measured[i - 1].workers));
  }
  return std::max(1.0, nearest / tested);
}

void add_error(Extrapolation& out, const std::vector<MeasuredOn>& measured, std::int64_t workers,
               const Algorithm& algorithm, CollectiveKind kind, const StartupShare& share) {
  constexpr double kTail = 0.025;
  // With one number of workers nothing can be left out; 19 in 20 of the predictions from one half or one
  // quarter of the workers of the bundled machines with a switch lie in this range.
  constexpr double kAloneLow = 0.7;
  constexpr double kAloneHigh = 1.6;
  constexpr double kTested = 4;
  const LeftOutRatios left_out =
      measured.size() < 2 ? LeftOutRatios{} : left_out_ratios(measured, workers, algorithm, kind, share);
  const std::vector<double>& ratios = left_out.all;
  if (ratios.empty()) {
    const double farther = std::max(1.0, distance(measured.front().workers, workers) / logarithm(kTested));
    out.low_factor = sim::portable_exp(farther * logarithm(kAloneLow));
    out.high_factor = sim::portable_exp(farther * logarithm(kAloneHigh));
    return;
  }
  out.left_out_error = left_out.telling_error;
  const auto at = [&](double quantile) {
    return ratios[static_cast<std::size_t>(std::lround(quantile * static_cast<double>(ratios.size() - 1)))];
  };
  const double widened = reach(measured, workers);
  out.low_factor = sim::portable_exp(widened * std::min(0.0, at(kTail)));
  out.high_factor = sim::portable_exp(widened * std::max(0.0, at(1 - kTail)));
}

std::vector<MeasuredOn> measured_on(const core::Network& network, const Algorithm& algorithm,
                                    CollectiveKind kind) {
  std::vector<MeasuredOn> out;
  for (const core::Measured& each : network.measured) {
    const bool is_known = std::any_of(out.begin(), out.end(),
                                      [&](const MeasuredOn& other) { return other.workers == each.workers; });
    if (each.collective == kind && each.workers > 1 && !is_known && sizes_of(each.curve).size() > 1 &&
        each.algorithm.value_or(algorithm.name) == algorithm.name)
      out.push_back({.workers = each.workers, .curve = &each.curve, .is_stated = each.algorithm.has_value()});
  }
  std::sort(out.begin(), out.end(),
            [](const MeasuredOn& a, const MeasuredOn& b) { return a.workers < b.workers; });
  return out;
}

std::vector<std::int64_t> workers_of(const std::vector<MeasuredOn>& measured) {
  std::vector<std::int64_t> out;
  for (const MeasuredOn& each : measured) out.push_back(each.workers);
  return out;
}

std::optional<DerivedCost> extrapolated_cost(const core::Network& network, std::int64_t workers,
                                             const Algorithm& algorithm, CollectiveKind kind) {
  const std::vector<MeasuredOn> measured = measured_on(network, algorithm, kind);
  if (measured.empty()) return std::nullopt;
  const Extrapolation found = extrapolate(measured, workers, algorithm, kind);
  if (found.left_out_error && *found.left_out_error > kMaxLeftOutError)
    throw core::Unsupported(
        fmt::format("a number of workers for which network '{}' has a cost of {} {} (measured on {}, which "
                    "predict one another with a mean error of {:.0f} %, too much to go by; measure it on {})",
                    network.name, algorithm.name, core::name(kind), fmt::join(workers_of(measured), ", "),
                    100 * *found.left_out_error, workers),
        fmt::to_string(workers));
  DerivedCost out = {.curve = found.curve,
                     .derivation = {},
                     .low_factor = found.low_factor,
                     .high_factor = found.high_factor};
  out.derivation = fmt::format(
      "extrapolated from {} workers by the factors of {}; {}", fmt::join(found.from, " and "),
      algorithm_entry(algorithm.name).needs_nodes ? "ring" : algorithm.name,
      found.left_out_error
          ? fmt::format("measured numbers of workers predict one another with a mean error of {:.0f} %",
                        100 * *found.left_out_error)
          : "with one number of workers nothing says how far that can be trusted, a second one would");
  return out;
}

// ---- the halves of an all-reduce

/// The share of an all-reduce that one half of it takes on the bundled machines: more for small messages,
/// whose startups are not halved.
constexpr double kHalfOfLarge = 0.57;
constexpr double kMoreOfSmall = 0.18;
/// 19 in 20 of the halves on the bundled machines lie between these factors of it.
constexpr double kHalfLow = 0.82;
constexpr double kHalfHigh = 1.35;

DerivedCost half_of(const DerivedCost& whole) {
  const CostCurve& curve = whole.curve;
  const double startup = startup_of(curve);
  DerivedCost out = {.curve = {},
                     .derivation = {},
                     .low_factor = kHalfLow * whole.low_factor,
                     .high_factor = kHalfHigh * whole.high_factor};
  out.curve = sampled_at(sizes_of(curve), [&](double bytes) {
    const double us = curve.us(bytes);
    const double small = us > 0 ? std::min(1.0, startup / us) : 0;
    return us * (kHalfOfLarge + kMoreOfSmall * small);
  });
  out.derivation = fmt::format(
      "ASSUMED to take {:.2f} of an all-reduce, up to {:.2f} of a small one, as on the bundled machines; "
      "measure it{}{}",
      kHalfOfLarge, kHalfOfLarge + kMoreOfSmall, whole.derivation.empty() ? "" : "; the all-reduce is ",
      whole.derivation);
  return out;
}

// ---- several nodes

/// The larger of the curve and a line through 0, with the sizes where they cross.
CostCurve larger(const CostCurve& curve, double us_per_byte) {
  std::vector<double> sizes = sizes_of(curve);
  const auto above = [&](double bytes) { return curve.us(bytes) - us_per_byte * bytes; };
  // Below the first size the first value holds.
  if (above(sizes.front()) < 0) sizes.insert(sizes.begin(), curve.us(sizes.front()) / us_per_byte);
  // Beyond the last size the line and the last line of the curve may cross in either direction.
  const double last = sizes.back();
  const double far = 2 * last + 1;
  const double slope = (curve.us(far) - curve.us(last)) / (far - last);
  if (slope != us_per_byte) {
    const double cross = std::max(last, (curve.us(last) - slope * last) / (us_per_byte - slope));
    if (cross > last) sizes.push_back(cross);
    if (cross > last || slope < us_per_byte) sizes.push_back(2 * cross + 1);
  }
  std::vector<double> all = sizes;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const double first = above(sizes[i]);
    const double second = above(sizes[i + 1]);
    if ((first < 0) != (second < 0) && first != second)
      all.push_back(sizes[i] + (sizes[i + 1] - sizes[i]) * first / (first - second));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  Points points;
  for (const double bytes : all) points.emplace_back(bytes, std::max(curve.us(bytes), us_per_byte * bytes));
  return CostCurve::through(points);
}

}  // namespace

Extrapolation extrapolate(const std::vector<MeasuredOn>& measured, std::int64_t workers,
                          const Algorithm& algorithm, CollectiveKind kind) {
  assert(!measured.empty());
  const Neighbours nearest = neighbours(measured, workers);
  const StartupShare share = startup_share(measured, workers, algorithm, kind);
  std::vector<MeasuredOn> used = {nearest.near};
  if (nearest.far) used.push_back(*nearest.far);
  std::sort(used.begin(), used.end(), [](const auto& a, const auto& b) { return a.workers < b.workers; });
  std::vector<double> sizes;
  for (const MeasuredOn& each : used)
    for (const double bytes : sizes_of(*each.curve)) sizes.push_back(bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  Extrapolation out = {.curve = sampled_at(sizes, predictor(measured, workers, algorithm, share)),
                       .from = workers_of(used),
                       .left_out_error = {}};
  add_error(out, measured, workers, algorithm, kind, share);
  return out;
}

const core::Measured* find_measured(const core::Network& network, std::int64_t workers,
                                    const Algorithm& algorithm, CollectiveKind kind) {
  for (const core::Measured& measured : network.measured)
    if (measured.collective == kind && measured.workers == workers &&
        measured.algorithm.value_or(algorithm.name) == algorithm.name)
      return &measured;
  return nullptr;
}

bool has_measured_nodes(const core::Network& network) {
  return !network.measured.empty() && network.levels.size() == 2 &&
         network.levels.front().name == kMeasuredNode && network.levels.front().size.has_value();
}

namespace {

std::optional<DerivedCost> cost_in_node(const core::Network& network, std::int64_t workers,
                                        const Algorithm& algorithm, CollectiveKind kind) {
  if (const core::Measured* measured = find_measured(network, workers, algorithm, kind))
    return DerivedCost{.curve = measured->curve, .derivation = {}};
  if (kind == CollectiveKind::all_reduce) return extrapolated_cost(network, workers, algorithm, kind);
  if (!algorithm_entry(algorithm.name).has_halves) return std::nullopt;
  const core::Measured* whole = find_measured(network, workers, algorithm, CollectiveKind::all_reduce);
  const bool has_sizes =
      whole != nullptr && sizes_of(whole->curve).size() > 1;  // one size says nothing of others
  if (has_sizes && measured_on(network, algorithm, kind).empty())
    return half_of({.curve = whole->curve, .derivation = {}});
  if (auto own = extrapolated_cost(network, workers, algorithm, kind)) return own;
  const auto all_reduce = extrapolated_cost(network, workers, algorithm, CollectiveKind::all_reduce);
  if (!all_reduce) return std::nullopt;
  return half_of(*all_reduce);
}

/// Several nodes. A ring sends through all of them at once, so that the slower of node and port decides; the
/// steps of two_level follow one another.
DerivedCost cost_of_nodes(const core::Network& network, std::int64_t workers, const Algorithm& algorithm,
                          CollectiveKind kind) {
  const std::int64_t node = *network.levels.front().size;
  const core::Level& joins = network.levels.back();
  if (workers % node != 0)
    throw core::Unsupported(
        fmt::format("a multiple of the {} workers in a node of network '{}'", node, network.name),
        fmt::to_string(workers));
  const std::optional<DerivedCost> inside = cost_in_node(network, node, algorithm, kind);
  if (!inside)
    throw core::Unsupported(fmt::format("a curve of {} {} on the {} workers of a node in network '{}'",
                                        algorithm.name, core::name(kind), node, network.name),
                            "none");
  const CostCurve& curve = inside->curve;
  const auto nodes = static_cast<double>(workers / node);
  const double passes = kind == CollectiveKind::all_reduce ? 2 : 1;
  const double share = joins.shared ? 1 : 1 / static_cast<double>(node);
  const double us_per_byte = passes * (nodes - 1) / nodes * share * joins.link.beta_us_per_byte;
  const double startup_us = passes * (nodes - 1) * joins.link.alpha_us;
  const bool in_turn = algorithm_entry(algorithm.name).needs_nodes;

  const CostCurve together = larger(curve, us_per_byte);
  const auto sum = [&](double bytes) { return startup_us + curve.us(bytes) + us_per_byte * bytes; };
  const auto longer = [&](double bytes) { return startup_us + together.us(bytes); };
  const double last = sizes_of(curve).back();
  const double slower = longer(last) > 0 ? std::max(1.0, sum(last) / longer(last)) : 1;
  DerivedCost out = {.curve = {},
                     .derivation = {},
                     .low_factor = inside->low_factor / (in_turn ? slower : 1),
                     .high_factor = inside->high_factor * (in_turn ? 1 : slower)};
  out.curve = in_turn ? sampled_at(sizes_of(curve), sum) : sampled_at(sizes_of(together), longer);
  out.derivation = fmt::format(
      "{} nodes of {} workers over {:.6g} Gb/s for each {}: the curve of one node {} a "
      "ring between nodes{}{}",
      workers / node, node, 8e-3 / joins.link.beta_us_per_byte, joins.shared ? "node" : "worker",
      in_turn ? "and, after it," : "or, if that takes longer,",
      inside->derivation.empty() ? "" : "; in a node ", inside->derivation);
  return out;
}

}  // namespace

std::optional<DerivedCost> derived_cost(const core::Network& network, std::int64_t workers,
                                        const Algorithm& algorithm, CollectiveKind kind) {
  if (has_measured_nodes(network)) {
    if (workers > *network.levels.front().size) return cost_of_nodes(network, workers, algorithm, kind);
  } else if (network.link || !network.levels.empty()) {
    return std::nullopt;
  }
  return cost_in_node(network, workers, algorithm, kind);
}

core::Network with_derived(core::Network network, std::int64_t workers, const Algorithm& algorithm) {
  if (workers < 2 || has_measured_nodes(network)) return network;
  std::vector<core::Measured> derived;
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    if (find_measured(network, workers, algorithm, kind) != nullptr) continue;
    try {
      if (const auto cost = derived_cost(network, workers, algorithm, kind))
        derived.push_back({.collective = kind,
                           .algorithm = algorithm.name,
                           .workers = workers,
                           .curve = cost->curve,
                           .fit = {}});
    } catch (const core::Unsupported&) {  // is refused again by what needs it
    }
  }
  network.measured.insert(network.measured.end(), derived.begin(), derived.end());
  return network;
}

void join_nodes(core::Network& network, const core::Link& between, bool is_shared) {
  std::int64_t node = 2;
  for (const core::Measured& each : network.measured) node = std::max(node, each.workers);
  core::Link inside;
  if (const core::Measured* whole = find_measured(network, node, {}, CollectiveKind::all_reduce)) {
    const CostCurve& curve = whole->curve;
    const auto p = static_cast<double>(node);
    const double last = sizes_of(curve).back();
    inside.alpha_us = curve.startup_us() / (2 * (p - 1));
    inside.beta_us_per_byte =
        std::max(0.0, curve.us(last) - curve.startup_us()) / std::max(1.0, last) * p / (2 * (p - 1));
  }
  network.link.reset();
  network.levels = {{.name = std::string(kMeasuredNode), .size = node, .link = inside},
                    {.name = "between", .size = {}, .link = between, .shared = is_shared}};
}

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
  const bool changes = std::any_of(out.points().begin(), out.points().end(), [&](const auto& point) {
    return curve.us(point.first) < kAlmost * point.second;
  });
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
