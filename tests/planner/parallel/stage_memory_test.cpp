// The memory of the stages of a pipeline: by hand, against the published numbers of micro-batches in flight,
// and against the accounts of jobs without stages.

#include "planner/parallel/stage_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/parallel/run.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

Parallel parallel_of(const std::string& json) { return read_parallel(core::Field::parse(json, "s.json")); }

ParallelRun run_of(const core::Profile& profile, std::int64_t workers, const Parallel& parallel,
                   const std::string& schedule, const Conditions& conditions) {
  return run_parallel(profile, pair_of(2, 0.1), workers, {}, conditions, schedule_of(schedule), parallel);
}

core::Profile with_activations(core::Profile profile, const std::vector<std::int64_t>& bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) profile.layers[i].activation_bytes = bytes[i];
  return profile;
}

/// Formats "0: 120 + 3000, 2: 120 + 6000": what is held from a time on, of these parts.
std::string over_time(const Memory& memory, const std::vector<MemoryPart>& parts) {
  std::string out;
  std::string before;
  for (const MemoryPoint& point : memory.points) {
    std::string now;
    for (const MemoryPart part : parts)
      now += fmt::format("{}{}", now.empty() ? "" : " + ", point.bytes[static_cast<std::size_t>(part)]);
    if (now == before) continue;
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", sim::to_us(point.at), now);
    before = now;
  }
  return out;
}

Memory memory_of_stage(const ParallelRun& run, const Parallel& parallel, const Conditions& conditions,
                       std::int64_t stage) {
  return stage_memory({.parallel = parallel,
                       .conditions = conditions,
                       .parts = run.parts,
                       .tied = run.tied,
                       .graph = run.graph,
                       .timeline = run.timeline},
                      stage);
}

const std::vector<MemoryPart> kMoving = {MemoryPart::gradients, MemoryPart::buffers, MemoryPart::activations};

// Layers 1 and 2 (40 and 80 bytes of parameters) are stage 0, layer 3 (120 bytes) is stage 1.
//
// stage 0  F1 F2      B1      B2.2 B2.1
//          0  2  4    8   12  14   16   18
//   channel                         [R1 16-26][R2 26-32]
// stage 1     F1 B1   F2 B2
//          0  2  4    8  10   14
//   channel                   [R1 14-28]
TEST_CASE("stage memory: micro-batches in flight hold their activations, gradients wait for the last one") {
  const core::Profile profile =
      with_activations(profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}}), {1000, 2000, 4000});
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]}})");
  const Conditions conditions = {.memory = MemoryOptions{.optimizer_states = 2}};
  const ParallelRun run = run_of(profile, 4, parallel, R"("wfbp")", conditions);
  const Memory first = memory_of_stage(run, parallel, conditions, 0);
  CHECK(over_time(first, {MemoryPart::parameters, MemoryPart::optimizer}) == "0: 120 + 240");
  CHECK(over_time(first, kMoving) ==
        "0: 0 + 0 + 3000, 2: 0 + 0 + 6000, 8: 120 + 0 + 6000, 12: 120 + 0 + 3000, 16: 120 + 0 + 1000, "
        "18: 120 + 0 + 0, 32: 0 + 0 + 0");
  CHECK(first.peak.at == sim::from_us(8));
  CHECK(total(first.peak.bytes) == 120 + 240 + 120 + 6000);
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 1), kMoving) ==
        "0: 0 + 0 + 0, 2: 0 + 0 + 4000, 4: 120 + 0 + 4000, 14: 120 + 0 + 0, 32: 0 + 0 + 0");
  CHECK(total(run.stages[0].memory->bytes) == total(first.peak.bytes));
  CHECK(total(run.stages[1].memory->bytes) == 120 + 240 + 120 + 4000);
}

