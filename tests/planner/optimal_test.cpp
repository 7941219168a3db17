// The exact planner against all 2^(n-1) groupings, its tie rule included, and against what is simulated.

#include "planner/iteration.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/groups.hpp"

namespace planner {
namespace {

using sim::Time;
using support::fused;
using support::gradients_of;
using support::pair_of;
using support::Random;
using support::Scene;
using support::schedule_of;
using support::shown;

constexpr auto kAllReduce = traces::CollectiveKind::all_reduce;

std::vector<Time> ready_times(const Workload& workload) {
  std::vector<Time> ready;
  for (const Gradient& gradient : workload.gradients) ready.push_back(gradient.ready);
  return ready;
}

/// What the last collective of a grouping ends at, by the contract's own words.
Time end_of(const Groups& groups, const Workload& workload, const std::vector<Time>& ready,
            const CollectiveCost& cost) {
  Time channel{};
  for (const Group& group : groups)
    channel = std::max(channel, ready[group.end - 1]) +
              cost.time(workload.bytes_before[group.end] - workload.bytes_before[group.begin]);
  return channel;
}

/// How the groupings rank: end (not sooner than is of use), number of groups, then the size of the first.
using Rank = std::tuple<Time, std::size_t, std::uint32_t>;

Rank rank(const Groups& groups, Time end, Time soon_enough) {
  return {std::max(end, soon_enough), groups.size(), groups.front().end};
}

Groups groups_of(std::uint32_t cuts, std::uint32_t count) {
  Groups groups = {{.begin = 0, .end = 1}};
  for (std::uint32_t i = 1; i < count; ++i) {
    if ((cuts >> (i - 1) & 1U) != 0)
      groups.push_back({.begin = i, .end = i + 1});
    else
      groups.back().end = i + 1;
  }
  return groups;
}

Rank best_of_all(const Workload& workload, const std::vector<Time>& ready, Time soon_enough,
                 const CollectiveCost& cost) {
  Rank best = {Time::max(), 0, 0};
  for (std::uint32_t cuts = 0; cuts < 1U << (workload.gradient_count() - 1); ++cuts) {
    const Groups groups = groups_of(cuts, workload.gradient_count());
    best = std::min(best, rank(groups, end_of(groups, workload, ready, cost), soon_enough));
  }
  return best;
}

/// When the collectives of the first iteration have ended, from the start of its backward pass.
Time simulated_end(const Scene& scene, const Run& run) {
  Time end{};
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    if (label.kind == TaskLabel::Kind::all_reduce && label.iteration == 0)
      end = std::max(end, run.timeline.spans[i].end);
  }
  return end - scene.setting.workload.forward_total;
}

struct Instances {
  std::string name;
  std::uint32_t seeds;
  std::uint32_t most_tensors;
  traces::Network (*network)(Random&);
  bool at_once = false;  ///< all gradients ready together
};

double eighths(Random& random, std::uint32_t most) { return static_cast<double>(random.below(most)) / 8; }

traces::Network affine(Random& random) { return pair_of(eighths(random, 200), eighths(random, 20)); }
traces::Network no_startup(Random& random) { return pair_of(0, eighths(random, 20)); }
traces::Network no_slope(Random& random) { return pair_of(eighths(random, 200), 0); }
/// Small numbers, so that different groupings often end together.
traces::Network coarse(Random& random) { return pair_of(random.below(4), random.below(2)); }

traces::Network curve(Random& random, bool falls_at_end) {
  std::vector<std::pair<double, double>> points;
  double bytes = 0;
  for (std::uint32_t i = 2 + random.below(5); i-- > 0;) {
    bytes += 1 + random.below(40);
    points.emplace_back(bytes, eighths(random, 400));
  }
  if (falls_at_end) points.emplace_back(bytes + 10, points.back().second / 2);
  return support::measured_of(points);
}
traces::Network jagged(Random& random) { return curve(random, false); }
traces::Network falling(Random& random) { return curve(random, true); }

const std::vector<Instances> all_instances = {
    {"affine", 150, 12, affine},       {"no startup", 60, 10, no_startup},
    {"no slope", 60, 10, no_slope},    {"coarse", 150, 10, coarse},
    {"jagged", 150, 10, jagged},       {"falling", 100, 10, falling},
    {"at once", 80, 10, jagged, true}, {"at once, affine", 60, 10, affine, true},
};

TEST_CASE("optimal: is the best of all groupings, the simplest of the best, and ends when it says") {
  const Schedule schedule = schedule_of(R"("fusewise")");
  std::uint32_t seed = 0;
  for (const Instances& instances : all_instances) {
    CAPTURE(instances.name);
    for (std::uint32_t i = 0; i < instances.seeds; ++i, ++seed) {
      CAPTURE(seed);
      Random random(seed);
      std::vector<std::pair<double, std::int64_t>> gradients(1 + random.below(instances.most_tensors));
      for (auto& [backward_us, bytes] : gradients) {
        backward_us = instances.at_once ? 0 : eighths(random, 80);
        bytes = 4 * random.between(1, 12);
      }
      gradients.front().first += 1;  // some time in all
      const Scene scene(gradients_of(gradients), instances.network(random));
      const Workload& workload = scene.setting.workload;
      const CollectiveCost& cost = scene.setting.costs.of(kAllReduce);
      const std::vector<Time> ready = ready_times(workload);
      const FusionRequest request(scene.setting, schedule);
      const OptimalGroups found = request.model().optimal({});
      CHECK(rank(found.groups, found.value - workload.forward_total, Time::zero()) ==
            best_of_all(workload, ready, workload.backward_total, cost));
      CHECK(found.may_be_off_by == Time::zero());

      const Run run = scene.run(schedule);
      CHECK(run.groups == found.groups);
      CHECK(std::max(simulated_end(scene, run), workload.backward_total) + workload.forward_total ==
            found.value);
    }
  }
}

/// Every grouping simulated under a pipeline: iteration time, number of groups, size of the first.
using Simulated = std::tuple<double, std::int64_t, std::uint32_t>;

Simulated simulated(const Scene& scene, const Schedule& schedule) {
  const Run run = scene.run(schedule);
  return {run.prediction.iteration_us, run.prediction.groups, run.groups.front().end};
}

Simulated best_simulated(const Scene& scene, Schedule schedule) {
  Simulated best = {1e99, 0, 0};
  const std::uint32_t count = scene.setting.workload.gradient_count();
  for (std::uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
    const Groups groups = groups_of(cuts, count);
    schedule.fusion.fuse = [&](const FusionRequest&) { return groups; };
    best = std::min(best, simulated(scene, schedule));
  }
  return best;
}

TEST_CASE(
    "optimal: under every pipeline no other grouping is simulated to be faster or as fast and simpler") {
  const std::vector<const char*> pipelines_and_options = {
      R"({"pipeline": "wfbp", "fusion": "optimal"})",
      R"({"pipeline": "after_backward", "fusion": "optimal"})",
      R"({"pipeline": "dear", "fusion": "optimal"})", R"({"pipeline": "zero", "fusion": "optimal"})",
      R"({"pipeline": "zero", "fusion": "optimal", "overlap_gather": false})"};
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    traces::Network (*const networks[])(Random&) = {affine, coarse, jagged, no_startup, falling};
    Conditions conditions = support::random_conditions(random);
    conditions.iterations = 2;
    conditions.read_is_overlapped = false;  // an overlapped one hides what was gained
    const Scene scene(support::random_profile(random, 5), networks[seed % 5](random), seed % 5 == 0 ? 8 : 2,
                      conditions);
    if (scene.setting.workload.gradient_count() > 7) continue;
    for (const char* const json : pipelines_and_options) {
      CAPTURE(json);
      const Schedule schedule = schedule_of(json);
      CHECK(simulated(scene, schedule) == best_simulated(scene, schedule));
    }
  }
}

