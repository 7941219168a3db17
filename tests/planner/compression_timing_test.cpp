// Compression in time: complete timelines of two layers, computed by hand, and their metrics. Properties that
// hold for all schedules are tested in pipelines_shared_test.cpp.

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using doctest::Approx;
using support::Expected;
using support::pair_of;
using support::profile_of;
using support::Scene;
using support::schedule_of;

// Forward 2 and 3 us, backward 5 and 4 us, 40 and 80 bytes. If layers are separate, group 1 is layer 2 and
// group 2 is layer 1. Compression halves the bytes; 2 workers send at 0.1 us per byte:
//
//                   dense bytes   encode   all-gather   all-reduce   its halves   decode
//   group 1              80         2          5            6            3          2
//   group 2              40         1.5        3            4            2          1
//   both together       120         2.5        7            8            4          3
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

constexpr const char* kCosts =
    R"("ratio": 0.5, "encode": {"startup_us": 1, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025})";

std::string gathered() { return fmt::format(R"({{"name": "gathered", {}}})", kCosts); }
std::string summed() {
  return fmt::format(R"({{"name": "summed", "collective": "all_reduce", {}}})", kCosts);
}

/// A schedule object with these members and a compressor.
std::string with(const std::string& compressor, const std::string& members) {
  return fmt::format(R"({{{}, "compression": {}}})", members, compressor);
}

void check(const std::string& schedule, const Conditions& conditions, const Expected& expected,
           std::int64_t workers = 2, const core::Profile& profile = two_layers()) {
  check_run(schedule, Scene(profile, pair_of(2, 0.1), workers, conditions), expected);
}

// ---- order

TEST_CASE("compression: under wfbp encoding delays backward, and decoding comes after it, as groups arrive") {
  // compute: F1 F2 B2 E1    B1    E2 D1      D2 F1' F2' ...
  // channel:             [ G1  ]    [  G2  ]
  check(
      with(gathered(), R"("pipeline": "wfbp")"), {.iterations = 2},
      {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, D1 17.5-19.5, D2 20.5-21.5, "
       "F1 21.5-23.5, F2 23.5-26.5, B2 26.5-30.5, E1 30.5-32.5, B1 32.5-37.5, E2 37.5-39, D1 39-41, D2 42-43",
       "G1 11-16, G2 17.5-20.5, G1 32.5-37.5, G2 39-42", 21.5});
  // gradients that can be summed in transit are reduced, and decoded once
  check(
      with(summed(), R"("pipeline": "wfbp")"), {.iterations = 2},
      {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, D1 17.5-19.5, D2 21.5-22.5, "
       "F1 22.5-24.5, F2 24.5-27.5, B2 27.5-31.5, E1 31.5-33.5, B1 33.5-38.5, E2 38.5-40, D1 40-42, D2 44-45",
       "A1 11-17, A2 17.5-21.5, A1 33.5-39.5, A2 40-44", 22.5});
}

TEST_CASE(
    "compression: groups that wait for the same layer are encoded one after another, each sent at once") {
  // group 1: l2.a (40 bytes), group 2: l1.b (80), group 3: l1.a (40)
  // compute: F1 F2 B2 E1   B1    E2 E3   D1   D2        D3
  // channel:            [ G1 ]     [   G2   ][   G3   ]
  check(
      with(gathered(), R"("fusion": "none")"), {.iterations = 2},
      {"F1 0-2, F2 2-5, B2 5-9, E1 9-10.5, B1 10.5-15.5, E2 15.5-17.5, E3 17.5-19, D1 19-20, D2 22.5-24.5, "
       "D3 25.5-26.5, "
       "F1 26.5-28.5, F2 28.5-31.5, B2 31.5-35.5, E1 35.5-37, B1 37-42, E2 42-44, E3 44-45.5, D1 45.5-46.5, "
       "D2 49-51, D3 52-53",
       "G1 10.5-13.5, G2 17.5-22.5, G3 22.5-25.5, G1 37-40, G2 44-49, G3 49-52", 26.5},
      2, profile_of({{2, 5, {10, 20}}, {3, 4, {10}}}));
}

