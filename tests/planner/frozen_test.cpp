// Parameters that are not trained: with which gradient they travel, and what that takes in sharded jobs. That
// plans are optimal, and bounds hold, is tested with other jobs in sharded_test.cpp and
// memory_front_test.cpp.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "planner/run/memory.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Scene;
using support::schedule_of;

void add_frozen(core::Profile& profile, std::size_t layer, const std::string& name, std::int64_t elements) {
  profile.layers[layer].name = name;
  profile.layers[layer].frozen_elements = elements;
}

/// Tensors of 10 and 5 elements in the second and the fourth layer; the others train nothing.
core::Profile five_layers() {
  core::Profile out = profile_of({{1, 1, {}}, {2, 5, {10}}, {1, 1, {}}, {3, 4, {5}}, {1, 1, {}}});
  add_frozen(out, 0, "embed", 20);
  add_frozen(out, 1, "h.0.a", 0);
  add_frozen(out, 2, "h.0.b", 8);
  add_frozen(out, 3, "h.1.a", 0);
  add_frozen(out, 4, "head", 4);
  return out;
}

std::vector<std::int64_t> elements_of(const core::Profile& profile) {
  const Workload workload = make_workload(profile);
  std::vector<std::int64_t> out;
  for (const Gradient& gradient : workload.gradients) out.push_back(gradient.frozen_bytes / 4);
  return out;
}

TEST_CASE("frozen parameters: a layer of them goes to the neighbour of its block, or else to the next one") {
  using Elements = std::vector<std::int64_t>;
  core::Profile profile = five_layers();
  CHECK(elements_of(profile) == Elements{4, 28});
  profile.layers[2].name = "h.1.norm";
  CHECK(elements_of(profile) == Elements{12, 20});
  profile.layers[2].name = "h.10.b";  // a block of its own
  CHECK(elements_of(profile) == Elements{12, 20});
  profile.layers[2].module = "h.0.b";
  CHECK(elements_of(profile) == Elements{4, 28});
  const Workload workload = make_workload(profile);
  CHECK(workload.frozen_before == Elements{0, 16, 128});
  CHECK(workload.gradients[0].first_layer == 3);
  CHECK(workload.gradients[0].last_layer == 4);
  CHECK(workload.gradients[1].first_layer == 0);
  CHECK(workload.gradients[1].last_layer == 2);

  // The first of two tensors travels with what is before it, and the second with what is behind it.
  profile.layers[1].tensors.push_back({.name = "h.0.a.bias", .elements = 3});
  profile.layers[1].frozen_elements = 100;
  CHECK(elements_of(profile) == Elements{4, 8, 120});
}

TEST_CASE("frozen parameters: what once went to the next layer takes those behind it along") {
  core::Profile profile = profile_of({{1, 1, {1}}, {1, 1, {}}, {1, 1, {}}, {1, 1, {1}}});
  add_frozen(profile, 0, "h.0.a", 0);
  add_frozen(profile, 1, "h.1.b", 2);
  add_frozen(profile, 2, "h.0.b", 3);
  add_frozen(profile, 3, "h.1.a", 0);
  CHECK(elements_of(profile) == std::vector<std::int64_t>{5, 0});
}

