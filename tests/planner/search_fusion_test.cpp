// Fusions that try many groupings: each against an exhaustive search.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/choose/fusion/knobs.hpp"
#include "planner/choose/search.hpp"
#include "planner/job/registry.hpp"
#include "planner/schedule/schedule.hpp"
#include "sim/draws.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using sim::Time;
using support::fused;
using support::gradients_of;
using support::LayerSpec;
using support::pair_of;
using support::Random;
using support::Scene;
using support::shown;

Time time_of(const Scene& scene, const Groups& groups, const std::string& in = "wfbp") {
  const Schedule schedule = support::schedule_of(fmt::format(R"({{"pipeline": "{}"}})", in));
  return evaluate(request_of(scene.setting, schedule), groups);
}

/// A scene with up to `max` layers of one to three tensors of up to 40 bytes.
Scene small_scene(Random& random, std::uint32_t max = 8) {
  std::vector<LayerSpec> layers(1 + random.below(max));
  for (LayerSpec& layer : layers) {
    layer.forward_us = random.below(40);
    layer.backward_us = random.below(40);
    for (std::uint32_t i = random.below(3) + 1; i > 0; --i) layer.elements.push_back(random.between(1, 10));
  }
  layers.front().backward_us = 1.5;
  return {support::profile_of(layers), pair_of(random.below(60), random.below(8) / 4.0)};
}

/// The best of these by the tie rule of sweep and autotune.
Groups best_of_these(const Scene& scene, const std::vector<Groups>& all, const char* in) {
  const auto rank = [&](const Groups& groups) {
    return std::tuple(time_of(scene, groups, in), groups.size(), groups.front().end);
  };
  return *std::min_element(all.begin(), all.end(),
                           [&](const Groups& a, const Groups& b) { return rank(a) < rank(b); });
}

// ---- knobs

TEST_CASE("knobs: next names every number at which the groups change, and no other") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const Scene scene = small_scene(random);
    const Workload& workload = scene.setting.workload;
    for (const Knob& knob : knobs()) {
      CAPTURE(seed);
      CAPTURE(knob.name);
      std::vector<std::pair<std::int64_t, std::string>> expected;
      for (std::int64_t number = 1; number <= workload.bytes() + 2; ++number) {
        const std::string groups = shown(knob.groups(workload, number));
        if (expected.empty() || expected.back().second != groups) expected.emplace_back(number, groups);
      }
      std::vector<std::pair<std::int64_t, std::string>> walked;
      for (std::optional<std::int64_t> number = 1; number;) {
        const Groups groups = knob.groups(workload, *number);
        walked.emplace_back(*number, shown(groups));
        number = knob.next(workload, groups, *number);
      }
      CHECK(walked == expected);
    }
  }
}

TEST_CASE("knobs: a knob groups as its fusion does") {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const Scene scene = small_scene(random);
    for (const Knob& knob : knobs()) {
      CAPTURE(seed);
      CAPTURE(knob.name);
      const std::int64_t number = random.between(1, 60);
      const std::string json = fmt::format(R"({{"kind": "{}", "{}": {}}})", knob.name,
                                           knob.is_count ? "count" : "cap_bytes", number);
      CHECK(shown(knob.groups(scene.setting.workload, number)) == fused(json, scene));
    }
  }
}

TEST_CASE("knobs: a threshold of 0 fuses nothing") {
  const Scene scene(gradients_of({{1, 4}, {0, 4}, {1, 4}}), pair_of(1, 1));
  CHECK(shown(under_threshold(scene.setting.workload, 0, Time::zero())) == "1 1 1");
  CHECK(shown(under_threshold(scene.setting.workload, 0, sim::from_us(3))) == "1@3 1@3 1@3");
}

// ---- sweep

// Ready at 1, 2 and 12, when backward ends. Startup 5, 1 us a byte: alone 9, two 13, all 17.
//   1 1 1   1-10 10-19 19-28        1 2   1-10 12-25
//   2 1     2-15 15-24              3     12-29
Scene three() { return {gradients_of({{1, 4}, {1, 4}, {10, 4}}), pair_of(5, 1)}; }

