// Jobs with pipeline stages: complete timelines computed by hand, the bubble against an independent
// evaluator, and where process groups lie on the network.

#include "planner/parallel/parallel.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/parallel/parts.hpp"
#include "planner/parallel/run.hpp"
#include "planner/parallel/slots.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/one_f_one_b.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/stage_streams.hpp"

namespace planner {
namespace {

using support::channel;
using support::compute;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::schedule_of;
using support::stream;

Parallel parallel_of(const std::string& json) { return read_parallel(core::Field::parse(json, "s.json")); }

Parallel stages_of(std::int64_t pipeline, std::int64_t micro_batches, const std::string& members = "") {
  return parallel_of(
      fmt::format(R"({{"pipeline": {}, "stages": {{"schedule": "1f1b", "micro_batches": {}{}}}}})", pipeline,
                  micro_batches, members));
}

ParallelRun run_of(const core::Profile& profile, const core::Network& network, std::int64_t workers,
                   const Parallel& parallel, const std::string& schedule, const Conditions& conditions = {}) {
  return run_parallel(profile, network, workers, {}, conditions, schedule_of(schedule), parallel);
}

/// Two parts: layers 1 and 2 (40 and 80 bytes), and layer 3 (120 bytes); each takes 2 us forward and 4 us
/// backward. On two workers an all-reduce takes 6, 10 and 14 us, each half of it half as long.
core::Profile three_layers() { return profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}}); }

const std::string kTwoAndOne = R"(, "layers": [2, 1])";
const std::string kFirstOverlaps = kTwoAndOne + R"(, "overlap": "first_stage")";

// ---- 1F1B by hand

// stage 0  F1 F2      B1      B2.2 B2.1
//          0  2  4    8   12  14   16   18
//   channel                         [R1 16-26][R2 26-32]
// stage 1     F1 B1   F2 B2
//          0  2  4    8  10   14
//   channel                   [R1 14-28]
TEST_CASE(
    "parallel: the last micro-batch's gradients travel, of stage 0 under its backward, of stage 1 after") {
  const ParallelRun run =
      run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2, kTwoAndOne), R"("wfbp")");
  CHECK(compute(run, 0) == "F1 0-2, F2 2-4, B1 8-12, B2.2 14-16, B2.1 16-18");
  CHECK(compute(run, 1) == "F1 2-4, B1 4-8, F2 8-10, B2 10-14");
  CHECK(channel(run, 0) == "R1 16-26, R2 26-32");
  CHECK(channel(run, 1) == "R1 14-28");
  CHECK(run.metrics.iteration_us == 32);
  CHECK(run.metrics.exposed_communication_us == 14);
  CHECK(run.metrics.forward_us == 4);
  CHECK(run.metrics.backward_us == 8);
  CHECK(run.metrics.communication_us == 16);
  CHECK(run.metrics.groups == 3);
  CHECK(run.metrics.bytes_sent_per_worker == (120 + 120) / 2);  // 2 x 1/2 of a stage's bytes
  // 2 x 8 samples on each of 2 data-parallel workers; one worker alone takes 2 x 12 us
  CHECK(run.metrics.throughput_samples_per_s == doctest::Approx(32 / 32e-6));
  CHECK(run.metrics.speedup == doctest::Approx(2 * 24.0 / 32));
  CHECK(run.metrics.scaling_efficiency == doctest::Approx(2 * 24.0 / 32 / 4));
  CHECK(run.stages[1].bubble_us == 6);
  CHECK(run.stages[1].passes_end_us == 14);
  CHECK(run.stages[1].end_us == 28);
}

// The last stage holds a copy of layer 1's tensor (40 bytes), and sums its gradients, too. Then both ends sum
// what they have, in 6 us.
//
// stage 0 channel  R1 16-26, R2 26-32,        T 34-40
// stage 1 channel  R1 14-28,        R2 28-34, T 34-40
TEST_CASE("parallel: the first and the last stage sum the gradients of tied tensors after all others") {
  Parallel parallel = stages_of(2, 2, kTwoAndOne);
  parallel.tied_tensors = {{.tensor = "l1.a", .layer = "l3"}};
  const ParallelRun run = run_of(three_layers(), pair_of(2, 0.1), 4, parallel, R"("wfbp")");
  CHECK(channel(run, 0) == "R1 16-26, R2 26-32, T 34-40");
  CHECK(channel(run, 1) == "R1 14-28, R2 28-34, T 34-40");
  CHECK(run.metrics.iteration_us == 40);
  CHECK(run.stages[1].end_us == 40);
  CHECK(run.metrics.bytes_sent_per_worker == (120 + 160 + 2 * 40) / 2.0);
  CHECK(run_of(three_layers(), pair_of(2, 0.1), 4, parallel, R"({"pipeline": "wfbp", "fusion": "optimal"})")
            .is_exact);
}

