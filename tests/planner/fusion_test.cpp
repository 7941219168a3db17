// Fusion: the groups of each kind, by hand and at boundary values, and properties that hold for all kinds.

#include "planner/choose/fusion.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using support::fused;
using support::gradients_of;
using support::LayerSpec;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;

/// A scene with gradients of these bytes, one microsecond apart.
Scene bytes_of(const std::vector<std::int64_t>& all) {
  std::vector<std::pair<double, std::int64_t>> gradients;
  gradients.reserve(all.size());
  for (const std::int64_t bytes : all) gradients.emplace_back(1, bytes);
  return {gradients_of(gradients), pair_of(1, 1)};
}

TEST_CASE("fusion: none takes each tensor alone, all takes everything") {
  const Scene scene = bytes_of({8, 8, 4});
  for (const char* none : {R"("none")", R"({"kind": "none"})"}) CHECK(fused(none, scene) == "1 1 1");
  for (const char* all : {R"("all")", R"({"kind": "all"})"}) CHECK(fused(all, scene) == "3");
}

TEST_CASE("fusion: buckets append, then close at the cap") {
  const Scene scene = bytes_of({8, 8, 8, 100, 4});
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 16})", scene) == "2 2 1");  // 16 reaches 16, 108 exceeds it
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 17})", scene) == "3 1 1");
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 16, "first_cap_bytes": 8})", scene) == "1 2 1 1");
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 8, "first_cap_bytes": 17})", scene) == "3 1 1");
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 1000})", scene) == "5");
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 128})", scene) == "5");  // closed by the last tensor
  CHECK(fused(R"({"kind": "buckets", "cap_bytes": 1})", scene) == "1 1 1 1 1");
}

TEST_CASE("fusion: threshold adds while the sum stays within the cap") {
  const Scene scene = bytes_of({8, 8, 8, 100, 4});
  CHECK(fused(R"({"kind": "threshold", "cap_bytes": 16})", scene) == "2 1 1 1");  // 100 forms a group alone
  CHECK(fused(R"({"kind": "threshold", "cap_bytes": 15})", scene) == "1 1 1 1 1");
  CHECK(fused(R"({"kind": "threshold", "cap_bytes": 104})", scene) == "3 2");
  CHECK(fused(R"({"kind": "threshold", "cap_bytes": 128})", scene) == "5");
}

TEST_CASE("fusion: with a cycle every tick takes what is ready since the last") {
  const Scene scene = bytes_of({8, 8, 8, 8, 8});  // ready at 1, 2, 3, 4, 5
  const auto with = [&](const std::string& keys) {
    return fused(R"({"kind": "threshold", )" + keys + "}", scene);
  };
  CHECK(with(R"("cycle_us": 2)") == "2@2 2@4 1@6");  // gradients ready at the tick belong to it
  CHECK(with(R"("cycle_us": 2.5)") == "2@2.5 3@5");
  CHECK(with(R"("cycle_us": 3)") == "3@3 2@6");
  CHECK(with(R"("cycle_us": 100)") == "5@100");
  CHECK(with(R"("cycle_us": 0)") == "5");
  CHECK(with(R"("cycle_us": 3, "cap_bytes": 16)") == "2@3 1@3 2@6");  // the cap also holds within a tick
  CHECK(with(R"("cycle_us": 1)") == "1@1 1@2 1@3 1@4 1@5");
  const Scene at_once(gradients_of({{0, 8}, {0, 8}, {1, 8}}), pair_of(1, 1));
  CHECK(fused(R"({"kind": "threshold", "cycle_us": 4})", at_once) == "2 1@4");  // the tick at 0 counts
}

TEST_CASE("fusion: modules pack whole layers from the input side, strictly under the cap") {
  const Scene scene = bytes_of({4, 100, 8, 8, 8});  // the input side is the end of backward order
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 17})", scene) == "1 1 1 2");
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 16})", scene) == "1 1 1 1 1");
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 25})", scene) == "1 1 3");
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 129})", scene) == "5");
  // l1: 8 + 8 bytes, l2 without tensors, l3: 4 + 4, l4: 12
  const Scene layers(profile_of({{1, 1, {2, 2}}, {1, 1}, {1, 1, {1, 1}}, {1, 1, {3}}}), pair_of(1, 1));
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 25})", layers) == "1 4");
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 24})", layers) == "3 2");   // 8 + 12 < 24
  CHECK(fused(R"({"kind": "modules", "cap_bytes": 4})", layers) == "1 2 2");  // no layer is split
}