TEST_CASE("sweep: takes the best cap, worked by hand") {
  CHECK(fused(R"("sweep")", three()) == "2 1");
  CHECK(fused(R"({"kind": "sweep"})", three()) == "2 1");
  CHECK(fused(R"({"kind": "sweep", "of": "buckets", "from_bytes": 9})", three()) == "3");
  CHECK(fused(R"({"kind": "sweep", "of": "buckets", "from_bytes": 8})", three()) == "2 1");
  CHECK(fused(R"({"kind": "sweep", "of": "buckets", "to_bytes": 4})", three()) == "1 1 1");
  CHECK(fused(R"({"kind": "sweep", "of": "buckets", "to_bytes": 5})", three()) == "2 1");
  CHECK(fused(R"({"kind": "sweep", "of": "threshold"})", three()) == "2 1");
  CHECK(fused(R"({"kind": "sweep", "of": "modules"})", three()) == "1 2");
  CHECK(fused(R"({"kind": "sweep", "of": "layers"})", three()) == "1 2");
  CHECK(fused(R"({"kind": "sweep", "of": "layers", "from": 2})", three()) == "1 2");
  CHECK(fused(R"({"kind": "sweep", "of": "groups"})", three()) == "2 1");
  CHECK(fused(R"({"kind": "sweep", "of": "groups", "from": 3, "to": 32})", three()) == "1 1 1");
  CHECK(fused(R"({"kind": "sweep", "of": "groups", "to": 1})", three()) == "3");
}

TEST_CASE("sweep: of equals the fewest groups, then the fewest tensors in the first") {
  const Scene free(gradients_of({{1, 4}, {0, 4}, {0, 4}, {50, 4}}), pair_of(0, 0));
  for (const char* of : {"buckets", "threshold", "modules", "layers", "groups"}) {
    CAPTURE(of);
    CHECK(fused(fmt::format(R"({{"kind": "sweep", "of": "{}"}})", of), free) == "4");
  }
  CHECK(fused(R"({"kind": "sweep", "of": "buckets", "to_bytes": 12})", free) == "2 2");  // not 3 1
}

TEST_CASE("sweep: no number in its range gives a better iteration, under every pipeline") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const Scene scene = small_scene(random, 5);
    const std::int64_t from = random.between(1, 30);
    const std::int64_t to = from + random.between(0, 60);
    for (const Knob& knob : knobs()) {
      std::vector<Groups> all;
      for (std::int64_t number = from; number <= to; ++number)
        all.push_back(knob.groups(scene.setting.workload, number));
      all.erase(std::unique(all.begin(), all.end()), all.end());
      const std::string_view unit = knob.is_count ? "" : "_bytes";
      const std::string json = fmt::format(R"({{"kind": "sweep", "of": "{}", "from{}": {}, "to{}": {}}})",
                                           knob.name, unit, from, unit, to);
      for (const char* in : {"wfbp", "dear", "zero", "after_backward"}) {
        CAPTURE(seed);
        CAPTURE(json);
        CAPTURE(in);
        CHECK(fused(json, scene, in) == shown(best_of_these(scene, all, in)));
      }
    }
  }
}

TEST_CASE("sweep: what it finds is what is simulated, and never beats the optimal grouping") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 8), support::random_link(random));
    for (const std::string in : {"wfbp", "dear"}) {
      const auto iteration = [&](const std::string& fusion) {
        return scene.run(support::schedule_of(R"({"pipeline": ")" + in + R"(", "fusion": )" + fusion + "}"))
            .metrics.iteration_us;
      };
      const double optimal = iteration(R"("optimal")");
      for (const std::string of : {"buckets", "modules", "groups"}) {
        const double swept = iteration(R"({"kind": "sweep", "of": ")" + of + R"("})");
        CHECK(optimal <= swept * (1 + 1e-9));
        for (const char* number : {"1", "64", "3000"}) {
          const std::string key = of == "groups" ? "count" : "cap_bytes";
          CHECK(swept <=
                (1 + 1e-9) * iteration(fmt::format(R"({{"kind": "{}", "{}": {}}})", of, key, number)));
        }
      }
    }
  }
}