TEST_CASE("parallel: tied tensors are summed over their own network where a data group is one worker") {
  Parallel parallel = stages_of(2, 2, kTwoAndOne);
  parallel.tied_tensors = {{.tensor = "l2.a", .layer = "l3"}};
  const ParallelRun run = run_of(three_layers(), pair_of(2, 0.1), 2, parallel, R"("wfbp")");
  CHECK(channel(run, 0) == "T 18-28");
  CHECK(channel(run, 1) == "T 18-28");
}

TEST_CASE("parallel: the ends of a pipeline are joined by the level that joins all stages") {
  core::Network network = pair_of(2, 0.1);
  network.link.reset();
  network.levels = {{.name = "inside", .size = 4, .link = {.alpha_us = 1, .beta_us_per_byte = 0.1}},
                    {.name = "rack", .size = 2, .link = {.alpha_us = 2, .beta_us_per_byte = 0.2}},
                    {.name = "between", .link = {.alpha_us = 3, .beta_us_per_byte = 0.3}}};
  const auto level = [&](std::int64_t pipeline, std::int64_t workers) {
    Parallel parallel = stages_of(pipeline, 4);
    parallel.tied_tensors = {{.tensor = "a", .layer = "b"}};
    const core::Network found = process_groups(parallel, network, workers).tied.network;
    REQUIRE(found.levels.size() == 1);
    CHECK_FALSE(found.levels.front().size.has_value());
    return found.levels.front().name;
  };
  CHECK(level(2, 2) == "inside");
  CHECK(level(4, 4) == "inside");
  CHECK(level(2, 8) == "rack");
  CHECK(level(4, 8) == "rack");
  CHECK(level(2, 16) == "between");
  CHECK(level(8, 64) == "between");
}

// f = 1, b = 2, messages of 1 us
// stage 0  F1 0-1 F2 1-2        B1 6-8 F3 8-9 B2 9-11 F4 11-12     B3 14-16    B4 17-19
// stage 1            F1 2-3 B1 3-5 F2 5-6 B2 6-8        F3 10-11 B3 11-13 F4 13-14 B4 14-16
TEST_CASE("parallel: messages between stages delay both directions") {
  const core::Profile two = profile_of({{1, 2, {10}}, {1, 2, {20}}});
  const ParallelRun run = run_of(two, pair_of(2, 0.1), 2, stages_of(2, 4, R"(, "p2p_us": 1)"), R"("wfbp")");
  CHECK(compute(run, 0) == "F1 0-1, F2 1-2, B1 6-8, F3 8-9, B2 9-11, F4 11-12, B3 14-16, B4 17-19");
  CHECK(compute(run, 1) == "F1 2-3, B1 3-5, F2 5-6, B2 6-8, F3 10-11, B3 11-13, F4 13-14, B4 14-16");
  CHECK(stream(run, 2, JobGraph::messages(0, true)) == ">1 1-2, >2 2-3, >3 9-10, >4 12-13");
  CHECK(stream(run, 2, JobGraph::messages(1, false)) == "<1 5-6, <2 8-9, <3 13-14, <4 16-17");
  CHECK(channel(run, 0).empty());  // one worker in each data group
  CHECK(run.metrics.iteration_us == 19);
}

// Two parts on each of two stages, f = 1, b = 2.
// stage 0  F1 F2 F1' F2'        B1'    B2'     B1       B2
//          0  1  2   3   4      6    8 9    11      13       15
// stage 1     F1 F2 F1' B1'   F2' B2'    B1      B2
//             1  2  3   4     6   7    9      11     13
TEST_CASE("parallel: parts of an interleaved stage send at once, later stages so much later") {
  const core::Profile four = profile_of({{1, 2, {10}}, {1, 2, {10}}, {1, 2, {10}}, {1, 2, {10}}});
  const Parallel interleaved = parallel_of(
      R"({"pipeline": 2, "stages": {"schedule": "interleaved", "micro_batches": 2, "virtual_stages": 2}})");
  const ParallelRun run = run_of(four, pair_of(0, 0.025), 4, interleaved, R"("wfbp")");  // 1 us each
  CHECK(compute(run, 0) == "F1 0-1, F2 1-2, F1' 2-3, F2' 3-4, B1' 6-8, B2' 9-11, B1 11-13, B2 13-15");
  CHECK(compute(run, 1) == "F1 1-2, F2 2-3, F1' 3-4, B1' 4-6, F2' 6-7, B2' 7-9, B1 9-11, B2 11-13");
  CHECK(channel(run, 0) == "R1 11-12, R1 15-16");
  CHECK(channel(run, 1) == "R1 11-12, R1 13-14");  // the first one pass later, with that of stage 0
  Parallel together = interleaved;
  together.stages.overlap = StageOverlap::all_stages;
  CHECK(channel(run_of(four, pair_of(0, 0.025), 4, together, R"("wfbp")"), 1) == "R1 9-10, R1 13-14");
}