TEST_CASE("fusion: layers takes nearby layers with tensors from the input side, the remainder last") {
  // l2 has no tensors, l3 has three
  const Scene scene(
      profile_of({{1, 1, {1, 1}}, {1, 1}, {1, 1, {1, 1, 1}}, {1, 1, {1}}, {1, 1, {1}}, {1, 1, {1}}}),
      pair_of(1, 1));
  CHECK(fused(R"({"kind": "layers", "count": 1})", scene) == "1 1 1 3 2");
  CHECK(fused(R"({"kind": "layers", "count": 2})", scene) == "1 2 5");
  CHECK(fused(R"({"kind": "layers", "count": 3})", scene) == "2 6");
  CHECK(fused(R"({"kind": "layers", "count": 1000000000000})", scene) == "8");
}

TEST_CASE("fusion: groups are equal in number of tensors, the first one larger") {
  const Scene scene = bytes_of({4, 4, 4, 4, 4, 4, 4, 400});
  CHECK(fused(R"({"kind": "groups", "count": 3})", scene) == "3 3 2");
  CHECK(fused(R"({"kind": "groups", "count": 5})", scene) == "2 2 2 1 1");
  CHECK(fused(R"({"kind": "groups", "count": 1})", scene) == "8");
  CHECK(fused(R"({"kind": "groups", "count": 9})", scene) == "1 1 1 1 1 1 1 1");
  CHECK(fused(R"({"kind": "groups", "count": 1000000000000})", scene) == "1 1 1 1 1 1 1 1");
}

TEST_CASE("fusion: missing numbers of a kind are those of the contract") {
  constexpr std::int64_t kMiB = 1 << 20;
  const Scene at_25_mib = bytes_of({25 * kMiB - 4, 4, 4});
  for (const char* text : {R"("buckets")", R"({"kind": "buckets"})"}) CHECK(fused(text, at_25_mib) == "2 1");
  const Scene at_128_mib = bytes_of({128 * kMiB - 4, 4, 4});
  CHECK(fused(R"("threshold")", at_128_mib) == "2 1");  // no cycle
  CHECK(fused(R"("modules")", bytes_of({4, 4, 25 * kMiB - 8})) == "1 2");
  CHECK(fused(R"("layers")", bytes_of({4, 4, 4, 4, 4})) == "1 4");
  CHECK(fused(R"("groups")", bytes_of(std::vector<std::int64_t>(10, 4))) == "2 2 1 1 1 1 1 1");
}

// ---- DDP on ResNet-18

