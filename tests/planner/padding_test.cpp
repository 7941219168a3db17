// Tensors whose first dimension is padded, as in FSDP2: a timeline by hand, and jobs whose tensors are as
// large as padding makes them.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/choose/simulate_iteration.hpp"
#include "planner/run/memory.hpp"
#include "planner/schedule/choice.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

/// Two layers with tensors of 3 x 4 and 5 elements (48 and 20 bytes).
core::Profile odd_tensors() {
  core::Profile out = profile_of({{2, 5, {12}}, {3, 4, {5}}});
  out.layers[0].tensors[0].shape = {3, 4};
  out.layers[1].tensors[0].shape = {5};
  return out;
}

std::string sharded(const std::string& members) { return R"({"pipeline": "sharded")" + members + "}"; }

// A gather or reduce-scatter of M bytes takes 1 + M/20 us: 3.4 us of layer 1 and 2 us of layer 2. On two
// workers 4 x 4 and 6 elements travel (64 and 24 bytes), in 4.2 and 2.2 us.
TEST_CASE("padding: collectives carry the padded bytes") {
  const Scene scene(odd_tensors(), pair_of(2, 0.1), 2, {.iterations = 1});
  const std::string keys = R"(, "reshard_after_forward": false)";
  support::check_run(sharded(keys), scene,
                     {"F1 3.4-5.4, F2 5.4-8.4, B2 8.4-12.4, B1 12.4-17.4",
                      "G2 0-3.4, G1 3.4-5.4, S1 12.4-14.4, S2 17.4-20.8", 20.8});
  support::check_run(sharded(keys + R"(, "pad_tensors": true)"), scene,
                     {"F1 4.2-6.2, F2 6.4-9.4, B2 9.4-13.4, B1 13.4-18.4",
                      "G2 0-4.2, G1 4.2-6.4, S1 13.4-15.6, S2 18.4-22.6", 22.6});
}

// Two workers get 2 x 4 and 3 of the elements, four get 1 x 4 and 2 (80 and 88 bytes of 68 in all).
TEST_CASE("padding: it is that of the workers of a shard group, and warned of") {
  core::Profile profile = odd_tensors();
  const auto warnings = [&](const char* schedule, std::int64_t workers) {
    core::Network network = pair_of(2, 0.1);
    const Setting setting(profile, network, workers, {}, {});
    std::vector<std::string> out;
    for (const Warning& warning : run(setting, schedule_of(schedule)).warnings)
      if (warning.text.find("pad") != std::string::npos) out.push_back(warning.text);
    return out;
  };
  const auto more = [](int workers, int percent) {
    return std::vector<std::string>{
        fmt::format("FSDP2 pads the first dimension of each tensor to a multiple of {} workers: {} % more "
                    "bytes are sent and held",
                    workers, percent)};
  };
  CHECK(warnings(R"("fsdp2")", 4) == more(4, 41));
  CHECK(warnings(R"({"name": "hsdp", "shard_workers": 2})", 4) == more(2, 29));
  CHECK(warnings(R"("fsdp")", 4).empty());
  CHECK(warnings(R"("fsdp2")", 1).empty());
  profile.layers[1].tensors.push_back({.name = "scale", .elements = 1, .is_scalar = true});
  CHECK(warnings(R"("fsdp2")", 128) == more(128, 3461));  // 2564 bytes of 72
  profile.layers[1].tensors.pop_back();
  profile.layers[0].tensors[0].shape.clear();
  CHECK(warnings(R"("fsdp2")", 64) == more(64, 347));
  CHECK(warnings(R"("fsdp2")", 128).front() ==
        "the profile lacks shapes of some tensors, so that their padding by FSDP2 is left out");
}