// ---- searches

constexpr std::int64_t kMB = 1'000'000;

/// A scene with gradients of 2 MB, 3 ms apart; an all-reduce takes 2 ms and 1 ms per MB.
Scene megabytes(std::size_t count) {
  return {gradients_of(std::vector<std::pair<double, std::int64_t>>(count, {3000, 2 * kMB})),
          pair_of(2000, 1e-3)};
}

std::string groups_at(const Scene& scene, std::string_view of, double cap) {
  return shown(entry(knobs(), of).groups(scene.setting.workload, static_cast<std::int64_t>(cap)));
}

TEST_CASE("bayesian: one probe is the first cap") {
  const Scene scene = megabytes(40);
  const std::string one = R"({"kind": "bayesian", "probes": 1)";
  CHECK(fused(one + "}", scene) == groups_at(scene, "modules", 25e6));
  CHECK(fused(one + R"(, "first_bytes": 7000000})", scene) == groups_at(scene, "modules", 7e6));
  CHECK(fused(one + R"(, "of": "buckets"})", scene) == groups_at(scene, "buckets", 25e6));
  CHECK(fused(one + R"(, "of": "threshold"})", scene) == groups_at(scene, "threshold", 25e6));
  CHECK(fused(one + R"(, "from_bytes": 30000000})", scene) == groups_at(scene, "modules", 30e6));
  CHECK(fused(one + R"(, "to_bytes": 5000000})", scene) == groups_at(scene, "modules", 5e6));
}

/// A scene with gradients of up to 40 MB at random times.
Scene large_scene(Random& random) {
  std::vector<std::pair<double, std::int64_t>> gradients;
  for (std::uint32_t i = 5 + random.below(30); i > 0; --i)
    gradients.emplace_back(random.below(4000), 4 * random.between(1, random.one_in(3) ? 10 * kMB : kMB));
  return {gradients_of(gradients), pair_of(random.below(9000), random.below(16) / 8e3)};
}

TEST_CASE("searches: missing keys are DeAR's and Horovod's, and sweeps are of all buckets") {
  const std::string dear = R"("of": "modules", "from_bytes": 1000000, "to_bytes": 100000000, "probes": 10)";
  const std::vector<std::pair<std::string, std::string>> spelled_out = {
      {"bayesian", dear + R"(, "first_bytes": 25000000, "xi": 0.1, "seed": 1)"},
      {"random", dear + R"(, "seed": 1)"},
      {"grid", dear},
      {"sweep", R"("of": "buckets", "from_bytes": 1, "to_bytes": 8000000000000000)"},
      {"sweep", R"("of": "buckets")"},
      {"autotune", R"("from_bytes": 0, "to_bytes": 67108864, "cap_steps": 17, "from_cycle_us": 1000,)"
                   R"( "to_cycle_us": 100000, "cycle_steps": 100)"}};
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const Scene scene = large_scene(random);
    for (const auto& [kind, keys] : spelled_out) {
      CAPTURE(seed);
      const auto& the_kind = kind;  // clang 14 cannot capture a structured binding
      CAPTURE(the_kind);
      const std::string expected = fused(fmt::format(R"({{"kind": "{}", {}}})", kind, keys), scene, "dear");
      CHECK(fused(fmt::format(R"("{}")", kind), scene, "dear") == expected);
      CHECK(fused(fmt::format(R"({{"kind": "{}"}})", kind), scene, "dear") == expected);
    }
  }
}