/// The modules of ResNet-18 in order of registration, each a layer: convolutions without bias, batch
/// normalisations, fc.
core::Profile resnet18() {
  std::vector<LayerSpec> layers;
  const auto conv = [&](std::int64_t in, std::int64_t out, std::int64_t size) {
    layers.push_back({1, 1, {in * out * size * size}});
    layers.push_back({1, 1, {out, out}});
  };
  conv(3, 64, 7);
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      conv(in, out, 3);
      conv(out, out, 3);
      if (in != out) conv(in, out, 1);  // downsample
      in = out;
    }
  }
  layers.push_back({1, 1, {512'000, 1000}});
  return profile_of(layers);
}

TEST_CASE("fusion: DDP's buckets of ResNet-18 are PyTorch's to the byte") {
  const Scene scene(resnet18(), pair_of(1, 1));
  CHECK(scene.setting.workload.gradient_count() == 62);
  CHECK(scene.setting.workload.bytes() == 4 * 11'689'512);
  const auto sizes = [&](const std::string& cap) {
    std::vector<std::int64_t> out;
    const std::string json =
        R"({"kind": "buckets", "cap_bytes": )" + cap + R"(, "first_cap_bytes": 1048576})";
    for (const Group& group : support::fuse(json, scene))
      out.push_back(scene.setting.workload.bytes_before[group.end] -
                    scene.setting.workload.bytes_before[group.begin]);
    return out;
  };
  CHECK(sizes("26214400") == std::vector<std::int64_t>{2'052'000, 28'852'224, 15'853'824});
  CHECK(sizes("36700160") == std::vector<std::int64_t>{2'052'000, 38'297'600, 6'408'448});
}

// ---- MG-WFBP's greedy

TEST_CASE("fusion: mg-wfbp merges what is ready strictly before the startup of the gradient above is over") {
  // startup 1, 1 us per byte; the second is ready 1 us after the first: too late, just in time
  CHECK(fused(R"("mg-wfbp")", Scene(gradients_of({{5, 4}, {1, 4}}), pair_of(1, 1))) == "1 1");
  CHECK(fused(R"("mg-wfbp")", Scene(gradients_of({{5, 4}, {0.999999, 4}}), pair_of(1, 1))) == "2");
}

TEST_CASE("fusion: mg-wfbp counts from the start of communication, and again after each merge") {
  // startup 1, 1 us per byte. The first (20 bytes) is sent from 1 to 22. The second is ready at 3 and would
  // start at 22, so the third (ready at 9) and the fourth (21) join it, but not the fifth (ready at 23 = 22 +
  // 1).
  const Scene scene(gradients_of({{1, 20}, {2, 4}, {6, 4}, {12, 4}, {2, 4}}), pair_of(1, 1));
  CHECK(fused(R"("mg-wfbp")", scene) == "1 3 1");
  CHECK(fused(R"({"kind": "mg-wfbp"})", scene, "dear") == "1 3 1");  // for any pipeline
}

TEST_CASE("fusion: mg-wfbp takes the first value of a measured curve for the startup") {
  const Scene scene(gradients_of({{5, 4}, {3, 4}, {3, 4}}), support::measured_of({{100, 3.5}, {200, 30}}));
  CHECK(fused(R"("mg-wfbp")", scene) == "3");
  const Scene slower(gradients_of({{5, 4}, {3.5, 4}, {3, 4}}), support::measured_of({{100, 3.5}, {200, 30}}));
  CHECK(fused(R"("mg-wfbp")", slower) == "1 2");
}

/// Algorithm 1 verbatim: merged gradients have no time of their own, starts are computed from scratch.
std::string merged_naively(const Workload& workload, const CollectiveCost& cost) {
  const std::uint32_t count = workload.gradient_count();
  std::vector<std::int64_t> bytes;
  for (const Gradient& gradient : workload.gradients) bytes.push_back(gradient.bytes);
  const auto start_of = [&](std::uint32_t wanted) {
    sim::Time start = workload.gradients[0].ready;
    for (std::uint32_t i = 1; i <= wanted; ++i) {
      const sim::Time length = bytes[i - 1] > 0 ? cost.time(bytes[i - 1]) : sim::Time::zero();
      start = std::max(start + length, workload.gradients[i].ready);
    }
    return start;
  };
  Groups groups = {{.begin = 0, .end = 1}};
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    if (workload.gradients[i + 1].ready < start_of(i) + sim::from_us(cost.curve.startup_us())) {
      bytes[i + 1] += std::exchange(bytes[i], 0);
      groups.back().end = i + 2;
    } else {
      groups.push_back({.begin = i + 1, .end = i + 2});
    }
  }
  return support::shown(groups);
}

TEST_CASE("fusion: mg-wfbp is the paper's algorithm on random workloads") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 8), support::random_link(random), 2 + random.below(30));
    CHECK(fused(R"("mg-wfbp")", scene) ==
          merged_naively(scene.setting.workload, scene.setting.costs.of(core::CollectiveKind::all_reduce)));
  }
}

// ---- plan files

/// A scene with the tensors l2.a, l1.b, l1.a in backward order.
Scene three_tensors() { return {profile_of({{1, 1, {1, 2}}, {1, 1, {3}}}), pair_of(1, 1)}; }

std::string plan_fusion(const std::string& groups) {
  return R"({"kind": "plan", "file": {"format": "fusewise.plan", "version": 1, "model": "m", "workers": 2,)"
         R"( "pipeline": "wfbp", "collectives": {"all_reduce": "ring"}, "compression": "none",)"
         R"( "optimality": "heuristic", "groups": )" +
         groups + "}}";
}

TEST_CASE("fusion: a plan gives its groups, and their ticks") {
  CHECK(
      fused(plan_fusion(R"([{"tensors": ["l2.a", "l1.b"], "bytes": 20}, {"tensors": ["l1.a"], "bytes": 4}])"),
            three_tensors()) == "2 1");
  CHECK(fused(plan_fusion(R"([{"tensors": ["l2.a"], "bytes": 12, "not_before_us": 2},
                              {"tensors": ["l1.b", "l1.a"], "bytes": 12, "not_before_us": 7.5}])"),
              three_tensors()) == "1@2 2@7.5");
}