TEST_CASE(
    "parallel: interleaved stages go ahead by twice the stages that follow and a run for each further part") {
  const Stages stages = {.order = StageOrder::interleaved, .micro_batches = 4, .virtual_stages = 2};
  const auto order = [&](std::int64_t stage) {
    std::string out;
    for (const Slot& slot : slots_of(stages, 2, stage))
      out += fmt::format("{}{}{}{}", out.empty() ? "" : " ", slot.kind == PassKind::forward ? 'F' : 'B',
                         slot.micro_batch, slot.part >= 2 ? "'" : "");
    return out;
  };
  CHECK(order(0) == "F0 F1 F0' F1' F2 B0' F3 B1' F2' B0 F3' B1 B2' B3' B2 B3");
  CHECK(order(1) == "F0 F1 F0' B0' F1' B1' F2 B0 F3 B1 F2' B2' F3' B3' B2 B3");
}

// ---- gathers by hand

// stage 0   channel  G2 0-3, G1 3-8               R1 23-28, R2 28-31
//           compute  F1.1 3-4, F1.2 8-9, F2 9-11, B1 15-19, B2.2 21-23, B2.1 23-25
// stage 1   channel  G1 0-7                       R1 21-28
//           compute  F1 9-11, B1 11-15, F2 15-17, B2 17-21
TEST_CASE("parallel: parameters are gathered under the first micro-batch, of stage 1 while it waits") {
  const auto run = [](const std::string& schedule) {
    return run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2, kFirstOverlaps), schedule);
  };
  for (const char* schedule :
       {R"("zero")", R"({"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false})"}) {
    CAPTURE(schedule);
    const ParallelRun under = run(schedule);
    CHECK(compute(under, 0) == "F1.1 3-4, F1.2 8-9, F2 9-11, B1 15-19, B2.2 21-23, B2.1 23-25");
    CHECK(compute(under, 1) == "F1.1 9-11, B1 11-15, F2 15-17, B2 17-21");
    CHECK(channel(under, 0) == "G2 0-3, G1 3-8, R1 23-28, R2 28-31");
    CHECK(channel(under, 1) == "G1 0-7, R1 21-28");
    CHECK(under.metrics.iteration_us == 31);
  }
  const ParallelRun before = run(R"({"pipeline": "zero", "overlap_gather": false})");
  CHECK(compute(before, 0) == "F1.1 8-9, F1.2 9-10, F2 10-12, B1 16-20, B2.2 22-24, B2.1 24-26");
  CHECK(before.metrics.iteration_us == 32);
  const ParallelRun unprefetched =
      run(R"({"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false, "prefetch": 0})");
  CHECK(compute(unprefetched, 0) == "F1.1 3-4, F1.2 9-10, F2 10-12, B1 16-20, B2.2 22-24, B2.1 24-26");
  CHECK(channel(unprefetched, 0) == "G2 0-3, G1 4-9, R1 24-29, R2 29-32");
}

// The first layer's parameters are released after each forward pass and gathered again before each pass that
// does not have them; no backward pass releases them, so the last one finds them.
// stage 0   channel  G2 0-3, G1 3-8, G2 9-12, G2 14-17                        R1 23-28, R2 28-31
//           compute  F1.1 3-4, F1.2 8-9, F2.1 12-13, F2.2 13-14, B1.2 15-17, B1.1 17-19, B2.2 21-23, B2.1
//           23-25
// stage 1   channel  G1 0-7                                                   R1 21-28
//           compute  F1.1 9-11, B1 11-15, F2 15-17, B2 17-21
TEST_CASE("parallel: parameters that a forward pass releases are gathered again") {
  const ParallelRun run =
      run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2, kFirstOverlaps), R"("fsdp")");
  CHECK(compute(run, 0) ==
        "F1.1 3-4, F1.2 8-9, F2.1 12-13, F2.2 13-14, B1.2 15-17, B1.1 17-19, B2.2 21-23, B2.1 23-25");
  CHECK(compute(run, 1) == "F1.1 9-11, B1 11-15, F2 15-17, B2 17-21");
  CHECK(channel(run, 0) == "G2 0-3, G1 3-8, G2 9-12, G2 14-17, R1 23-28, R2 28-31");
  CHECK(channel(run, 1) == "G1 0-7, R1 21-28");
  CHECK(run.metrics.iteration_us == 31);
}