TEST_CASE("compression: encoding comes between the parts of a layer's backward pass") {
  // compute: F1 B1.b E1 B1.a E2    D1   D2
  // channel:           [  G1  ][  G2  ]
  check(with(gathered(), R"("fusion": "none")"), {.iterations = 1},
        {"F1 0-2, B1.b 2-5, E1 5-7, B1.a 7-9, E2 9-10.5, D1 12-14, D2 15-16", "G1 7-12, G2 12-15", 16}, 2,
        profile_of({{2, 5, {10, 20}, {2, 3}}}));
}

TEST_CASE(
    "compression: after_backward encodes group by group after the pass, and decodes when all is encoded") {
  // compute: F1 F2 B2 B1 E1 E2      D1    D2
  // channel:               [ G1   ][ G2 ]
  check(with(gathered(), R"("name": "s-sgd")"), {.iterations = 2},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16, E2 16-17.5, D1 21-23, D2 24-25, "
         "F1 25-27, F2 27-30, B2 30-34, B1 34-39, E1 39-41, E2 41-42.5, D1 46-48, D2 49-50",
         "G1 16-21, G2 21-24, G1 41-46, G2 46-49", 25});
  check(with(gathered(), R"("name": "sync-easgd")"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16.5, D1 23.5-26.5", "G1 16.5-23.5", 26.5});
  // on a network so fast that the first group arrives before the second is encoded
  // compute: F1 F2 B2 B1 E1 E2  D1 D2
  // channel:               [G1] [G2]
  check_run(with(gathered(), R"("name": "s-sgd")"),
            Scene(two_layers(), pair_of(0.5, 0), 2, {.iterations = 1}),
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16, E2 16-17.5, D1 17.5-19.5, D2 19.5-20.5",
             "G1 16-16.25, G2 17.5-17.75", 20.5});
}

TEST_CASE("compression: dear decodes a group before its update, and both before its layers' forward pass") {
  // compute: F1 F2 B2 E1   B1   E2             D2 U2 F1' D1 U1 F2' ...
  // channel:             [S1]     [S2] [ G2 ][   G1   ]
  const Expected expected = {
      "F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, "
      "D2 21.5-22.5, U2 22.5-23.5, F1 23.5-25.5, D1 25.5-27.5, U1 27.5-29.5, F2 29.5-32.5, "
      "B2 32.5-36.5, E1 36.5-38.5, B1 38.5-43.5, E2 43.5-45, "
      "D2 49-50, U2 50-51, F1 51-53, D1 53-55, U1 55-57, F2 57-60",
      "S1 11-14, S2 17.5-19.5, G2 19.5-21.5, G1 21.5-24.5, S1 38.5-41.5, S2 45-47, G2 47-49, G1 49-52", 27.5};
  const Conditions conditions = {.iterations = 2, .optimizer_us = 3};
  check(with(summed(), R"("pipeline": "dear")"), conditions, expected);
  check(with(summed(), R"("pipeline": "zero")"), conditions, expected);
  check(
      with(summed(), R"("pipeline": "dear", "fusion": "all")"), {.iterations = 1, .optimizer_us = 3},
      {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16.5, D1 24.5-27.5, U1 27.5-30.5, F1 30.5-32.5, F2 32.5-35.5",
       "S1 16.5-20.5, G1 20.5-24.5", 30.5});
}

TEST_CASE(
    "compression: dear decodes the two groups of one layer one after another, in the order they arrive") {
  // group 1: l1.b (80 bytes), group 2: l1.a (40 bytes)
  // compute: F1 B1 E1 E2               D2    D1 F1'
  // channel:         [ S1 ][S2][ G2 ][  G1  ]
  check(with(summed(), R"("pipeline": "dear")"), {.iterations = 1},
        {"F1 0-2, B1 2-7, E1 7-9, E2 9-10.5, D2 16-17, D1 19-21, F1 21-23",
         "S1 9-12, S2 12-14, G2 14-16, G1 16-19", 21},
        2, profile_of({{2, 5, {10, 20}}}));
}