// Where all passes take as long: from a stage to the last one in 1F1B, all in GPipe, as many as stages in
// ZB-H1.
TEST_CASE("stage memory: an order of passes holds as many micro-batches as its authors say") {
  for (std::int64_t stages = 1; stages <= 4; ++stages)
    for (const std::int64_t micro_batches : {stages, 2 * stages + 1})
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        CAPTURE(stages);
        CAPTURE(micro_batches);
        CAPTURE(stage);
        const std::vector<support::LayerSpec> layers(static_cast<std::size_t>(stages), {5, 10, {4}});
        const core::Profile profile =
            with_activations(profile_of(layers), std::vector<std::int64_t>(layers.size(), 1000));
        const auto held = [&](const std::string& order) {
          const Parallel parallel = parallel_of(
              fmt::format(R"({{"pipeline": {}, "stages": {{"schedule": "{}", "micro_batches": {}}}}})",
                          stages, order, micro_batches));
          const Conditions conditions = {.memory = MemoryOptions{}};
          const ParallelRun run = run_of(profile, stages, parallel, R"("wfbp")", conditions);
          std::int64_t most = 0;
          for (const MemoryPoint& point : memory_of_stage(run, parallel, conditions, stage).points)
            most = std::max(most, point.bytes[static_cast<std::size_t>(MemoryPart::activations)]);
          return most / 1000;
        };
        CHECK(held("1f1b") == std::min(micro_batches, stages - stage));
        CHECK(held("gpipe") == micro_batches);
        CHECK(held("zb-h1") == std::min(micro_batches, stages));
      }
}

// The same in one group, which is copied to be sent: stage 0's when both gradients are ready, at 18.
TEST_CASE("stage memory: a group of several tensors is copied when it is sent, unless buffers are kept") {
  const core::Profile profile =
      with_activations(profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}}), {1000, 2000, 4000});
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]}})");
  Conditions conditions = {.memory = MemoryOptions{}};
  const std::vector<MemoryPart> sent = {MemoryPart::gradients, MemoryPart::buffers};
  const std::string schedule = R"({"pipeline": "wfbp", "fusion": "all"})";
  ParallelRun run = run_of(profile, 4, parallel, schedule, conditions);
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 0), sent) ==
        "0: 0 + 0, 8: 120 + 0, 18: 120 + 120, 32: 0 + 0");
  conditions.memory->gradients_in_buffers = true;
  run = run_of(profile, 4, parallel, schedule, conditions);
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 0), sent) == "0: 120 + 0");
}

// Layers 1 and 2 are groups 2 and 1: gathers of 3 and 5 us, kept up to backward of the last micro-batch; a
// reduce-scatter of 3 or 5 us, after which a worker keeps half of the gradients: 20 and 40 of 40 and 80
// bytes.
//
// stage 0   F1.1 F1.2 F2      B1      B2.2 B2.1
//          3    8    9   11   15  19  21   23   25
//   channel G2 0-3, G1 3-8           [R1 23-28][R2 28-31]
TEST_CASE("stage memory: sharded parts hold what they gathered up to the last backward pass") {
  const core::Profile profile =
      with_activations(profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}}), {1000, 2000, 4000});
  const Parallel parallel = parallel_of(
      R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1], "overlap": "first_stage"}})");
  const Conditions conditions = {.memory = MemoryOptions{}};
  const ParallelRun run =
      run_of(profile, 4, parallel,
             R"({"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false})", conditions);
  const Memory memory = memory_of_stage(run, parallel, conditions, 0);
  CHECK(over_time(memory, {MemoryPart::parameters}) == "0: 60");
  CHECK(over_time(memory, {MemoryPart::gathered}) == "0: 40, 3: 120, 23: 40, 25: 0");
  CHECK(over_time(memory, {MemoryPart::gradients}) == "0: 0, 15: 120, 23: 160, 28: 100, 31: 0");
}

