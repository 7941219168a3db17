// Pipelines: complete timelines of two layers over two iterations, computed by hand. Properties that hold for
// all pipelines are tested in pipelines_shared_test.cpp.

#include "planner/pipeline/pipeline.hpp"

#include <string>

#include <doctest/doctest.h>

#include "tests/support/groups.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using doctest::Approx;
using support::pair_of;
using support::profile_of;
using support::Scene;
using support::schedule_of;

// Forward 2 and 3 us, backward 5 and 4 us, 40 and 80 bytes. An all-reduce takes 2 us + 0.1 us per byte: 10 us
// for layer 2 (group 1 if layers are separate), 6 us for layer 1 (group 2), 14 us for both; reduce-scatter
// and all-gather take 5, 3 and 7 us.
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

struct Expected {
  std::string compute;
  std::string channel;
  double iteration_us;
  std::string ticks = {};
};

void check(const std::string& schedule, const Conditions& conditions, const Expected& expected,
           std::int64_t workers = 2, const core::Profile& profile = two_layers()) {
  CAPTURE(schedule);
  const Scene scene(profile, pair_of(2, 0.1), workers, conditions);
  const Run run = scene.run(schedule_of(schedule));
  CHECK(support::stream(scene, run, Lowered::kCompute) == expected.compute);
  CHECK(support::stream(scene, run, Lowered::kChannel) == expected.channel);
  CHECK(support::stream(scene, run, Lowered::kTicks) == expected.ticks);
  CHECK(run.metrics.iteration_us == expected.iteration_us);
}

const Conditions two_iterations = {.iterations = 2};

// ---- when communication runs

TEST_CASE("wfbp: groups leave as soon as they are ready, and the next forward waits for all") {
  // compute: F1 F2  B2   B1               F1' F2'  B2'
  // channel:           [ A1       ][ A2 ]              [ A1' ...
  check(R"("wfbp")", {},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, "
         "F1 25-27, F2 27-30, B2 30-34, B1 34-39, "
         "F1 50-52, F2 52-55, B2 55-59, B1 59-64",
         "A1 9-19, A2 19-25, A1 34-44, A2 44-50, A1 59-69, A2 69-75", 25});
}

TEST_CASE("after_backward: everything waits for the end of backward, and the next forward for everything") {
  // compute: F1 F2  B2  B1                       F1' F2' ...
  // channel:               [ A1       ][ A2 ]
  check(R"("s-sgd")", two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 30-32, F2 32-35, B2 35-39, B1 39-44",
         "A1 14-24, A2 24-30, A1 44-54, A2 54-60", 30});
  check(
      R"("sync-easgd")", two_iterations,
      {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 28-30, F2 30-33, B2 33-37, B1 37-42", "A1 14-28, A1 42-56", 28});
}

TEST_CASE("dear: the second iteration starts under the first one's all-gathers") {
  // compute: F1 F2  B2     B1              F1'      F2'    B2' ...
  // channel:           [ S1   ][ S2 ][ G2 ][ G1   ]
  check(R"("dear-no-fusion")", two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, "
         "F1 20-22, F2 25-28, B2 28-32, B1 32-37, "
         "F1 43-45, F2 48-51",
         "S1 9-14, S2 14-17, G2 17-20, G1 20-25, S1 32-37, S2 37-40, G2 40-43, G1 43-48", 23});
  // a single all-gather delays the first layer, and so all layers
  check(R"({"pipeline": "dear", "fusion": "all"})", two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 28-30, F2 30-33, B2 33-37, B1 37-42, F1 56-58, F2 58-61",
         "S1 14-21, G1 21-28, S1 42-49, G1 49-56", 28});
}

TEST_CASE("dear: layers without tensors start when backward and the reduce-scatters have ended") {
  // compute: F1  F2  B2 B1       F1'    F2'
  // channel:            [ S1   ][ G1  ]
  check(R"("dear-no-fusion")", {.iterations = 1},
        {"F1 0-4, F2 4-7, B2 7-11, B1 11-12, F1 16-20, F2 21-24", "S1 11-16, G1 16-21", 17}, 2,
        profile_of({{4, 1}, {3, 4, {20}}}));
}