TEST_CASE("optimal: to end before backward does gains nothing, so fewer groups are taken") {
  // 1 us a byte: each alone ends at 13, one group at 15, and backward at 103
  const Scene scene(support::profile_of({{0, 100}, {0, 1, {1}}, {0, 1, {1}}, {0, 1, {1}}}), pair_of(0, 1));
  CHECK(fused(R"("optimal")", scene) == "3");
}

TEST_CASE(
    "optimal: among equals the fewest groups, then the fewest tensors in the first, then in the second") {
  // Everything is hidden under the last gradient's backward.
  CHECK(fused(R"("optimal")",
              Scene(gradients_of({{1, 4}, {1, 4}, {100, 4}}), support::measured_of({{1, 0}}))) == "3");
  // startup 2, no slope: two groups end at 11 + 2 however the first ones are cut; one as well, and that is
  // simpler
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {5, 4}, {5, 4}}), pair_of(2, 0))) == "3");
  // no startup, 1 us a byte: "2 1" ends at 16 as each alone does, "1 2" at 20, one group at 24
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {1, 4}, {10, 4}}), pair_of(0, 1))) == "2 1");
  // "1 2 1" ends at 17 as each alone does, "2 1 1" at 18, "3 1" at 19
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {1, 4}, {1, 4}, {9, 4}}), pair_of(0, 1))) ==
        "1 2 1");
}