// The same stage with gradients of 2 bytes that are reduced in 4 from 22 on, when both micro-batches are
// computed: that of layer 2 (20 elements) to 27, and of layer 1 (10 elements) to 30.
TEST_CASE("stage memory: sharded parts add gradients up in the type in which they send them, one at a time") {
  core::Profile profile = profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}});
  profile.dtype = core::Dtype::bfloat16;
  Conditions conditions = {.memory = MemoryOptions{}};
  conditions.data_types.reduce = core::Dtype::float32;
  for (const auto& [in_flight, held] :
       {std::pair{"0", "0: 0 + 0, 12: 120 + 0, 18: 160 + 0, 22: 60 + 80, 27: 30 + 40, 30: 0 + 0"},
        {"1", "0: 0 + 0, 12: 120 + 0, 18: 160 + 0, 22: 20 + 120, 27: 30 + 40, 30: 0 + 0"}}) {
    const Parallel parallel = parallel_of(
        R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]}})");
    const ParallelRun run =
        run_of(profile, 4, parallel,
               fmt::format(R"({{"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false,
                                "scatters_in_flight": {}}})",
                           in_flight),
               conditions);
    CHECK(over_time(memory_of_stage(run, parallel, conditions, 0),
                    {MemoryPart::gradients, MemoryPart::buffers}) == held);
  }
}

// Both layers of a stage are computed again together: between the passes only the second layer's activations
// are held.
TEST_CASE("stage memory: recomputed layers are held while a pass runs") {
  const core::Profile profile =
      with_activations(profile_of({{1, 2, {10}}, {1, 2, {20}}, {1, 2, {30}}}), {1000, 2000, 4000});
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]}})");
  const Conditions conditions = {.memory = MemoryOptions{}, .recompute = Recompute{.layers = 2}};
  const ParallelRun run = run_of(profile, 4, parallel, R"("wfbp")", conditions);
  // stage 0: F1 0-2, F2 2-4, B1 6-12 (4 and 2 again), B2.2 12-16, B2.1 16-18
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 0), {MemoryPart::activations}) ==
        "0: 3000, 2: 5000, 4: 4000, 6: 5000, 12: 3000, 16: 1000, 18: 0");
}

/// Counts as Megatron-LM's schedules.py: the forward passes of the warm-up, and one more.
std::int64_t in_flight(std::int64_t stages, std::int64_t stage, std::int64_t parts,
                       std::int64_t micro_batches) {
  if (parts == 1) return std::min(micro_batches, stages - stage);
  return std::min(micro_batches * parts, 2 * (stages - stage - 1) + (parts - 1) * stages + 1);
}

TEST_CASE("stage memory: as many micro-batches are in flight as the warm-up has passes, and one more") {
  for (const std::int64_t stages : {2, 3, 4, 8})
    for (const std::int64_t parts : {1, 2, 3})
      for (const std::int64_t rounds : {1, 2, 5}) {
        CAPTURE(stages);
        CAPTURE(parts);
        const std::int64_t micro_batches = stages * rounds;
        CAPTURE(micro_batches);
        const auto layers = static_cast<std::size_t>(stages * parts);
        const core::Profile profile =
            with_activations(profile_of(std::vector<support::LayerSpec>(layers, {1, 2, {1}})),
                             std::vector<std::int64_t>(layers, 1000));
        const Parallel parallel = parallel_of(
            fmt::format(R"({{"pipeline": {}, "stages": {{"schedule": "{}", "micro_batches": {}{}}}}})",
                        stages, parts == 1 ? "1f1b" : "interleaved", micro_batches,
                        parts == 1 ? "" : fmt::format(R"(, "virtual_stages": {})", parts)));
        const Conditions conditions = {.memory = MemoryOptions{}};
        const ParallelRun run = run_of(profile, stages, parallel, R"("wfbp")", conditions);
        for (const StageMetrics& stage : run.stages) {
          CAPTURE(stage.stage);
          std::int64_t most = 0;
          for (const MemoryPoint& point : memory_of_stage(run, parallel, conditions, stage.stage).points)
            most = std::max(most, point.bytes[static_cast<std::size_t>(MemoryPart::activations)]);
          CHECK(most == 1000 * in_flight(stages, stage.stage, parts, micro_batches));
        }
      }
}