// Three groups of 3 us in stage 0. Before the second is sent the first must have arrived.
// compute   F1.1 3-4, F1.2 6-7, F1.3 9-10       B1.3 12-13, B1.2 13-14    B1.1 16-24
// channel   G3 0-3, G2 3-6, G1 6-9              R1 13-16, R2 16-19        R3 24-27
TEST_CASE("parallel: backward waits for a reduce-scatter if more may not be in flight") {
  const core::Profile four = profile_of({{1, 8, {10}}, {1, 1, {10}}, {1, 1, {10}}, {1, 1, {10}}});
  const auto run = [&](const std::string& members) {
    return run_of(
        four, pair_of(2, 0.1), 4, stages_of(2, 1, R"(, "layers": [3, 1], "overlap": "first_stage")"),
        R"({"pipeline": "sharded", "fusion": "none", "reshard_after_forward": false)" + members + "}");
  };
  const ParallelRun one = run(R"(, "scatters_in_flight": 1)");
  CHECK(compute(one, 0) == "F1.1 3-4, F1.2 6-7, F1.3 9-10, B1.3 12-13, B1.2 13-14, B1.1 16-24");
  CHECK(channel(one, 0) == "G3 0-3, G2 3-6, G1 6-9, R1 13-16, R2 16-19, R3 24-27");
  CHECK(one.metrics.iteration_us == 27);
  for (const char* more : {"", R"(, "scatters_in_flight": 2)"}) {
    CAPTURE(more);
    CHECK(compute(run(more), 0) == "F1.1 3-4, F1.2 6-7, F1.3 9-10, B1.3 12-13, B1.2 13-14, B1.1 14-22");
  }
}

TEST_CASE("parallel: reading comes before the stages, the update after all of them") {
  const ParallelRun run = run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2, kTwoAndOne), R"("wfbp")",
                                 {.read_us = 5, .read_is_overlapped = false, .optimizer_us = 7});
  CHECK(run.metrics.iteration_us == 32 + 5 + 7);
  CHECK(run.metrics.update_us == 7);
  CHECK(run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2, kTwoAndOne), R"("wfbp")", {.read_us = 50})
            .metrics.iteration_us == 50);
}

TEST_CASE("parallel: one stage is as fast as a job without stages, and so is a worker alone") {
  for (const bool is_overlapped : {false, true}) {
    const Conditions conditions = {.iterations = 1,
                                   .read_us = 5,
                                   .read_is_overlapped = is_overlapped,
                                   .waiting_us = 11,
                                   .optimizer_us = 7,
                                   .stragglers = {{.worker = 1, .slowdown = 3}}};
    const Metrics staged =
        run_of(three_layers(), pair_of(2, 0.1), 2, stages_of(1, 1), R"("wfbp")", conditions).metrics;
    const Metrics alone =
        support::Scene(three_layers(), pair_of(2, 0.1), 2, conditions).run(schedule_of(R"("wfbp")")).metrics;
    CHECK(staged.iteration_us == alone.iteration_us);
    CHECK(staged.speedup == doctest::Approx(alone.speedup).epsilon(1e-12));
  }
}

// ---- the bubble

TEST_CASE("parallel: passes end when an independent evaluator of 1F1B says") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t stages = random.between(1, 6);
    const std::int64_t micro_batches = random.between(1, 9);
    const bool is_uniform = random.one_in(3);
    std::vector<support::LayerSpec> layers;
    std::vector<double> forward, backward;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      layers.push_back(
          {static_cast<double>(random.between(1, 99)), static_cast<double>(random.between(1, 99)), {4}});
      if (is_uniform) layers.back() = layers.front();
      forward.push_back(layers.back().forward_us);
      backward.push_back(layers.back().backward_us);
    }
    // each message must leave before the next one of its stage
    const double message = static_cast<double>(random.below(2));
    const ParallelRun run =
        run_of(profile_of(layers), support::link_of(1, 0.1), stages,
               stages_of(stages, micro_batches, fmt::format(R"(, "p2p_us": {})", message)), R"("wfbp")");
    CHECK(run.metrics.iteration_us == doctest::Approx(std::ranges::max(support::ends_of_passes(
                                          forward, backward, micro_batches, message))));
    if (is_uniform && message == 0)
      CHECK(run.metrics.iteration_us ==
            static_cast<double>(micro_batches + stages - 1) * (forward.front() + backward.front()));
  }
}

TEST_CASE("parallel: an interleaved bubble is shorter by the number of parts of a stage") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t stages = random.between(2, 5);
    const std::int64_t parts = random.between(2, 4);
    const std::int64_t micro_batches = stages * random.between(1, 4);
    const auto f = static_cast<double>(random.between(1, 50));
    const auto b = static_cast<double>(random.between(1, 50));
    const std::vector<support::LayerSpec> layers(static_cast<std::size_t>(stages * parts), {f, b, {4}});
    const Parallel parallel = parallel_of(fmt::format(
        R"({{"pipeline": {}, "stages": {{"schedule": "interleaved", "micro_batches": {}, "virtual_stages": {}}}}})",
        stages, micro_batches, parts));
    for (std::int64_t stage = 0; stage < stages; ++stage) {  // every pass once
      std::vector<Slot> slots = slots_of(parallel.stages, stages, stage);
      CHECK(slots.size() == static_cast<std::size_t>(2 * parts * micro_batches));
      for (std::size_t i = 0; i < slots.size(); ++i) CHECK(std::ranges::count(slots, slots[i]) == 1);
    }
    const ParallelRun run =
        run_of(profile_of(layers), support::link_of(1, 0.1), stages, parallel, R"("wfbp")");
    const double all = static_cast<double>(micro_batches * parts) * (f + b);
    CHECK(run.metrics.iteration_us == doctest::Approx(all + static_cast<double>(stages - 1) * (f + b)));
  }
}