TEST_CASE("optimal: of two groups the first is as short as may be") {
  // 8 bytes or more cost nothing: two groups of two would do, and so does one.
  const traces::Network free_when_large = support::measured_of({{4, 4}, {8, 0}, {9, 0}});
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {1, 4}, {1, 4}, {1, 4}}), free_when_large)) == "4");
  // Large groups are dear: two groups needed, "1 3" and "3 1" end later than "2 2".
  const traces::Network dear_when_large = support::measured_of({{4, 1}, {8, 1}, {12, 30}});
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {0, 4}, {0, 4}, {0, 4}}), dear_when_large)) ==
        "2 2");
  // "1 2" and "2 1" end together
  CHECK(fused(R"("optimal")", Scene(gradients_of({{1, 4}, {0, 4}, {0, 4}}), dear_when_large)) == "1 2");
}

TEST_CASE(
    "optimal: the case in which the greedy of the paper gives 7.8, each alone 8.1 and the optimum 7.0") {
  // a = 1, b = 1, four layers of size 0.8 and backward 0.9, a tenth of a unit a byte
  const Scene scene(gradients_of({{0.9, 8}, {0.9, 8}, {0.9, 8}, {0.9, 8}}), pair_of(1, 0.1));
  const auto end = [&](const char* schedule) {
    return sim::to_us(simulated_end(scene, scene.run(schedule_of(schedule))));
  };
  CHECK(fused(R"("mg-wfbp")", scene) == "4");
  CHECK(end(R"("mg-wfbp")") == 7.8);
  CHECK(fused(R"("optimal")", scene) == "1 3");
  CHECK(end(R"("fusewise")") == 7.0);
  CHECK(end(R"("wfbp")") == 8.1);
}

/// Every kind of fusion, plans aside.
std::vector<std::string> other_fusions() {
  std::vector<std::string> out;
  for (const FusionKind& kind : fusion_kinds())
    if (kind.name != "plan" && kind.name != "optimal") out.push_back('"' + std::string(kind.name) + '"');
  for (const char* cap : {"100", "3000", "20000"})
    for (const char* kind : {"buckets", "threshold", "modules"})
      out.push_back(fmt::format(R"({{"kind": "{}", "cap_bytes": {}}})", kind, cap));
  out.emplace_back(R"({"kind": "threshold", "cycle_us": 20})");
  for (const char* count : {"2", "3"})
    for (const char* kind : {"layers", "groups"})
      out.push_back(fmt::format(R"({{"kind": "{}", "count": {}}})", kind, count));
  return out;
}

TEST_CASE("optimal: no other kind of fusion ever gives a shorter iteration, whatever the conditions") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const traces::Profile profile = support::random_profile(random, 12);
    const bool measured = random.one_in(3);
    const traces::Network network = measured ? jagged(random) : support::random_link(random);
    Conditions conditions = support::random_conditions(random);
    conditions.parallel_tensor_operator = conditions.parallel_tensor_operator && !measured;
    const Scene scene(profile, network, measured ? 2 : 2 + random.below(12), conditions);
    for (const Pipeline& pipeline : pipelines()) {
      const auto time_of = [&](const std::string& fusion) {
        const std::string json = fmt::format(R"({{"pipeline": "{}", "fusion": {}}})", pipeline.name, fusion);
        return scene.run(schedule_of(json)).prediction.iteration_us;
      };
      const double best = time_of(R"("optimal")");
      for (const std::string& fusion : other_fusions()) {
        CAPTURE(pipeline.name);
        CAPTURE(fusion);
        CHECK(best <= time_of(fusion));
      }
    }
  }
}

TEST_CASE("optimal: a thousand gradients are planned, and no group of them is worth merging or cutting") {
  Random random(1);
  std::vector<std::pair<double, std::int64_t>> gradients(1000);
  for (auto& [backward_us, bytes] : gradients) {
    backward_us = eighths(random, 80);
    bytes = 4 * random.between(1, 1000);
  }
  const Scene scene(gradients_of(gradients), pair_of(20, 0.002));
  const Workload& workload = scene.setting.workload;
  const CollectiveCost& cost = scene.setting.costs.of(kAllReduce);
  const std::vector<Time> ready = ready_times(workload);
  const Schedule schedule = schedule_of(R"("fusewise")");
  const OptimalGroups found = FusionRequest(scene.setting, schedule).model().optimal({});
  CHECK(support::covers(found.groups, workload));
  for (std::size_t i = 0; i + 1 < found.groups.size(); ++i) {
    Groups merged = found.groups;
    merged[i].end = merged[i + 1].end;
    merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    CHECK(end_of(merged, workload, ready, cost) > found.value - workload.forward_total);
  }
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    Groups cut;
    for (const Group& group : found.groups) {
      cut.push_back(group);
      if (group.begin >= i || i >= group.end) continue;
      cut.back().end = i;
      cut.push_back({.begin = i, .end = group.end});
    }
    REQUIRE(end_of(cut, workload, ready, cost) >= found.value - workload.forward_total);
  }
}

}  // namespace
}  // namespace planner