TEST_CASE("bayesian, random, grid: the groups of the best probe by what the pipeline makes of them") {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const Scene scene = large_scene(random);
    const SearchSpace space = {.from = 2e6, .to = 5e7, .probes = 7, .seed = seed};
    for (const char* in : {"wfbp", "dear"}) {
      for (const std::string_view of : {"modules", "buckets", "threshold"}) {
        CAPTURE(seed);
        CAPTURE(in);
        CAPTURE(of);
        const auto objective = [&](double cap) {
          const auto whole = static_cast<std::int64_t>(cap);
          return static_cast<double>(
              time_of(scene, entry(knobs(), of).groups(scene.setting.workload, whole), in).count());
        };
        const std::string keys =
            fmt::format(R"("of": "{}", "from_bytes": 2e6, "to_bytes": 5e7, "probes": 7)", of);
        const std::string seeded = fmt::format(R"({}, "seed": {})", keys, seed);
        const auto best = [&](const std::vector<Probe>& probes) {
          return groups_at(scene, of, best_of(probes).at);
        };
        CHECK(fused(R"({"kind": "bayesian", "first_bytes": 9e6, "xi": 0.5, )" + seeded + "}", scene, in) ==
              best(bayesian_search(objective, space, {.first = 9e6, .xi = 0.5})));
        CHECK(fused(R"({"kind": "random", )" + seeded + "}", scene, in) ==
              best(random_search(objective, space)));
        CHECK(fused(R"({"kind": "grid", )" + keys + "}", scene, in) == best(grid_search(objective, space)));
      }
    }
  }
}

TEST_CASE("grid: worked by hand") {
  // caps 8, 12, 16 with the rule of buckets: 2 1, 3, 3
  CHECK(fused(R"({"kind": "grid", "of": "buckets", "from_bytes": 8, "to_bytes": 16, "probes": 3})",
              three()) == "2 1");
  CHECK(fused(R"({"kind": "grid", "of": "buckets", "from_bytes": 12, "to_bytes": 16, "probes": 2})",
              three()) == "3");
}

TEST_CASE("random: the seed decides") {
  const Scene scene = megabytes(40);
  std::vector<std::string> found;
  for (int seed = 0; seed < 20; ++seed)
    found.push_back(fused(fmt::format(R"({{"kind": "random", "probes": 1, "seed": {}}})", seed), scene));
  std::sort(found.begin(), found.end());
  CHECK(std::unique(found.begin(), found.end()) - found.begin() > 5);
}

// ---- autotune

TEST_CASE("autotune: the best of its grid, ticks included") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = small_scene(random);
    for (const char* in : {"wfbp", "dear"}) {
      std::vector<Groups> all;
      for (const int cap : {0, 16, 32, 48, 64})
        for (const double cycle_us : {5, 12, 19, 26, 33, 40, 47, 54, 61, 68})
          all.push_back(under_threshold(scene.setting.workload, cap, sim::from_us(cycle_us)));
      CHECK(fused(R"({"kind": "autotune", "to_bytes": 64, "cap_steps": 5, "from_cycle_us": 5,
                      "to_cycle_us": 68, "cycle_steps": 10})",
                  scene, in) == shown(best_of_these(scene, all, in)));
    }
  }
}

TEST_CASE("autotune: missing keys are Horovod's ranges, which leave its default out of reach") {
  constexpr std::int64_t kMiB = 1 << 20;
  // 30 s of startup: every group matters
  const auto at = [](std::int64_t a, std::int64_t b) {
    return fused(R"("autotune")", Scene(gradients_of({{10, a}, {10, b}}), pair_of(3e7, 0)));
  };
  CHECK(at(32 * kMiB, 32 * kMiB) == "2@1000");
  CHECK(at(32 * kMiB, 32 * kMiB + 4) == "1@1000 1@1000");
  // ready at 1000 and 1020 us: one tick at 2 ms, or also one at 1 ms, which costs an additional startup
  const auto twice = [](double startup_us, double us_per_byte) {
    return fused(R"("autotune")",
                 Scene(gradients_of({{1000, 4}, {20, 4}}), pair_of(startup_us, us_per_byte)));
  };
  CHECK(twice(0, 100) == "1@1000 1@2000");  // 2000 to 2400 against 2800
  CHECK(twice(1100, 0) == "2@2000");        // until 3100 against 3200
}