// ---- groups of tensors

TEST_CASE("parallel: `optimal` is the best of all groupings of all stages, and says where it is exact") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<support::LayerSpec> layers(4);
    for (support::LayerSpec& layer : layers)
      layer = {static_cast<double>(random.between(1, 60)),
               static_cast<double>(random.between(1, 60)),
               {random.between(1, 2000)}};
    const core::Profile profile = profile_of(layers);
    const core::Network network = support::random_link(random);
    const std::vector<std::string> orders = {"1f1b", "gpipe", "zb-h1"};
    const std::string& order = orders[random.below(3)];
    const Parallel parallel = parallel_of(fmt::format(
        R"({{"pipeline": 2, "stages": {{"schedule": "{}", "micro_batches": {}, "layers": [2, 2], "overlap": "{}"}}}})",
        order, random.between(1, 4), random.one_in(2) ? "all_stages" : "first_stage"));
    const ParallelRun found =
        run_of(profile, network, 8, parallel, R"({"pipeline": "wfbp", "fusion": "optimal"})");
    CHECK(found.is_exact);
    double best = 1e12;
    for (const int first : {1, 2})
      for (const int second : {1, 2}) {  // one or two groups in each part
        const auto alone = [&](std::int64_t stage, int groups) {
          return run_of(profile, network, 8, parallel,
                        groups == 1 ? R"({"pipeline": "wfbp", "fusion": "all"})"
                                    : R"({"pipeline": "wfbp", "fusion": "none"})")
              .stages[static_cast<std::size_t>(stage)]
              .end_us;
        };
        best = std::min(best, std::max(alone(0, first), alone(1, second)));
      }
    CHECK(found.metrics.iteration_us == doctest::Approx(best).epsilon(1e-9));
  }
  CHECK_FALSE(run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2), R"("wfbp")").is_exact);
  CHECK_FALSE(run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2),
                     R"({"pipeline": "zero", "fusion": "optimal"})")
                  .is_exact);
}

TEST_CASE("parallel: `optimal` of one stage takes no longer than that of a job without stages") {
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 6);
    const core::Network network = support::random_link(random);
    const std::int64_t workers = random.between(2, 6);
    const std::int64_t micro_batches = random.between(1, 4);
    for (const char* options :
         {"", R"(, "gather_early": true)", R"(, "reshard_after_forward": false)",
          R"(, "prefetch": 2, "backward_prefetch": 0)", R"(, "reshard_after_backward": false)"}) {
      CAPTURE(options);
      const std::string schedule =
          fmt::format(R"({{"pipeline": "sharded", "fusion": "optimal"{}}})", options);
      const Conditions conditions = {.iterations = 1, .accumulation_steps = micro_batches};
      const support::Scene scene(profile, network, workers, conditions);
      const double without_us = scene.run(support::schedule_of(schedule)).metrics.iteration_us;
      const ParallelRun staged = run_of(profile, network, workers, stages_of(1, micro_batches), schedule);
      CHECK(staged.metrics.iteration_us <= without_us);
    }
  }
}

// ---- process groups

TEST_CASE("parallel: groups lie on the network in the order tensor, expert, data, stages") {
  core::Network network = {.name = "n"};
  network.levels = {
      {.name = "nvlink", .size = 8, .link = {.alpha_us = 1, .beta_us_per_byte = 0.01}},
      {.name = "ports", .size = {}, .link = {.alpha_us = 2, .beta_us_per_byte = 0.1}, .shared = true}};
  const Parallel parallel =
      parallel_of(R"({"tensor": 4, "expert": 4, "expert_tensors": ["experts"], "data": 16, "pipeline": 2,
                      "stages": {"schedule": "1f1b", "micro_batches": 2}})");
  const ProcessGroups groups = process_groups(parallel, network, 128);
  // two of a node's eight workers are in each dense group; four dense groups share the port
  CHECK(groups.dense.workers == 16);
  REQUIRE(groups.dense.network.levels.size() == 2);
  CHECK(groups.dense.network.levels[0].size == 2);
  CHECK(groups.dense.network.levels[1].link.beta_us_per_byte == doctest::Approx(0.4));
  // every sixteenth worker sums the same experts; a node's eight workers share the port
  CHECK(groups.expert.workers == 4);
  REQUIRE(groups.expert.network.levels.size() == 1);
  CHECK(groups.expert.network.levels[0].link.beta_us_per_byte == doctest::Approx(0.8));
  const auto fails = [&](const Parallel& other, std::int64_t workers, const char* message) {
    CHECK_THROWS_WITH_AS(process_groups(other, network, workers), message, core::Unsupported);
  };
  fails(parallel, 64, "expected 128 workers, the product of tensor, pipeline and data, got 64");
  fails(parallel, 12, "expected a multiple of 8 workers, tensor 4 times pipeline 2, got 12");
  fails(parallel_of(R"({"expert": 4, "expert_tensors": ["x"]})"), 6,
        "expected data groups of a multiple of the 4 workers of an expert group, got 6");
  fails(
      parallel_of(R"({"tensor": 3})"), 24,
      "expected groups of neighbouring workers that fill or divide the 8 of level 'nvlink', got groups of 3");
}