TEST_CASE("stage memory: one stage takes the time and the memory of a job without stages") {
  int compared = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    core::Profile profile = support::random_profile(random, 6);
    for (core::ProfileLayer& layer : profile.layers) {
      layer.activation_bytes = random.below(20'000);
      for (core::ProfileTensor& tensor : layer.tensors) tensor.shape = {tensor.elements};
      if (seed % 2 == 0) layer.frozen_elements = random.below(50);
    }
    if (seed % 4 == 0 && profile.layers.size() > 1 && !profile.layers.back().tensors.empty())
      profile.layers.front().tensors.clear();
    const core::Network network = support::random_link(random);
    const std::int64_t workers = random.between(2, 6);
    Conditions conditions = {.iterations = 1,
                             .memory = MemoryOptions{.optimizer_states = random.below(3),
                                                     .gradients_in_buffers = random.one_in(3)}};
    if (random.one_in(3)) conditions.data_types.master = core::Dtype::float32;
    if (random.one_in(3)) conditions.data_types.reduce = core::Dtype::bfloat16;
    if (random.one_in(3)) conditions.data_types.gradients = core::Dtype::bfloat16;
    const bool computes_again = random.one_in(3);
    const std::int64_t micro_batches = computes_again ? 1 : random.between(1, 3);
    if (computes_again) conditions.recompute = Recompute{.layers = 1 + random.below(3)};
    Conditions accumulated = conditions;
    accumulated.accumulation_steps = micro_batches;
    const core::Profile alone = computes_again ? recomputed(profile, *conditions.recompute) : profile;
    for (const std::pair<std::string, bool>& each : std::vector<std::pair<std::string, bool>>{
             {R"({"pipeline": "wfbp", "fusion": "none"})", false},
             {R"({"pipeline": "wfbp", "fusion": "groups"})", false},
             {R"({"pipeline": "after_backward", "fusion": "groups"})", false},
             {R"({"pipeline": "zero", "stage": 1, "overlap_gather": false, "fusion": "groups"})", false},
             {R"({"pipeline": "zero", "stage": 2, "overlap_gather": false, "fusion": "groups"})", false},
             {R"({"pipeline": "sharded", "reshard_after_forward": false, "fusion": "none"})", true},
             {R"({"pipeline": "sharded", "reshard_after_forward": false, "fusion": "all"})", false},
             {R"({"pipeline": "sharded", "fusion": "none"})", true},
             {R"({"pipeline": "sharded", "prefetch": 2, "backward_prefetch": 0, "fusion": "none"})", true},
             {R"({"pipeline": "sharded", "reshard_after_forward": true, "fusion": "groups"})", true},
             {R"({"pipeline": "sharded", "kept_groups": 1, "scatters_in_flight": 1, "fusion": "none"})",
              true},
             {R"({"pipeline": "sharded", "gather_early": true, "pad_tensors": true, "fusion": "none"})",
              true},
             {R"({"pipeline": "sharded", "gather_early": true, "kept_groups": 1, "fusion": "none"})", true},
             {R"({"pipeline": "sharded", "gather_early": true, "prefetch": 2, "reshard_after_forward": true,
                  "fusion": "none"})",
              true},
             {R"({"pipeline": "sharded", "gather_early": true, "reshard_after_backward": false,
                  "fusion": "none"})",
              true},
             {R"({"pipeline": "sharded", "reshard_after_backward": false, "fusion": "none"})", true},
             {R"({"pipeline": "sharded", "reshard_after_forward": false, "reshard_after_backward": false,
                  "fusion": "none"})",
              true}}) {
      const std::string& schedule = each.first;  // the other: whether groups may divide a segment
      CAPTURE(schedule);
      if (computes_again && each.second) continue;  // a recomputed segment is gathered whole
      const bool reduces_each = schedule.find(R"("stage": 2)") != std::string::npos;
      if (reduces_each && micro_batches > 1) continue;  // refused
      const Scene scene(alone, network, workers, accumulated);
      const Run run = scene.run(schedule_of(schedule));
      const Memory expected = planner::memory_of(scene.setting, run, run.timeline);
      const ParallelRun staged =
          run_parallel(profile, network, workers, {}, conditions, schedule_of(schedule),
                       parallel_of(fmt::format(R"({{"stages": {{"schedule": "1f1b", "micro_batches": {}}}}})",
                                               micro_batches)));
      CHECK(staged.metrics.iteration_us == run.metrics.iteration_us);
      const std::int64_t most = total(staged.stages.front().memory->bytes);
      const bool adds_up =
          micro_batches > 1 && conditions.data_types.gradients != conditions.data_types.reduce;
      if (computes_again || adds_up)  // here all that a pass needs is held at once
        CHECK(most >= total(expected.peak.bytes));
      else
        CHECK(most == total(expected.peak.bytes));
      ++compared;
    }
  }
  CHECK(compared > 1000 * static_cast<int>(support::seeds(300)) / 300);
}