TEST_CASE("compression: zero that does not overlap updates, gathers, decodes, then goes forward") {
  // compute: F1 F2 B2 E1   B1   E2      U          D2        D1 F1' F2' ...
  // channel:             [S1]     [S2]    [ G2  ][  G1   ]
  check(
      with(summed(), R"("pipeline": "zero", "overlap_gather": false)"), {.iterations = 2, .optimizer_us = 3},
      {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, U 19.5-22.5, D2 24.5-25.5, D1 27.5-29.5, "
       "F1 29.5-31.5, F2 31.5-34.5, B2 34.5-38.5, E1 38.5-40.5, B1 40.5-45.5, E2 45.5-47, U 49-52, D2 54-55, "
       "D1 57-59",
       "S1 11-14, S2 17.5-19.5, G2 22.5-24.5, G1 24.5-27.5, S1 40.5-43.5, S2 47-49, G2 52-54, G1 54-57",
       29.5});
}

TEST_CASE("compression: the update comes when everything is decoded") {
  check(with(gathered(), R"("pipeline": "wfbp")"), {.iterations = 2, .optimizer_us = 1, .lars_us = 2},
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, D1 17.5-19.5, D2 20.5-21.5, U 21.5-24.5, "
         "F1 24.5-26.5, F2 26.5-29.5, B2 29.5-33.5, E1 33.5-35.5, B1 35.5-40.5, E2 40.5-42, D1 42-44, D2 "
         "45-46, "
         "U 46-49",
         "G1 11-16, G2 17.5-20.5, G1 35.5-40.5, G2 42-45", 24.5});
}

