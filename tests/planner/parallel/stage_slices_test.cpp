// Timelines of pipeline stages: names and times of slices by hand, and waits for collectives against what an
// iteration exposes where there is one stage.

#include "planner/parallel/stage_slices.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/parallel/run.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::pair_of;
using support::profile_of;
using support::Random;
using support::schedule_of;

Parallel parallel_of(const std::string& json) { return read_parallel(core::Field::parse(json, "s.json")); }

/// Each track with its slices and their times in us.
std::string text(const std::vector<core::Track>& tracks, const std::vector<core::Slice>& slices) {
  std::string out;
  for (std::size_t track = 0; track < tracks.size(); ++track) {
    out += tracks[track].thread + ":";
    for (const core::Slice& slice : slices)
      if (slice.track == track)
        out += fmt::format(" [{} {}-{}]", slice.name, sim::to_us(slice.start), sim::to_us(slice.end));
    out += '\n';
  }
  return out;
}

std::string text(const std::vector<sim::Span>& spans) {
  std::string out;
  for (const sim::Span& span : spans)
    out += fmt::format("{}{}-{}", out.empty() ? "" : ", ", sim::to_us(span.start), sim::to_us(span.end));
  return out;
}

std::string argument(const core::Slice& slice, const std::string& name) {
  for (const auto& [key, value] : slice.arguments)
    if (key == name) return value;
  return "";
}

/// Two parts: layers 1 and 2 (40 and 80 bytes), and layer 3 (120 bytes); each layer of the first takes 1 us
/// forward and 2 us backward, the third twice that. An all-reduce of two workers takes 6, 10 and 14 us.
core::Profile three_layers() { return profile_of({{1, 2, {10}}, {1, 2, {20}}, {2, 4, {30}}}); }

// reading 0-5, then
// stage 0  F1 F2      B1      B2.2 B2.1              update
//          5  7  9    13  17  19   21   23           37   40
//   channel                         [R1 21-31][R2 31-37]
//   waits                                     [23-37]
// stage 1     F1 B1   F2 B2
//          5  7  9    13 15   19
//   channel                   [R1 19-33]
//   waits                          [23-33]     from the last pass of all stages on
TEST_CASE("stage slices: passes, collectives, reading and the update of each stage") {
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "layers": [2, 1]}})");
  Conditions conditions;
  conditions.read_us = 5;
  conditions.read_is_overlapped = false;
  conditions.optimizer_us = 3;
  const ParallelRun run =
      run_parallel(three_layers(), pair_of(2, 0.1), 4, {}, conditions, schedule_of(R"("wfbp")"), parallel);
  REQUIRE(run.metrics.iteration_us == 40);
  const RanStages ran = ran_stages(run, parallel);
  std::vector<core::Track> tracks;
  std::vector<core::Slice> slices;
  add_stage_slices(ran, stage_facts(ran), 0, "first", tracks, slices);
  CHECK(text(tracks, slices) ==
        "compute: [forward of micro-batch 1 5-7] [forward of micro-batch 2 7-9] [backward of micro-batch 1 "
        "13-17] [backward l2, micro-batch 2 19-21] [backward l1, micro-batch 2 21-23] [update 37-40]\n"
        "communication: [all-reduce group 1 21-31] [all-reduce group 2 31-37]\n"
        "input: [read input 0-5]\n");
  for (const core::Slice& slice : slices) {
    if (slice.name != "all-reduce group 1") continue;
    CHECK(argument(slice, "bytes") == "80");
    CHECK(argument(slice, "workers") == "2");
    CHECK(argument(slice, "first") == "\"l2.a\"");
    CHECK(argument(slice, "critical") == "true");
  }
  CHECK(text(waits_for_collectives(ran, stage_facts(ran), 0)) == "23-37");
  CHECK(text(waits_for_collectives(ran, stage_facts(ran), 1)) == "23-33");
  add_stage_slices(ran, stage_facts(ran), 1, "second", tracks, slices);
  REQUIRE(tracks.size() == 6);
  CHECK(tracks[3].process == "second");
  for (const core::Slice& slice : slices) CHECK((slice.track >= 3) == (&slice - slices.data() >= 9));
}

// f = 1, b = 2, messages of 1 us
TEST_CASE("stage slices: messages say where they go") {
  const Parallel parallel =
      parallel_of(R"({"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2, "p2p_us": 1}})");
  const ParallelRun run = run_parallel(profile_of({{1, 2, {10}}, {1, 2, {20}}}), pair_of(2, 0.1), 2, {}, {},
                                       schedule_of(R"("wfbp")"), parallel);
  std::vector<core::Track> tracks;
  std::vector<core::Slice> slices;
  const Conditions conditions;
  const RanStages ran = ran_stages(run, parallel);
  add_stage_slices(ran, stage_facts(ran), 0, "first", tracks, slices);
  add_stage_slices(ran, stage_facts(ran), 1, "second", tracks, slices);
  CHECK(text(tracks, slices) ==
        "compute: [forward of micro-batch 1 0-1] [forward of micro-batch 2 1-2] [backward of micro-batch 1 "
        "6-8] [backward of micro-batch 2 9-11]\n"
        "activations to other stages: [activations of micro-batch 1 to stage 1 1-2] [activations of "
        "micro-batch 2 to stage 1 2-3]\n"
        "compute: [forward of micro-batch 1 2-3] [backward of micro-batch 1 3-5] [forward of micro-batch 2 "
        "5-6] [backward of micro-batch 2 6-8]\n"
        "gradients to other stages: [gradients of micro-batch 1 to stage 0 5-6] [gradients of micro-batch 2 "
        "to stage 0 8-9]\n");
  CHECK(text(waits_for_collectives(ran, stage_facts(ran), 0)).empty());
  CHECK(text(waits_for_collectives(ran, stage_facts(ran), 1)).empty());
}

TEST_CASE("stage slices: a single stage waits for collectives as long as they are exposed") {
  Random random(20261128);
  std::size_t waiting = 0;
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    const core::Profile profile = support::random_profile(random, 6);
    const Parallel parallel = parallel_of(fmt::format(
        R"({{"pipeline": 1, "stages": {{"schedule": "1f1b", "micro_batches": {}}}}})", random.between(1, 3)));
    const Conditions conditions;
    for (const char* schedule : {R"("wfbp")", R"("fsdp")", R"({"name": "fsdp", "prefetch": 0})", R"("zero")",
                                 R"({"name": "fsdp", "scatters_in_flight": 1})"}) {
      const ParallelRun run =
          run_parallel(profile, pair_of(2, 0.05), 2, {}, conditions, schedule_of(schedule), parallel);
      sim::Time waits{};
      const RanStages ran = ran_stages(run, parallel);
      for (const sim::Span& span : waits_for_collectives(ran, stage_facts(ran), 0))
        waits += span.end - span.start;
      CHECK(sim::to_us(waits) == doctest::Approx(run.metrics.exposed_communication_us));
      waiting += waits > sim::Time::zero() ? 1U : 0U;
    }
  }
  CHECK(waiting > 200);
}

}  // namespace
}  // namespace planner