// Two experts in each of two data-parallel pairs: the dense tensor (80 bytes) is summed over four workers of
// a link, 6 startups of 1 us and 1.5 x 8 us; the expert's (40 bytes) over two, 2 startups and 1 x 4 us.
TEST_CASE("parallel: experts are summed over the workers that hold the same, on the same channel in turn") {
  core::Profile moe = profile_of({{1, 2, {20, 10}}, {1, 2, {20, 10}}});
  for (core::ProfileLayer& layer : moe.layers) layer.tensors[1].name += ".experts";
  const Parallel parallel = parallel_of(R"({"expert": 2, "expert_tensors": [".experts"]})");
  const ParallelRun run =
      run_of(moe, support::link_of(1, 0.1), 4, parallel, R"({"pipeline": "wfbp", "fusion": "none"})");
  CHECK(compute(run, 0) == "F1 0-2, B1.2 2-4, B1.1 4-6");
  CHECK(channel(run, 0) == "R1 4-22, R1x 22-28, R2 28-46, R2x 46-52");
  CHECK(run.metrics.iteration_us == 52);
  CHECK(run.metrics.bytes_sent_per_worker == 2 * (1.5 * 80 + 40));
}

TEST_CASE("parallel: layers of the kind experts need not be named, and a job with experts needs some") {
  core::Profile moe = profile_of({{1, 2, {20, 10}}, {1, 2, {20, 10}}});
  const Parallel parallel = parallel_of(R"({"expert": 2})");
  const std::string schedule = R"({"pipeline": "wfbp", "fusion": "none"})";
  CHECK_THROWS_WITH_AS(
      run_of(moe, support::link_of(1, 0.1), 4, parallel, schedule),
      "expected tensors of experts, in layers of kind experts or named by expert_tensors, got none",
      core::Unsupported);
  CHECK_THROWS_WITH_AS(run_of(moe, support::link_of(1, 0.1), 4,
                              parallel_of(R"({"expert": 2, "expert_tensors": ["l1", "mlp"]})"), schedule),
                       "expected parts of names of tensors, got 'mlp', which no tensor has",
                       core::Unsupported);
  moe.layers[1].kind = "experts";  // layer 2, whose 120 bytes are summed over two workers
  const ParallelRun run =
      run_of(moe, support::link_of(1, 0.1), 4, parallel, R"({"pipeline": "wfbp", "fusion": "all"})");
  CHECK(channel(run, 0) == "R1x 4-18, R1 18-42");
  CHECK(channel(run_of(moe, support::link_of(1, 0.1), 4, {}, schedule), 0) ==
        "R1 4-16, R2 16-34, R3 34-46, R4 46-64");  // without expert groups all are dense
}

// ---- parts

TEST_CASE("parallel: the longest part is as short as that of any cut") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<support::LayerSpec> layers(static_cast<std::size_t>(random.between(1, 9)));
    for (support::LayerSpec& layer : layers)
      layer = {static_cast<double>(random.below(50)), static_cast<double>(random.below(50)), {4}};
    const auto count = static_cast<std::uint32_t>(layers.size());
    Parallel parallel;
    parallel.pipeline = random.between(1, static_cast<std::int64_t>(count));
    const auto longest = [](const std::vector<double>& parts) { return *std::ranges::max_element(parts); };
    const auto time_of = [&](std::size_t begin, std::size_t end) {
      double us = 0;
      for (std::size_t i = begin; i < end; ++i) us += layers[i].forward_us + layers[i].backward_us;
      return us;
    };
    double best = 1e12;
    support::for_each_grouping(count, 1, support::any_grouping, [&](const Groups& groups) {
      if (static_cast<std::int64_t>(groups.size()) != parallel.pipeline) return;
      std::vector<double> parts;
      for (const Group& group : groups) parts.push_back(time_of(group.begin, group.end));
      best = std::min(best, longest(parts));
    });
    std::vector<double> parts;
    std::size_t layer = 0;
    for (const core::Profile& part : parts_of(profile_of(layers), parallel)) {
      parts.push_back(time_of(layer, layer + part.layers.size()));
      layer += part.layers.size();
    }
    CHECK(layer == layers.size());
    CHECK(static_cast<std::int64_t>(parts.size()) == parallel.pipeline);
    CHECK(longest(parts) == best);
  }
}