TEST_CASE("compression: a group with a tick is issued at it or, if that is later, when it is encoded") {
  const auto horovod = [](const char* cycle_us) {
    return with(gathered(), fmt::format(R"("fusion": {{"kind": "threshold", "cycle_us": {}}})", cycle_us));
  };
  // ready 4 and 9 us after backward began, encoded 6 and 12.5: ticks at 4 and 12
  check(horovod("4"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, D1 17.5-19.5, D2 20.5-21.5",
         "G1 11-16, G2 17.5-20.5", 21.5, "T1 5-9, T2 9-17"});
  // ticks at 7 and 14
  check(horovod("7"), {.iterations = 2},
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-17.5, D1 17.5-19.5, D2 22-23, "
         "F1 23-25, F2 25-28, B2 28-32, E1 32-34, B1 34-39, E2 39-40.5, D1 40.5-42.5, D2 45-46",
         "G1 12-17, G2 19-22, G1 35-40, G2 42-45", 23, "T1 5-12, T2 12-19, T1 28-35, T2 35-42"});
  // one tick at 10 for both
  check(horovod("10"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16.5, D1 23.5-26.5", "G1 16.5-23.5", 26.5, "T1 5-15"});
}

TEST_CASE("compression: only the last of several micro-batches is encoded") {
  check(with(gathered(), R"("pipeline": "wfbp")"), {.iterations = 1, .accumulation_steps = 2},
        {"F1 0-2, F2 2-5, b1 5-14, f2 14-19, B2 19-23, E1 23-25, B1 25-30, E2 30-31.5, D1 31.5-33.5, D2 "
         "34.5-35.5",
         "G1 25-30, G2 31.5-34.5", 35.5});
}

// ---- workers and selection

TEST_CASE("compression: one worker encodes, sends and decodes nothing") {
  const std::string twice = "F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 14-16, F2 16-19, B2 19-23, B1 23-28";
  for (const char* pipeline : {"wfbp", "after_backward"})
    check(with(gathered(), fmt::format(R"("pipeline": "{}")", pipeline)), {.iterations = 2}, {twice, "", 14},
          1);
  for (const char* pipeline : {"dear", "zero"})
    check(with(summed(), fmt::format(R"("pipeline": "{}")", pipeline)), {.iterations = 2},
          {twice + ", F1 28-30, F2 30-33", "", 14}, 1);
  check(with(summed(), R"("pipeline": "zero", "overlap_gather": false)"), {.iterations = 2}, {twice, "", 14},
        1);
}

TEST_CASE("compression: a straggler encodes and decodes as slowly as it computes") {
  check(with(gathered(), R"("pipeline": "wfbp")"),
        {.iterations = 1, .stragglers = {{.worker = 1, .slowdown = 2}}},
        {"F1 0-4, F2 4-10, B2 10-18, E1 18-22, B1 22-32, E2 32-35, D1 35-39, D2 39-41", "G1 22-27, G2 35-38",
         41});
}

TEST_CASE("compression: what costs nothing to encode or to decode is no task") {
  const auto free = [](const char* costs) {
    return fmt::format(R"({{"compression": {{"name": "x", "ratio": 0.5{}}}}})", costs);
  };
  check(free(""), {.iterations = 1}, {"F1 0-2, F2 2-5, B2 5-9, B1 9-14", "G1 9-14, G2 14-17", 17});
  check(free(R"(, "decode": {"us_per_byte": 0.025})"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, D1 14-16, D2 17-18", "G1 9-14, G2 14-17", 18});
  check(free(R"(, "encode": {"floor_us": 3})"), {.iterations = 1},
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-12, B1 12-17, E2 17-20", "G1 12-17, G2 20-23", 23});
}

// Encoding costs half a microsecond more than above: 80 bytes arrive after 2.5 + 5 + 2 us instead of 10, but
// 40 bytes after 2 + 3 + 1, no sooner than the 6 us that they take uncompressed.
constexpr const char* kSelective =
    R"("selective": true, "compression": {"name": "x", "ratio": 0.5,
       "encode": {"startup_us": 1.5, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025}})";

TEST_CASE("compression: selective, a group that is no sooner there for it travels as it is") {
  // compute: F1 F2 B2 E1    B1         D1
  // channel:             [ G1  ][  A2    ]
  const Expected expected = {
      "F1 0-2, F2 2-5, B2 5-9, E1 9-11.5, B1 11.5-16.5, D1 16.5-18.5, "
      "F1 22.5-24.5, F2 24.5-27.5, B2 27.5-31.5, E1 31.5-34, B1 34-39, D1 39-41",
      "G1 11.5-16.5, A2 16.5-22.5, G1 34-39, A2 39-45", 22.5};
  check(fmt::format(R"({{{}}})", kSelective), {.iterations = 2}, expected);
  check(fmt::format(R"({{"name": "hipress", {}}})", kSelective), {.iterations = 2}, expected);
}

TEST_CASE("compression: selective, what pays decides the worker that codes slowest") {
  check(fmt::format(R"({{{}}})", kSelective),
        {.iterations = 1, .stragglers = {{.worker = 0, .slowdown = 1.25}}},
        {"F1 0-2.5, F2 2.5-6.25, B2 6.25-11.25, B1 11.25-17.5", "A1 11.25-21.25, A2 21.25-27.25", 27.25});
  // a fast worker does not decide unless all are fast
  check(
      fmt::format(R"({{{}}})", kSelective), {.iterations = 1, .stragglers = {{.worker = 0, .slowdown = 0.5}}},
      {"F1 0-2, F2 2-5, B2 5-9, E1 9-11.5, B1 11.5-16.5, D1 16.5-18.5", "G1 11.5-16.5, A2 16.5-22.5", 22.5});
}

TEST_CASE("compression: groups of one schedule may travel in different ways") {
  // decoding takes 8 us for any group: 25 us if no group is encoded, 30 if both are, 29 as one encoded group
  //
  //     compute: F1 F2 B2  B1  D1
  //     channel:          [G1][ A2 ]
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1});
  const std::string slow = R"({"name": "x", "ratio": 0.5, "decode": {"floor_us": 8}})";
  const Run run = scene.run(schedule_of(
      fmt::format(R"({{"fusion": {{"kind": "optimal", "choices": {{"compression": [{}]}}}}}})", slow)));
  CHECK(support::stream(scene, run, Lowered::kCompute) == "F1 0-2, F2 2-5, B2 5-9, B1 9-14, D1 14-22");
  CHECK(support::stream(scene, run, Lowered::kChannel) == "G1 9-14, A2 14-20");
  CHECK(run.metrics.iteration_us == 22);
  CHECK(run.metrics.decode_us == 8);
  CHECK(run.metrics.communication_us == 11);
}