TEST_CASE("padding: more bytes than can be counted are refused") {
  core::Profile profile = profile_of({{2, 5, {std::int64_t{1} << 40}}});
  profile.layers[0].tensors[0].shape = {1, std::int64_t{1} << 40};
  const Scene scene(profile, pair_of(2, 0.0), 100'000, {.iterations = 1});
  CHECK_THROWS_WITH_AS(scene.run(schedule_of(R"("fsdp2")")),
                       doctest::Contains("bytes of padding for 100000 workers"), core::Unsupported);
}

/// Gives each tensor one or two dimensions.
void add_shapes(core::Profile& profile, Random& random) {
  for (core::ProfileLayer& layer : profile.layers)
    for (core::ProfileTensor& tensor : layer.tensors) {
      const std::int64_t columns = random.between(1, 9);
      tensor.shape = tensor.elements % columns == 0
                         ? std::vector<std::int64_t>{tensor.elements / columns, columns}
                         : std::vector<std::int64_t>{tensor.elements};
    }
}

/// The profile with tensors as large as padding for so many workers makes them.
core::Profile enlarged(core::Profile profile, std::int64_t workers) {
  for (core::ProfileLayer& layer : profile.layers)
    for (core::ProfileTensor& tensor : layer.tensors) {
      const std::int64_t columns = tensor.elements / tensor.shape.front();
      while (tensor.shape.front() % workers != 0) ++tensor.shape.front();
      tensor.elements = tensor.shape.front() * columns;
    }
  return profile;
}

/// When how many bytes of a part are held, without repetitions.
std::vector<std::pair<sim::Time, std::int64_t>> course(const Memory& memory, MemoryPart part) {
  std::vector<std::pair<sim::Time, std::int64_t>> out;
  for (const MemoryPoint& point : memory.points)
    if (const std::int64_t bytes = point.bytes[static_cast<std::size_t>(part)];
        out.empty() || out.back().second != bytes)
      out.emplace_back(point.at, bytes);
  return out;
}

TEST_CASE(
    "padding: a job is planned and runs as one whose tensors are as large, but for its whole gradients") {
  std::uint32_t differ = 0;
  const std::uint32_t seeds = support::seeds(400);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t workers = random.between(2, 9);
    core::Profile profile = support::small_profile(random, 8);
    add_shapes(profile, random);
    Conditions conditions = support::small_conditions(random);
    conditions.accumulation_steps = random.one_in(3) ? random.between(2, 3) : 1;
    conditions.memory = MemoryOptions{.optimizer_states = random.between(0, 2)};
    if (random.one_in(3)) conditions.data_types.gather = core::Dtype::bfloat16;
    const core::Network network = support::random_link(random);
    const Scene scene(profile, network, workers, conditions);
    const Scene larger(enlarged(profile, workers), network, workers, conditions);
    const std::string fusion = random.one_in(2) ? R"("optimal")" : R"({"kind": "layers", "count": 2})";
    const std::string keys = fmt::format(R"(, "fusion": {}, "prefetch": {}, "backward_prefetch": {})", fusion,
                                         random.below(3), random.below(3));
    const Schedule pads = schedule_of(sharded(keys + R"(, "pad_tensors": true)"));
    const Schedule plain = schedule_of(sharded(keys));
    const Run run = scene.run(pads);
    const Run other = larger.run(plain);
    CHECK(run.groups == other.groups);
    CHECK(run.timeline.spans == other.timeline.spans);
    CHECK(run.metrics.iteration_us == other.metrics.iteration_us);
    CHECK(run.metrics.bytes_sent_per_worker == other.metrics.bytes_sent_per_worker);
    CHECK(run.proof.has_value() == other.proof.has_value());
    if (run.proof) CHECK(run.proof->optimality_gap == other.proof->optimality_gap);
    CHECK(lower_bound_us(request_of(scene.setting, pads)) ==
          lower_bound_us(request_of(larger.setting, plain)));
    if (scene.run(plain).metrics.iteration_us < run.metrics.iteration_us) ++differ;

    const Memory held = memory_of(scene.setting, run, run.timeline);
    const Memory expected = memory_of(larger.setting, other, other.timeline);
    for (const MemoryPart part : {MemoryPart::parameters, MemoryPart::optimizer, MemoryPart::gathered})
      CHECK(course(held, part) == course(expected, part));
  }
  CHECK(differ > seeds / 4);
}

}  // namespace
}  // namespace planner