// Blocks of 4, 4 and 8 us between layers of 1 and 3 us: two parts take 1 + 4 + 4 and 8 + 3, while a cut
// within the last block would give 10 and 10.
TEST_CASE("parallel: by default no part divides a block, and without enough of them layers must be given") {
  core::Profile profile =
      profile_of({{0, 1, {4}}, {1, 1, {4}}, {1, 1, {4}}, {2, 2, {4}}, {0, 1, {4}}, {3, 4, {4}}, {1, 2, {4}}});
  const std::vector<std::string> names = {"wte", "h.0.a", "h.0.b", "h.1.a", "h.2.a", "h.2.b", "head"};
  for (std::size_t i = 0; i < names.size(); ++i) profile.layers[i].name = names[i];
  const auto layers_of = [&](std::int64_t pipeline) {
    std::vector<std::size_t> out;
    for (const core::Profile& part : parts_of(profile, stages_of(pipeline, 2)))
      out.push_back(part.layers.size());
    return out;
  };
  CHECK(layers_of(2) == std::vector<std::size_t>{4, 3});
  CHECK(layers_of(3) == std::vector<std::size_t>{4, 2, 1});
  CHECK(layers_of(5) == std::vector<std::size_t>{1, 2, 1, 2, 1});
  CHECK_THROWS_WITH_AS(
      parts_of(profile, stages_of(6, 2)),
      "expected the key layers, as the 5 blocks and other layers of the model are fewer than "
      "its 6 parts, got none",
      core::Unsupported);
}

TEST_CASE(
    "parallel: each part computes its own layers again, and those of a block that it shares are not paid for "
    "twice") {
  core::Profile profile = profile_of({{1, 3, {4}}, {3, 1, {4}}, {5, 6, {4}}});
  for (std::size_t i = 0; i < 2; ++i) profile.layers[i].name = i == 0 ? "h.0.a" : "h.0.b";
  profile.layers[2].name = "head";
  const auto together = parts_of(profile, stages_of(2, 2, R"(, "layers": [2, 1])"), Recompute{});
  CHECK(together[0].layers[0].backward_us == 3);
  CHECK(together[0].layers[1].backward_us == 1 + 1 + 3);
  CHECK(together[1].layers[0].backward_us == 6);  // no block
  const auto apart = parts_of(profile, stages_of(2, 2, R"(, "layers": [1, 2])"), Recompute{});
  CHECK(apart[0].layers[0].backward_us == 3 + 1);
  CHECK(apart[1].layers[0].backward_us == 1 + 3);
}

TEST_CASE("parallel: given times of a part replace those of its layers in proportion") {
  const auto parts = parts_of(profile_of({{1, 3, {4}}, {3, 1, {4}}, {0, 5, {4, 4}, {1, 4}}}),
                              stages_of(2, 2, R"(, "layers": [2, 1], "forward_us": 8, "backward_us": 10)"));
  CHECK(parts[0].layers[0].forward_us == 2);
  CHECK(parts[0].layers[1].forward_us == 6);
  CHECK(parts[0].layers[0].backward_us == 7.5);
  CHECK(parts[1].layers[0].forward_us == 8);
  CHECK(parts[1].layers[0].backward_us == 10);
  CHECK(parts[1].layers[0].tensors[1].backward_us == 8);
}

TEST_CASE(
    "parallel: given times replace the shortest ones, of which they are more than any factor, and none") {
  constexpr double kShortest = 5e-324;
  const auto parts = parts_of(
      profile_of({{0, 0, {4}, {0}}, {kShortest, 0, {4}}, {0, kShortest, {4}, {kShortest}}, {0, 1, {4}}}),
      stages_of(2, 2, R"(, "layers": [2, 2], "forward_us": 8, "backward_us": 10)"));
  CHECK(parts[0].layers[0].forward_us == 0);
  CHECK(parts[0].layers[1].forward_us == 8);
  CHECK(parts[0].layers[0].backward_us == 5);  // none has a time: equal shares, without parts
  CHECK(!parts[0].layers[0].tensors[0].backward_us);
  CHECK(parts[1].layers[1].backward_us == 10);
  CHECK(*parts[1].layers[0].tensors[0].backward_us == parts[1].layers[0].backward_us);
}

// ---- what is refused

