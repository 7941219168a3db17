// Stragglers of jobs with pipeline stages: which replica is the slowest, a timeline by hand, and a
// simulation of all replicas beside one another.

#include "planner/parallel/slowest_replica.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/parallel/run.hpp"
#include "tests/support/one_f_one_b.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Random;
using support::schedule_of;

Parallel stages_of(std::int64_t pipeline, std::int64_t tensor, std::int64_t micro_batches) {
  return {.tensor = tensor, .pipeline = pipeline, .stages = {.micro_batches = micro_batches}};
}

using Slowdowns = std::vector<double>;

// 12 workers: stage 0 has the tensor groups {0 1} {2 3} {4 5}, stage 1 {6 7} {8 9} {10 11}
TEST_CASE("slowest replica: workers are neighbours in tensor groups, then come data groups, then stages") {
  const auto slowest = [](const std::vector<Straggler>& stragglers) {
    return slowest_replica(stages_of(2, 2, 1), 12, stragglers);
  };
  CHECK(slowest({}) == Slowdowns{1, 1});
  CHECK(slowest({{3, 1.5}}) == Slowdowns{1.5, 1});
  CHECK(slowest({{8, 1.5}}) == Slowdowns{1, 1.5});
  CHECK(slowest({{2, 1.5}, {9, 3}}) == Slowdowns{1.5, 3});             // one replica
  CHECK(slowest({{2, 1.5}, {9, 3}, {0, 1.25}}) == Slowdowns{1.5, 3});  // a faster one beside it
  CHECK(slowest({{0, 1.5}, {4, 2}}) == Slowdowns{2, 1});               // one stage
  CHECK(slowest({{12, 2}}) == Slowdowns{1, 1});                        // no worker of the job
  CHECK_THROWS_WITH_AS(
      slowest({{0, 1.5}, {8, 2}}),
      "expected stragglers of which one replica has the slowest of every stage, with the key parallel, got "
      "those of 2 replicas on 12 workers",
      core::Unsupported);
  // faster ones help where no other worker of the stage is slower
  CHECK(slowest({{0, 0.5}, {1, 0.5}}) == Slowdowns{1, 1});
  CHECK(slowest({{6, 0.5}, {7, 0.5}, {8, 0.5}, {9, 0.5}, {10, 0.5}, {11, 0.25}}) == Slowdowns{1, 0.5});
  CHECK(slowest({{6, 0.5}, {7, 2}}) == Slowdowns{1, 2});
}

// Two parts of one layer: 2 us forward and 4 us backward, 40 and 80 bytes: an all-reduce of two workers takes
// 6 and 10 us. Worker 3, of stage 1, takes twice as long; so does its update.
//
// stage 0  F1 F2        B1         B2
//          0  2  4      14  18     26  30                 update
//   channel                           [R1 30-36]          38   44
// stage 1     F1  B1        F2  B2
//          0  2   6     14  18      26
//   channel                         [R1 26-36]
TEST_CASE("parallel: a straggler slows its stage of its replica, which all others wait for") {
  Parallel parallel = stages_of(2, 1, 2);
  parallel.stages.layers = {1, 1};
  const core::Profile profile = profile_of({{2, 4, {10}}, {2, 4, {20}}});
  const auto run = [&](const std::vector<Straggler>& stragglers) {
    Conditions conditions;
    conditions.optimizer_us = 3;
    conditions.stragglers = stragglers;
    return run_parallel(profile, pair_of(2, 0.1), 4, {}, conditions, schedule_of(R"("wfbp")"), parallel);
  };
  const ParallelRun slow = run({{3, 2}});
  CHECK(slow.stages[0].passes_end_us == 30);
  CHECK(slow.stages[1].passes_end_us == 26);
  CHECK(slow.stages[1].end_us == 36);
  CHECK(slow.metrics.iteration_us == 36 + 6);
  CHECK(slow.metrics.update_us == 6);
  CHECK(slow.stages[1].forward_us == 8);
  CHECK(slow.stages[0].bubble_us == 30 - 12);
  const ParallelRun usual = run({});
  CHECK(run({{4, 2}}).metrics.iteration_us == usual.metrics.iteration_us);
  // the worker alone that speed-ups compare with is no straggler
  CHECK(slow.metrics.speedup * slow.metrics.iteration_us ==
        doctest::Approx(usual.metrics.speedup * usual.metrics.iteration_us).epsilon(1e-12));
}

std::vector<double> times(double us, Slowdowns replica) {
  for (double& each : replica) each *= us;
  return replica;
}

// Each part is one layer, whose all-reduces take the same time in all stages and begin when all replicas are
// ready.
TEST_CASE("parallel: stragglers are as in a simulation of all replicas") {
  std::size_t accepted = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t stages = random.between(1, 4);
    const std::int64_t replicas = random.between(2, 3);
    const Parallel parallel = stages_of(stages, 1, random.between(1, 5));
    const auto forward_us = static_cast<double>(random.between(1, 20));
    const auto backward_us = static_cast<double>(random.between(1, 20));
    Conditions conditions;
    std::vector<Slowdowns> slowdowns(static_cast<std::size_t>(replicas),
                                     Slowdowns(static_cast<std::size_t>(stages), 1.0));
    for (std::int64_t worker = 0; worker < stages * replicas; ++worker) {
      if (!random.one_in(4)) continue;
      const double slowdown = static_cast<double>(random.between(2, 12)) / 4;
      conditions.stragglers.push_back({.worker = worker, .slowdown = slowdown});
      slowdowns[static_cast<std::size_t>(worker % replicas)][static_cast<std::size_t>(worker / replicas)] =
          slowdown;
    }
    const core::Profile profile = profile_of(
        std::vector<support::LayerSpec>(static_cast<std::size_t>(stages), {forward_us, backward_us, {10}}));
    const core::Network network = support::link_of(1, 0.1);
    try {
      const ParallelRun run = run_parallel(profile, network, stages * replicas, {}, conditions,
                                           schedule_of(R"("wfbp")"), parallel);
      ++accepted;
      double passes_end_us = 0;
      for (const Slowdowns& replica : slowdowns)
        passes_end_us = std::max(passes_end_us, std::ranges::max(support::ends_of_passes(
                                                    times(forward_us, replica), times(backward_us, replica),
                                                    parallel.stages.micro_batches, 0)));
      CHECK(run.metrics.iteration_us ==
            doctest::Approx(passes_end_us + run.stages.front().communication_us).epsilon(1e-9));
    } catch (const core::Unsupported&) {
    }
  }
  CHECK(accepted > 200);
}

}  // namespace
}  // namespace planner