TEST_CASE("dear: a layer cut by two groups waits for both, a group over two layers holds up the first") {
  // group 1: l2.a and l1.b (80 bytes), group 2: l1.a (40 bytes)
  const core::Profile profile = profile_of({{2, 5, {10, 10}}, {3, 4, {10}}});
  const Expected expected = {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 30-32, F2 32-35",
                             "S1 14-19, S2 19-22, G2 22-25, G1 25-30", 30};
  check(R"({"pipeline": "dear", "fusion": {"kind": "buckets", "cap_bytes": 80}})", {.iterations = 1},
        expected, 2, profile);
  // group 1: l2.b, group 2: l2.a and l1.a: only the second layer waits for group 1
  check(R"({"pipeline": "dear", "fusion": {"kind": "buckets", "cap_bytes": 80, "first_cap_bytes": 40}})",
        {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 24-26, F2 27-30", "S1 9-12, S2 14-19, G2 19-24, G1 24-27", 25},
        2, profile_of({{2, 5, {10}}, {3, 4, {10, 10}}}));
}

TEST_CASE("zero: gathers under the next forward pass as dear does, or before it") {
  check(R"("zero")", {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 20-22, F2 25-28", "S1 9-14, S2 14-17, G2 17-20, G1 20-25", 23});
  check(R"({"pipeline": "zero", "overlap_gather": true})", {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 20-22, F2 25-28", "S1 9-14, S2 14-17, G2 17-20, G1 20-25", 23});
  // compute: F1 F2  B2     B1                    F1' F2' ...
  // channel:           [ S1   ][ S2 ][ G2 ][ G1 ]
  check(R"({"pipeline": "zero", "overlap_gather": false})", two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 25-27, F2 27-30, B2 30-34, B1 34-39",
         "S1 9-14, S2 14-17, G2 17-20, G1 20-25, S1 34-39, S2 39-42, G2 42-45, G1 45-50", 25});
}

// compute: F1 F2  B2     B1                                F1' F2' ...
// channel:           [     A1     ][   A2   ][ G2 ][  G1  ]
TEST_CASE("zero: with all_reduce_gradients whole sums travel, and the parameters all the same") {
  check(R"({"pipeline": "zero", "overlap_gather": false, "all_reduce_gradients": true})", two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 33-35, F2 35-38, B2 38-42, B1 42-47",
         "A1 9-19, A2 19-25, G2 25-28, G1 28-33, A1 42-52, A2 52-58, G2 58-61, G1 61-66", 33});
}

TEST_CASE("pipelines: the tensors of a layer are ready together, or each when its part of backward ends") {
  const core::Profile parts = profile_of({{2, 5, {10, 20}, {2, 3}}});
  check(R"("wfbp")", {.iterations = 1}, {"F1 0-2, B1.b 2-5, B1.a 5-7", "A1 5-15, A2 15-21", 21}, 2, parts);
  check(R"("wfbp")", {.iterations = 1}, {"F1 0-2, B1 2-7", "A1 7-17, A2 17-23", 23}, 2,
        profile_of({{2, 5, {10, 20}}}));
}

TEST_CASE("pipelines: one worker communicates nothing, whatever the pipeline") {
  const std::string twice = "F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 14-16, F2 16-19, B2 19-23, B1 23-28";
  check(R"("wfbp")", two_iterations, {twice, "", 14}, 1);
  check(R"("horovod")", two_iterations, {twice, "", 14}, 1);
  check(R"("sync-easgd")", two_iterations, {twice, "", 14}, 1);
  check(R"({"pipeline": "zero", "overlap_gather": false})", two_iterations, {twice, "", 14}, 1);
  check(R"("dear-nl")", two_iterations, {twice + ", F1 28-30, F2 30-33", "", 14}, 1);
  check(R"("wfbp")", {.iterations = 1, .optimizer_us = 1, .lars_us = 2, .parallel_tensor_operator = true},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, L 14-16, U 16-17", "", 17}, 1);
}

// ---- reading, updates and workers

TEST_CASE("pipelines: only the last of several micro-batches communicates") {
  check(R"("wfbp")", {.iterations = 2, .accumulation_steps = 2},
        {"F1 0-2, F2 2-5, b1 5-14, f2 14-19, B2 19-23, B1 23-28, "
         "F1 39-41, F2 41-44, b1 44-53, f2 53-58, B2 58-62, B1 62-67",
         "A1 23-33, A2 33-39, A1 62-72, A2 72-78", 39});
  check(R"("dear-no-fusion")", {.iterations = 1, .accumulation_steps = 2},
        {"F1 0-2, F2 2-5, b1 5-14, f2 14-19, B2 19-23, B1 23-28, F1 34-36, F2 39-42",
         "S1 23-28, S2 28-31, G2 31-34, G1 34-39", 37});
  check(R"("wfbp")", {.iterations = 1, .accumulation_steps = 3},
        {"F1 0-2, F2 2-5, b1 5-14, f2 14-19, b2 19-28, f3 28-33, B2 33-37, B1 37-42", "A1 37-47, A2 47-53",
         53});
}

TEST_CASE(
    "pipelines: unoverlapped input is read before forward, in dear once the reduce-scatters have ended") {
  check(R"("wfbp")", {.iterations = 2, .read_us = 1, .read_is_overlapped = false},
        {"F1 1-3, F2 3-6, B2 6-10, B1 10-15, F1 27-29, F2 29-32, B2 32-36, B1 36-41",
         "A1 10-20, A2 20-26, A1 36-46, A2 46-52", 26});
  check(R"("dear-no-fusion")", {.iterations = 1, .read_us = 1, .read_is_overlapped = false},
        {"F1 1-3, F2 3-6, B2 6-10, B1 10-15, F1 21-23, F2 26-29", "S1 10-15, S2 15-18, G2 18-21, G1 21-26",
         23});
}

TEST_CASE("pipelines: overlapped input makes an iteration as long as reading takes, exposed or not") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.read_us = 100});
  const Metrics got = scene.run(schedule_of(R"("wfbp")")).metrics;
  CHECK(got.iteration_us == 100);
  CHECK(got.exposed_communication_us == 11);  // of the iteration before the input's maximum: 25 - 5 - 9
  CHECK(got.read_us == 0);
  CHECK(got.throughput_samples_per_s == Approx(2 * 8 / 100e-6));
  CHECK(got.speedup == Approx(2));  // one worker reads for as long
  CHECK(got.scaling_efficiency == Approx(1));
}

TEST_CASE("pipelines: the update comes when the channel has drained, before the next forward") {
  const Conditions conditions = {.iterations = 2, .optimizer_us = 1, .lars_us = 2};
  check(R"("wfbp")", conditions,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, U 25-28, F1 28-30, F2 30-33, B2 33-37, B1 37-42, U 53-56",
         "A1 9-19, A2 19-25, A1 37-47, A2 47-53", 28});
  // in zero each worker updates its shard, then the parameters are gathered
  check(R"({"pipeline": "zero", "overlap_gather": false})",
        {.iterations = 1, .optimizer_us = 1, .lars_us = 2},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, U 17-20", "S1 9-14, S2 14-17, G2 20-23, G1 23-28", 28});
}

TEST_CASE(
    "dear: the update comes in parts by bytes, each after its all-gather and before its layers' forward") {
  // 6 us: 2 for layer 1 (40 bytes), 4 for layer 2 (80)
  const Expected expected = {
      "F1 0-2, F2 2-5, B2 5-9, B1 9-14, U2 20-22, F1 22-24, U1 25-29, F2 29-32, B2 32-36, B1 36-41, "
      "U2 47-49, F1 49-51, U1 52-56, F2 56-59",
      "S1 9-14, S2 14-17, G2 17-20, G1 20-25, S1 36-41, S2 41-44, G2 44-47, G1 47-52", 27};
  check(R"("dear-no-fusion")", {.iterations = 2, .optimizer_us = 4, .lars_us = 2}, expected);
  check(R"("zero")", {.iterations = 2, .optimizer_us = 4, .lars_us = 2}, expected);
}

TEST_CASE("pipelines: the parallel tensor operator shares LARS, gathers 4 bytes a layer, then updates") {
  // LARS 4 us / 2 workers; the all-gather of 8 bytes takes 1 + 0.4 us
  const Conditions conditions = {
      .iterations = 1, .optimizer_us = 1, .lars_us = 4, .parallel_tensor_operator = true};
  check(R"("wfbp")", conditions,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, L 25-27, U 28.4-29.4", "A1 9-19, A2 19-25, H 27-28.4", 29.4});
  check(R"({"pipeline": "zero", "overlap_gather": false})", conditions,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, L 17-19, U 20.4-21.4",
         "S1 9-14, S2 14-17, H 19-20.4, G2 21.4-24.4, G1 24.4-29.4", 29.4});
  check(R"("dear-no-fusion")", {.iterations = 1, .lars_us = 4, .parallel_tensor_operator = true},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, L 17-19, F1 23.4-25.4, F2 28.4-31.4",
         "S1 9-14, S2 14-17, H 19-20.4, G2 20.4-23.4, G1 23.4-28.4", 26.4});
}