TEST_CASE("autotune: thresholds are multiples of 4 MiB") {
  constexpr std::int64_t kElementsPerMiB = 1 << 18;
  // l1's forward pass hides the other gathers if l1 is sent alone: with 52 MiB, but not with 55 or 51.2
  const Scene scene(support::profile_of({{60'000, 10, {3 * kElementsPerMiB}},
                                         {10, 0, {26 * kElementsPerMiB}},
                                         {10, 10, {26 * kElementsPerMiB}}}),
                    pair_of(100, 1e-3));
  CHECK(fused(R"("autotune")", scene, "dear") == "2@1000 1@1000");
  CHECK(fused(R"({"kind": "autotune", "cap_steps": 16})", scene, "dear") != "2@1000 1@1000");
}

TEST_CASE("autotune: a threshold of 0 is in its range and fuses nothing") {
  const Scene scene(gradients_of({{1, 4}, {1, 4}}), pair_of(5, 0.5));
  CHECK(fused(R"({"kind": "autotune", "from_cycle_us": 2, "to_bytes": 0})", scene) == "1@2 1@2");
  CHECK(fused(R"({"kind": "autotune", "from_cycle_us": 2})", scene) == "2@2");
}

// ---- reading

TEST_CASE("searches: wrong keys and ranges are refused") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {R"({"kind": "bayesian", "of": "groups"})",
       R"(s.json: /of: expected one of modules, buckets, threshold, got "groups")"},
      {R"({"kind": "bayesian", "probes": 0})", "s.json: /probes: expected an integer from 1 to 100, got 0"},
      {R"({"kind": "bayesian", "probes": 101})",
       "s.json: /probes: expected an integer from 1 to 100, got 101"},
      {R"({"kind": "bayesian", "xi": -1})", "s.json: /xi: expected a number from 0 to 1000000, got -1"},
      {R"({"kind": "bayesian", "from_bytes": 9, "to_bytes": 8})",
       "s.json: /to_bytes: expected an integer from 9 (from_bytes) on, got 8"},
      {R"({"kind": "bayesian", "from_bytes": 100000001})",
       "s.json: /from_bytes: expected an integer from 1 to 100000000 (to_bytes), got 100000001"},
      {R"({"kind": "bayesian", "to_bytes": 999999})",
       "s.json: /to_bytes: expected an integer from 1000000 (from_bytes) on, got 999999"},
      {R"({"kind": "bayesian", "first_bytes": 100000001})",
       "s.json: /first_bytes: expected an integer from 1000000 to 100000000, got 100000001"},
      {R"({"kind": "random", "xi": 1})",
       "s.json: /xi: expected a key among kind, of, from_bytes, to_bytes, probes, seed, got 'xi'"},
      {R"({"kind": "grid", "seed": 1})",
       "s.json: /seed: expected a key among kind, of, from_bytes, to_bytes, probes, got 'seed'"},
      {R"({"kind": "sweep", "from": 2})",
       "s.json: /from: expected a key among kind, of, from_bytes, to_bytes, got 'from', did you mean "
       "'from_bytes'?"},
      {R"({"kind": "sweep", "of": "groups", "from_bytes": 2})",
       "s.json: /from_bytes: expected a key among kind, of, from, to, got 'from_bytes'"},
      {R"({"kind": "sweep", "of": "layers", "from": 0})",
       "s.json: /from: expected an integer from 1 to 8000000000000000, got 0"},
      {R"({"kind": "autotune", "cap_steps": 0})",
       "s.json: /cap_steps: expected an integer from 1 to 1000, got 0"},
      {R"({"kind": "autotune", "from_cycle_us": 10, "to_cycle_us": 9})",
       "s.json: /to_cycle_us: expected a number from 10 to 1000000000, got 9"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(read_fusion(core::Field::parse(each.text, "s.json")), each.message.c_str(),
                         core::InputError);
}

}  // namespace
}  // namespace planner