TEST_CASE("parallel: what is refused, in one line") {
  const auto refused = [](const std::string& json, const char* message) {
    CHECK_THROWS_WITH_AS(parallel_of(json), message, core::InputError);
  };
  refused(R"({"pipeline": 2})", "s.json: /stages: expected a value, got nothing");
  refused(R"({"pipeline": 2, "stages": {"schedule": "dualpipe", "micro_batches": 2}})",
          R"(s.json: /stages/schedule: expected one of 1f1b, interleaved, gpipe, zb-h1, got "dualpipe")");
  refused(
      R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "virtual_stages": 2}})",
      "s.json: /stages/virtual_stages: expected no virtual_stages, as only interleaved has several parts in "
      "each stage, got 2");
  refused(
      R"({"pipeline": 2, "stages": {"schedule": "interleaved", "micro_batches": 3, "virtual_stages": 2}})",
      "s.json: /stages/micro_batches: expected a multiple of the 2 stages, as interleaved needs, got 3");
  refused(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 3, "layers": [4]}})",
          "s.json: /stages/layers: expected the numbers of layers of 2 parts, got 1");
  refused(R"({"expert": 3, "data": 4, "expert_tensors": ["x"]})",
          "s.json: /expert: expected a divisor of the 4 workers of a data group, got 3");
  refused(
      R"({"expert_tensors": ["x"]})",
      R"(s.json: /expert_tensors: expected no expert_tensors without the key expert, got an array of 1 item)");

  refused(R"({"tied_tensors": [{"tensor": "a", "layer": "b"}]})",
          "s.json: /tied_tensors: expected no tied_tensors with a single stage, got an array of 1 item");
  refused(
      R"({"pipeline": 2, "tied_tensors": [{"tensor": "a", "layer": "b"}, {"tensor": "a", "layer": "c"}]})",
      R"(s.json: /tied_tensors/1/tensor: expected a tensor that is listed once, got "a")");
  const auto tied = [](const char* tensor, const char* layer, const char* schedule, const char* message) {
    Parallel parallel = stages_of(2, 2, kTwoAndOne);
    parallel.tied_tensors = {{.tensor = tensor, .layer = layer}};
    CHECK_THROWS_WITH_AS(run_of(three_layers(), pair_of(2, 0.1), 4, parallel, schedule), message,
                         core::Unsupported);
  };
  tied("l3.a", "l3", R"("wfbp")", "expected tensors of the first part of the model, got 'l3.a'");
  tied("l1.a", "l2", R"("wfbp")", "expected layers of the last part of the model, got 'l2'");
  tied("l1.a", "l3", R"({"pipeline": "sharded", "reshard_after_forward": false})",
       "expected no tied_tensors where gradients are sharded, got some");
  tied("l1.a", "l3", R"("dear-fb")",
       "expected no tied_tensors where gradients are summed in two halves, got some");
  for (const std::size_t end : {0U, 2U}) {
    core::Profile profile = three_layers();
    profile.layers[end].kind = "experts";
    Parallel parallel = stages_of(2, 2, kTwoAndOne);
    parallel.expert = 2;
    parallel.tied_tensors = {{.tensor = "l1.a", .layer = "l3"}};
    CHECK_THROWS_WITH_AS(run_of(profile, pair_of(2, 0.1), 4, parallel, R"("wfbp")"),
                         "expected no tensors of experts, got 'l1.a'", core::Unsupported);
  }

  const auto fails = [](const std::string& schedule, const Conditions& conditions, const char* message) {
    CHECK_THROWS_WITH_AS(run_of(three_layers(), pair_of(2, 0.1), 4, stages_of(2, 2), schedule, conditions),
                         message, core::Unsupported);
  };
  fails(R"("bytescheduler")", {},
        "expected a pipeline whose channel runs in order, with the key parallel, got one that goes by layer");
  fails(R"({"pipeline": "zero", "stage": 2})", {},
        "expected gradients that are reduced once, beside several micro-batches of parallel, got stage 2, "
        "which reduces them in each");
  fails(R"("horovod")", {}, "expected a fusion without a cycle, with the key parallel, got threshold");
  fails(R"({"pipeline": "wfbp", "compression": "fp16"})", {},
        "expected no compression, with the key parallel, got fp16");
  fails(R"({"pipeline": "dear", "prefetch": 1})", {},
        "expected no prefetch of gathers that follow the update, with the key parallel, got 1");
  CHECK_THROWS_WITH_AS(run_of(profile_of(std::vector<support::LayerSpec>(500, {1, 1, {1}})), pair_of(2, 0.1),
                              1000, stages_of(500, 1001), R"("wfbp")"),
                       "expected at most 1e+06 passes of micro-batches through parts, got 1.001e+06",
                       core::Unsupported);
  fails(R"("wfbp")", {.stragglers = {{.worker = 0, .slowdown = 2}, {.worker = 3, .slowdown = 2}}},
        "expected stragglers of which one replica has the slowest of every stage, with the key parallel, got "
        "those of 2 replicas on 4 workers");
  CHECK_THROWS_WITH_AS(run_of(three_layers(), pair_of(2, 0.1), 8, stages_of(4, 4), R"("wfbp")"),
                       "expected a model of at least 4 layers, one for each part, got 3", core::Unsupported);
}

}  // namespace
}  // namespace planner