TEST_CASE("fusion: a plan that is not of this profile is refused where it differs") {
  struct Case {
    std::string groups;
    std::string message;
  };
  const std::vector<Case> cases = {
      {R"([{"tensors": ["l2.a", "fc.weight"], "bytes": 20}])",
       R"(s.json: /fusion/file/groups/0/tensors/1: expected "l1.b", the profile's next tensor in backward order, got "fc.weight")"},
      {R"([{"tensors": ["l1.a", "l1.b", "l2.a"], "bytes": 20}])",
       R"(s.json: /fusion/file/groups/0/tensors/0: expected "l2.a", the profile's next tensor in backward order, got "l1.a")"},
      {R"([{"tensors": ["l2.a"], "bytes": 12}, {"tensors": ["l1.b"], "bytes": 8}])",
       R"(s.json: /fusion/file/groups: expected every tensor of the profile, "l1.a" among them, got 2 of 3)"},
      {R"([{"tensors": ["l2.a", "l1.b", "l1.a"], "bytes": 24}, {"tensors": ["l0"], "bytes": 4}])",
       R"(s.json: /fusion/file/groups/1/tensors/0: expected no more than the 3 tensors of the profile, got "l0")"},
      {R"([{"tensors": [], "bytes": 24}])",
       "s.json: /fusion/file/groups/0/tensors: expected an array of at least 1 item, got an array of 0 "
       "items"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(fused(plan_fusion(each.groups), three_tensors()), each.message.c_str(),
                         core::InputError);
}

// ---- reading

TEST_CASE("fusion: what is not a fusion is refused") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string kinds =
      "none, all, mg-wfbp, optimal, robust, cupcake, buckets, threshold, modules, layers, blocks, groups, "
      "partitions, bayesian, random, grid, sweep, autotune, plan";
  const std::vector<Case> cases = {
      {R"("bucket")", "s.json: /: expected one of " + kinds + R"(, got "bucket", did you mean 'buckets'?)"},
      {"3", "s.json: /: expected one of " + kinds + ", got 3"},
      {"{}", "s.json: /kind: expected a value, got nothing"},
      {R"({"kind": "al"})", "s.json: /kind: expected one of " + kinds + R"(, got "al", did you mean 'all'?)"},
      {R"({"kind": "all", "cap_bytes": 1})",
       "s.json: /cap_bytes: expected a key among kind, got 'cap_bytes'"},
      {R"({"kind": "buckets", "cap_byte": 1})",
       "s.json: /cap_byte: expected a key among kind, cap_bytes, first_cap_bytes, got 'cap_byte', did you "
       "mean 'cap_bytes'?"},
      {R"({"kind": "buckets", "cap_bytes": 0})",
       "s.json: /cap_bytes: expected an integer from 1 to 8000000000000000, got 0"},
      {R"({"kind": "threshold", "cap_bytes": 1.5})",
       "s.json: /cap_bytes: expected an integer from 1 to 8000000000000000, got 1.5"},
      {R"({"kind": "threshold", "cycle_us": -1})",
       "s.json: /cycle_us: expected a number from 0 to 1000000000000, got -1"},
      {R"({"kind": "layers", "count": 0})",
       "s.json: /count: expected an integer from 1 to 1000000000000, got 0"},
      {R"({"kind": "groups", "count": "8"})",
       R"(s.json: /count: expected an integer from 1 to 1000000000000, got "8")"},
      {R"("plan")",
       R"(s.json: /: expected an object with the plan's file: {"kind": "plan", "file": ...}, got "plan")"},
      {R"({"kind": "plan"})", "s.json: /file: expected a value, got nothing"},
      {R"({"kind": "plan", "file": "none.plan.json"})",
       R"(s.json: /file: expected the path of a file that can be read, got "none.plan.json": No such file or directory)"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(read_fusion(core::Field::parse(each.text, "s.json")), each.message.c_str(),
                         core::InputError);
}

// ---- all kinds

TEST_CASE("fusion: every kind takes every gradient once, in backward order, under every pipeline") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 10), support::random_link(random),
                      1 + random.below(20));
    const Workload& workload = scene.setting.workload;
    const std::string plan =
        support::plan_json(workload, support::random_groups(random, workload.gradient_count())).dump();
    for (const FusionKind& kind : fusion_kinds()) {
      CAPTURE(kind.name);
      const std::string name(kind.name);
      std::string json = '"' + name + '"';
      if (name == "plan") json = R"({"kind": "plan", "file": )" + plan + "}";
      if (name == "bayesian") json = R"({"kind": "bayesian", "probes": 3})";  // more probes would take long
      for (const Pipeline& pipeline : pipelines()) {
        CAPTURE(pipeline.name);
        const bool takes = pipeline.takes_fusion ? pipeline.takes_fusion(name) : name != "partitions";
        if (!takes || name == "partitions") continue;  // partitions are tested in priority_test.cpp
        CHECK(support::covers(support::fuse(json, scene, pipeline.name.data()), workload));
      }
    }
  }
}

}  // namespace
}  // namespace planner