TEST_CASE("stage memory: experts that no other worker holds are whole, and so are their optimizer's states") {
  core::Profile profile = with_activations(profile_of({{1, 2, {10}}, {1, 2, {20}}}), {0, 0});
  profile.layers[1].kind = "experts";
  const Parallel parallel = parallel_of(R"({"expert": 2})");
  const Conditions conditions = {.memory = MemoryOptions{.optimizer_states = 2}};
  const ParallelRun run = run_of(
      profile, 2, parallel, R"({"pipeline": "zero", "overlap_gather": false, "fusion": "all"})", conditions);
  // 40 bytes of dense parameters, half of whose states are here; 80 bytes of experts
  CHECK(run.stages.front().memory->bytes[static_cast<std::size_t>(MemoryPart::parameters)] == 120);
  CHECK(run.stages.front().memory->bytes[static_cast<std::size_t>(MemoryPart::optimizer)] == 2 * (20 + 80));
}

// Stage 0 has the timeline of the first test; stage 1 sums its 120 bytes and the copy, and both are tied at
// the end, in another type than gradients have: 20 bytes are copied.
TEST_CASE("stage memory: tied tensors are held at both ends, and copied if they are sent in another type") {
  const core::Profile profile = profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}});
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]},
                      "tied_tensors": [{"tensor": "l1.a", "layer": "l3"}]})");
  Conditions conditions = {.memory = MemoryOptions{.gradients_in_buffers = true}};
  ParallelRun run = run_of(profile, 4, parallel, R"("wfbp")", conditions);
  const std::vector<MemoryPart> parts = {MemoryPart::parameters, MemoryPart::gradients, MemoryPart::buffers};
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 0), parts) == "0: 120 + 120 + 0");
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 1), parts) == "0: 160 + 160 + 0");
  conditions.data_types.reduce = core::Dtype::bfloat16;
  run = run_of(profile, 2, parallel, R"("wfbp")", conditions);  // nothing but the tie, at 18, in 2 + 2 us
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 0), {MemoryPart::buffers}) ==
        "0: 0, 18: 20, 22: 0");
  CHECK(over_time(memory_of_stage(run, parallel, conditions, 1), {MemoryPart::buffers}) ==
        "0: 0, 18: 20, 22: 0");
}

TEST_CASE("stage memory: activations whose sum may exceed 64 bits are refused") {
  const core::Profile profile =
      with_activations(profile_of({{1, 2, {10}}, {1, 2, {20}}}), {1'000'000'000'000'000, 1});
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 5000}})");
  const Conditions conditions = {.memory = MemoryOptions{}};
  CHECK_THROWS_WITH_AS(run_of(profile, 2, parallel, R"("wfbp")", conditions),
                       doctest::Contains("bytes of activations in all"), core::Unsupported);
}

}  // namespace
}  // namespace planner