TEST_CASE("pipelines: groups with a tick are issued at it, counted from the start of backward") {
  // ready 4 and 9 us after backward began
  const auto horovod = [](const std::string& pipeline, const std::string& cycle) {
    return R"({"pipeline": ")" + pipeline + R"(", "fusion": {"kind": "threshold", "cycle_us": )" + cycle +
           "}}";
  };
  check(horovod("wfbp", "3"), two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 27-29, F2 29-32, B2 32-36, B1 36-41",
         "A1 11-21, A2 21-27, A1 38-48, A2 48-54", 27, "T1 5-11, T2 11-14, T1 32-38, T2 38-41"});
  check(horovod("wfbp", "10"), two_iterations,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 29-31, F2 31-34, B2 34-38, B1 38-43", "A1 15-29, A1 44-58", 29,
         "T1 5-15, T1 34-44"});
  check(horovod("after_backward", "3"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14", "A1 14-24, A2 24-30", 30, "T1 5-11, T2 11-14"});
  check(horovod("dear", "10"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 29-31, F2 31-34", "S1 15-22, G1 22-29", 29, "T1 5-15"});
  check(horovod("wfbp", "3"), {.iterations = 1, .accumulation_steps = 2},
        {"F1 0-2, F2 2-5, b1 5-14, f2 14-19, B2 19-23, B1 23-28", "A1 25-35, A2 35-41", 41,
         "T1 19-25, T2 25-28"});
}

TEST_CASE("pipelines: the slowest worker decides, stragglers that do not exist do not") {
  const Expected slow = {"F1 0-4, F2 4-10, B2 10-18, B1 18-28, U 34-36", "A1 18-28, A2 28-34", 36};
  const auto with = [](std::vector<Straggler> stragglers) {
    return Conditions{.iterations = 1, .optimizer_us = 1, .stragglers = std::move(stragglers)};
  };
  check(R"("wfbp")", with({{.worker = 1, .slowdown = 2}}), slow);
  check(R"("wfbp")",
        with({{.worker = 1, .slowdown = 2}, {.worker = 0, .slowdown = 0.5}, {.worker = 2, .slowdown = 9}}),
        slow);
  const Expected usual = {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, U 25-26", "A1 9-19, A2 19-25", 26};
  check(R"("wfbp")", with({{.worker = 2, .slowdown = 9}}), usual);
  check(R"("wfbp")", with({{.worker = 0, .slowdown = 0.5}}), usual);  // the other worker is not faster
  check(R"("wfbp")", with({{.worker = 0, .slowdown = 0.5}}),
        {"F1 0-1, F2 1-2.5, B2 2.5-4.5, B1 4.5-7, U 7-7.5", "", 7.5}, 1);
}

TEST_CASE("pipelines: the numbers of a prediction, by hand") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2,
                    {.accumulation_steps = 2,
                     .read_us = 1,
                     .read_is_overlapped = false,
                     .optimizer_us = 3,
                     .stragglers = {{.worker = 0, .slowdown = 2}}});
  // R 0-1, F 1-11, b1 11-29, f2 29-39, B2 39-47, B1 47-57, A1 47-57, A2 57-63, U 63-69
  const Metrics got = scene.run(schedule_of(R"("wfbp")")).metrics;
  CHECK(got.workers == 2);
  CHECK(got.groups == 2);
  CHECK(got.iteration_us == 69);
  CHECK(got.forward_us == 20);
  CHECK(got.backward_us == 36);
  CHECK(got.update_us == 6);
  CHECK(got.read_us == 1);
  CHECK(got.communication_us == 16);
  CHECK(got.exposed_communication_us == 6);
  CHECK(got.bytes_sent_per_worker == 120);
  CHECK(got.throughput_samples_per_s == Approx(2 * 2 * 8 / 69e-6));
  // a single worker, without the straggler: 1 + 2 x 14 + 3
  CHECK(got.speedup == Approx(2 * 32.0 / 69));
  CHECK(got.scaling_efficiency == Approx(32.0 / 69));
}

}  // namespace
}  // namespace planner
