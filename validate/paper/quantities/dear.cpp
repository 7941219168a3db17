// The closed forms of DeAR's paper, and the number of probes that a search for a cap needs.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "planner/run/predict.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

/// The terms of equation 6, times in one unit.
struct Times {
  double forward = 0;
  double backward = 0;
  double half = 0;  ///< of an all-reduce: reduce-scatter, or all-gather
};

/// `compute_ms` of both passes, of which forward takes `forward_share`; `parameters` of 4 bytes that cross a
/// link of `gbps` twice.
Times times_of(const Request& request) {
  constexpr double kBytes = 4;
  constexpr double kLargest = 1e15;
  const double compute = request.at("compute_ms").number(1e-6, kLargest);
  const double share = request.has("forward_share") ? request.at("forward_share").number(0, 1) : 1.0 / 3;
  const double bytes_per_ms = request.at("gbps").number(1e-6, 1e9) / 8 * 1e6;
  return {.forward = compute * share,
          .backward = compute * (1 - share),
          .half = request.at("parameters").number(0, kLargest) * kBytes / bytes_per_ms};
}

/// Equation 6.
Values s_max(const Request& request) {
  const Times t = times_of(request);
  const double compute = t.forward + t.backward;
  const double exposed = std::max(0.0, t.half - t.backward) + std::max(0.0, t.half - t.forward);
  const auto workers = static_cast<double>(request.at("workers").integer(1, core::kMaxWorkers));
  return {{"", workers * compute / (compute + exposed)}};
}

/// The exposed time of one half of the all-reduce in equation 6.
Values exposed_half_ms(const Request& request) {
  const Times t = times_of(request);
  const bool gathers = request.at("half").one_of({"reduce_scatter", "all_gather"}) == "all_gather";
  return {{"", std::max(0.0, t.half - (gathers ? t.forward : t.backward))}};
}

/// Returns 1 if equation 9 follows from equations 7 and 8, in integers, whenever backward takes twice as long
/// as forward: at every point of a grid of both.
Values equation_9(const Request& /*request*/) {
  for (std::int64_t forward = 0; forward <= 200; ++forward) {
    for (std::int64_t gather = 0; gather <= 700; ++gather) {
      const std::int64_t dear = std::max(forward, gather) + std::max(2 * forward, gather);
      const std::int64_t baseline = forward + std::max(2 * forward, 2 * gather);
      const std::int64_t saved = gather <= forward ? 0 : gather <= 2 * forward ? gather - forward : forward;
      if (baseline - dear != saved) return {{"", 0}};
    }
  }
  return {{"", 1}};
}

/// The time that `schedule` saves compared with `over`, in forward passes: equation 9 says at most one.
Values saved_forwards(const Request& request) {
  const scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  const planner::Metrics mine = predict(scenario, workers, request.schedule());
  const planner::Metrics other = predict(scenario, workers, request.schedule("over"));
  return {{"", (other.iteration_us - mine.iteration_us) / mine.forward_us}};
}

planner::Schedule searching(std::string_view kind, std::string_view keys) {
  const std::string text = fmt::format(R"({{"name": "dear", "fusion": {{"kind": "{}", {}}}}})", kind, keys);
  return planner::read_schedule(core::Field::parse(text, "probes"));
}

/// The number of probes after which the best value so far is, and stays, within 1 % of the best of any cap in
/// the range; the mean over several seeds for random searches.
Values probes_to_best(const Request& request) {
  constexpr std::int64_t kMaxProbes = 60;
  constexpr std::int64_t kSeeds = 40;
  constexpr double kStable = 1.01;
  const scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  const std::string kind = request.at("search").one_of({"bayesian", "random", "grid"});
  const auto iteration_us = [&](const planner::Schedule& schedule) {
    return predict(scenario, workers, schedule).iteration_us;
  };
  const double best =
      iteration_us(searching("sweep", R"("of": "modules", "from_bytes": 1000000, "to_bytes": 100000000)"));
  const std::int64_t seeds = kind == "grid" ? 1 : kSeeds;
  double sum = 0;
  for (std::int64_t seed = 1; seed <= seeds; ++seed) {
    const std::string sampled = kind == "grid" ? "" : fmt::format(R"(, "seed": {})", seed);
    const auto is_stable = [&](std::int64_t probes) {
      return iteration_us(searching(kind, fmt::format(R"("probes": {}{})", probes, sampled))) <=
             kStable * best;
    };
    std::int64_t probes = 1;
    if (kind == "grid") {  // one more probe changes all points, so no finer grid may miss the range
      for (probes = kMaxProbes; probes > 1 && is_stable(probes - 1);) --probes;
    } else {  // one more probe only adds a point, so a stable result stays stable
      for (std::int64_t max = kMaxProbes; probes < max;) {
        const std::int64_t middle = (probes + max) / 2;
        if (is_stable(middle))
          max = middle;
        else
          probes = middle + 1;
      }
    }
    sum += static_cast<double>(probes);
  }
  return {{"", sum / static_cast<double>(seeds)}};
}

}  // namespace

std::vector<Quantity> dear_quantities() {
  const std::vector<std::string_view> of_times = {"compute_ms", "forward_share", "parameters", "gbps"};
  std::vector<std::string_view> of_s_max = of_times;
  of_s_max.emplace_back("workers");
  std::vector<std::string_view> of_half = of_times;
  of_half.emplace_back("half");
  return {
      {"s_max", "equation 6 of DeAR: the maximum speed-up of workers over one", of_s_max, s_max},
      {"exposed_half_ms", "the exposed time of the `half` reduce_scatter or all_gather in equation 6",
       of_half, exposed_half_ms},
      {"equation_9", "1 if it follows from equations 7 and 8 of DeAR", {}, equation_9},
      {"saved_forwards",
       "the time that `schedule` saves compared with `over`, in forward passes",
       {"scenario", "workers", "schedule", "over", "network", "profile", "collectives"},
       saved_forwards},
      {"probes_to_best",
       "probes until a `search` (bayesian, random, grid) is within 1 % of the best cap",
       {"search", "scenario", "workers", "network", "profile", "collectives"},
       probes_to_best},
  };
}

}  // namespace validate