// ---- numbers

Metrics predicted(const std::string& schedule, std::int64_t workers, const Conditions& conditions = {}) {
  return Scene(two_layers(), pair_of(2, 0.1), workers, conditions).run(schedule_of(schedule)).metrics;
}

TEST_CASE("compression: the numbers of a prediction, by hand") {
  // R 0-1, F 1-11, b1 11-29, f2 29-39, B2 39-47, E1 47-51, B1 51-61, E2 61-64, D1 64-68, D2 68-70, U 70-76
  const Metrics got = predicted(with(gathered(), R"("pipeline": "wfbp")"), 2,
                                {.accumulation_steps = 2,
                                 .read_us = 1,
                                 .read_is_overlapped = false,
                                 .optimizer_us = 3,
                                 .stragglers = {{.worker = 0, .slowdown = 2}}});
  CHECK(got.iteration_us == 76);
  CHECK(got.forward_us == 20);
  CHECK(got.backward_us == 36);
  CHECK(got.encode_us == 7);
  CHECK(got.decode_us == 6);
  CHECK(got.update_us == 6);
  CHECK(got.read_us == 1);
  CHECK(got.communication_us == 8);
  CHECK(got.exposed_communication_us == 0);
  CHECK(got.bytes_sent_per_worker == 60);
  CHECK(got.throughput_samples_per_s == Approx(2 * 2 * 8 / 76e-6));
  // a single worker, uncompressed, without the straggler: 1 + 2 x 14 + 3
  CHECK(got.speedup == Approx(2 * 32.0 / 76));
  CHECK(got.scaling_efficiency == Approx(32.0 / 76));
}

TEST_CASE("compression: encoding and decoding are no exposed communication") {
  // 21.5 - 14 - 3.5 - 3
  const Metrics wfbp = predicted(with(gathered(), R"("pipeline": "wfbp")"), 2);
  CHECK(wfbp.exposed_communication_us == 1);
  CHECK(wfbp.speedup == Approx(2 * 14 / 21.5));
  // forward to forward: 27.5 - 14 - 3.5 - 3 - 3
  const Metrics dear = predicted(with(summed(), R"("pipeline": "dear")"), 2, {.optimizer_us = 3});
  CHECK(dear.iteration_us == 27.5);
  CHECK(dear.encode_us == 3.5);
  CHECK(dear.decode_us == 3);
  CHECK(dear.update_us == 3);
  CHECK(dear.communication_us == 10);
  CHECK(dear.exposed_communication_us == 4);
}

TEST_CASE("compression: bytes sent, each worker's share to every other, or round the ring") {
  // 120 bytes: 60 from each worker to each of three others
  CHECK(predicted(with(gathered(), R"("pipeline": "wfbp")"), 4).bytes_sent_per_worker == 180);
  CHECK(predicted(with(summed(), R"("pipeline": "wfbp")"), 4).bytes_sent_per_worker == 90);
  CHECK(predicted(with(summed(), R"("pipeline": "dear")"), 4).bytes_sent_per_worker == 90);
  CHECK(
      predicted(with(summed(), R"("pipeline": "zero", "overlap_gather": false)"), 4).bytes_sent_per_worker ==
      90);
  CHECK(predicted(R"("wfbp")", 4).bytes_sent_per_worker == 180);
  // the 40 bytes that are not encoded cross 1.5 times
  CHECK(predicted(fmt::format(R"({{{}}})", kSelective), 2).bytes_sent_per_worker == 40 + 40);
}

TEST_CASE("compression: the channel of an all-gather takes (P - 1)(alpha + beta ratio x), whatever P") {
  for (const std::int64_t workers : {2, 3, 4, 64}) {
    const double expected = static_cast<double>(workers - 1) * ((1 + 0.1 * 40) + (1 + 0.1 * 20));
    CHECK(predicted(with(gathered(), R"("pipeline": "wfbp")"), workers).communication_us == Approx(expected));
  }
}

}  // namespace
}  // namespace planner