// A gather or reduce-scatter of M bytes takes 1 + M/20 us. The first group, of layer 4, has 20 bytes and 16
// of the last layer; the second one has 40, and 112 of the layers around it: gathers of 2.8 and 8.6 us.
TEST_CASE("frozen parameters: they are gathered before the first layer that needs them, and not reduced") {
  const Scene scene(five_layers(), pair_of(2, 0.1), 2,
                    {.iterations = 1, .memory = MemoryOptions{.optimizer_states = 2}});
  const std::string again = R"({"pipeline": "sharded", "reshard_after_forward": true})";
  support::check_run(again, scene,
                     {"F1 8.6-9.6, F2 9.6-11.6, F3 11.6-12.6, F4 12.6-15.6, F5 15.6-16.6, "
                      "B5 19.4-20.4, B4 20.4-24.4, B3 28-29, B2 29-34, B1 34-35",
                      "G2 0-8.6, G1 8.6-11.4, g1 16.6-19.4, g2 19.4-28, S1 28-30, S2 34-37", 37});
  const Run run = scene.run(schedule_of(again));
  CHECK(run.metrics.bytes_sent_per_worker == doctest::Approx((2 * 188 + 60) / 2.0));
  const Memory memory = memory_of(scene.setting, run, run.timeline);
  const auto most = [&](MemoryPart part) {
    std::int64_t out = 0;
    for (const MemoryPoint& point : memory.points)
      out = std::max(out, point.bytes[static_cast<std::size_t>(part)]);
    return out;
  };
  CHECK(most(MemoryPart::parameters) == 4 * (5 + 3 + 14 + 2));  // the smaller tensor is shared as 3 and 2
  CHECK(most(MemoryPart::optimizer) == 4 * 2 * (5 + 3));
  CHECK(most(MemoryPart::gathered) == 188);
  CHECK(most(MemoryPart::gradients) == 20 + 12 + 40);
  const auto gathered_at = [&](double us) {
    std::int64_t out = 0;
    for (const MemoryPoint& point : memory.points)
      if (sim::to_us(point.at) <= us) out = point.bytes[static_cast<std::size_t>(MemoryPart::gathered)];
    return out;
  };
  CHECK(gathered_at(12.5) == 188);
  CHECK(gathered_at(12.6) == 36);
  CHECK(gathered_at(24.3) == 188);
  CHECK(gathered_at(24.4) == 152);
  CHECK(gathered_at(34.9) == 152);
  CHECK(gathered_at(35) == 0);
}

TEST_CASE("frozen parameters: other pipelines hold them whole and send nothing of them") {
  core::Profile without = five_layers();
  for (core::ProfileLayer& layer : without.layers) layer.frozen_elements = 0;
  const Conditions conditions = {.iterations = 2, .memory = MemoryOptions{}};
  const Scene scene(five_layers(), pair_of(2, 0.1), 2, conditions);
  const Scene other(without, pair_of(2, 0.1), 2, conditions);
  for (const char* name :
       {R"("ddp")", R"("zero")", R"({"pipeline": "zero", "overlap_gather": false})", R"("dear")"}) {
    CAPTURE(name);
    const Run run = scene.run(schedule_of(name));
    const Run plain = other.run(schedule_of(name));
    CHECK(run.timeline.spans == plain.timeline.spans);
    const Memory held = memory_of(scene.setting, run, run.timeline);
    const Memory expected = memory_of(other.setting, plain, plain.timeline);
    CHECK(total(held.peak.bytes) - total(expected.peak.bytes) == 4 * 32);
  }
}

TEST_CASE("frozen parameters: blocks that train nothing are warned of where they are gathered") {
  core::Profile profile = five_layers();
  profile.layers[2].name = "h.7.b";
  const auto warnings = [&](const char* schedule, std::int64_t workers) {
    core::Network network = pair_of(2, 0.1);
    const Setting setting(profile, network, workers, {}, {});
    std::vector<std::string> out;
    for (const Warning& warning : run(setting, schedule_of(schedule)).warnings)
      if (warning.subject == "frozen blocks") out.push_back(warning.text);
    return out;
  };
  CHECK(warnings(R"("fsdp2")", 2) ==
        std::vector<std::string>{"a block trains nothing, and is gathered together with a layer that does"});
  CHECK(warnings(R"("fsdp2")", 1).empty());
  CHECK(warnings(R"("zero")", 2).empty());
  profile.layers[2].name = "h.1.b";
  CHECK(warnings(R"("fsdp2")", 2).empty());
}

}  // namespace
}  // namespace planner
