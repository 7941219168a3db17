// Overlap slow-down in time: complete timelines of two layers, computed by hand.

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

// Forward 2 and 3 us, backward 5 and 4 us, 40 and 80 bytes. An all-reduce takes 10 us for layer 2 (group 1),
// 6 us for layer 1 (group 2), 14 us for both; reduce-scatter and all-gather take 5, 3 and 7 us.
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

constexpr Overlap kCompute = {.compute_slowdown = 1};
constexpr Overlap kChannel = {.communication_slowdown = 0.25};
constexpr Overlap kBoth = {.compute_slowdown = 1, .communication_slowdown = 0.25};

void check(const std::string& schedule, const Conditions& conditions, const Expected& expected,
           std::int64_t workers = 2, const core::Profile& profile = two_layers()) {
  check_run(schedule, Scene(profile, pair_of(2, 0.1), workers, conditions), expected);
}

TEST_CASE("slow-down: under wfbp, in one direction, in the other and in both") {
  // compute: F1 F2 B2 [   B1   ]      F1' ...
  // channel:          [   A1   ][ A2 ]
  check(R"("wfbp")", {.iterations = 2, .overlap = kCompute},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-19, F1 25-27, F2 27-30, B2 30-34, B1 34-44",
         "A1 9-19, A2 19-25, A1 34-44, A2 44-50", 25});
  // during the 5 us of B1, four of A1's ten are done
  check(R"("wfbp")", {.iterations = 2, .overlap = kChannel},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 26-28, F2 28-31, B2 31-35, B1 35-40",
         "A1 9-20, A2 20-26, A1 35-46, A2 46-52", 26});
  // during B1, which takes 10 us, eight of A1's ten are done
  check(R"("wfbp")", {.iterations = 2, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-19, F1 27-29, F2 29-32, B2 32-36, B1 36-46",
         "A1 9-21, A2 21-27, A1 36-48, A2 48-54", 27});
}

TEST_CASE("slow-down: after backward nothing overlaps but encoding and decoding") {
  check(R"("s-sgd")", {.iterations = 2, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 30-32, F2 32-35, B2 35-39, B1 39-44",
         "A1 14-24, A2 24-30, A1 44-54, A2 54-60", 30});
  // encode 2 and 1.5, all-gather 5 and 3, decode 2 and 1
  // compute: ... B1 E1 [E2]     [D1]  D2
  // channel:           [ G1   ][ G2 ]
  check(R"({"name": "s-sgd", "compression": {"name": "x", "ratio": 0.5,
            "encode": {"startup_us": 1, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025}}})",
        {.iterations = 2, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16, E2 16-19, D1 21.6-25.475, D2 25.475-26.475, "
         "F1 26.475-28.475, F2 28.475-31.475, B2 31.475-35.475, B1 35.475-40.475, E1 40.475-42.475, "
         "E2 42.475-45.475, D1 48.075-51.95, D2 51.95-52.95",
         "G1 16-21.6, G2 21.6-25.35, G1 42.475-48.075, G2 48.075-51.825", 26.475});
}

TEST_CASE("slow-down: wfbp with a compressor slows backward, encoding and decoding, and is slowed by them") {
  // G1 takes 5 x 1.25 during B1, which then has 1.875 us left; G2 3 x 1.25 during D1, which has 0.125 left
  // compute: F1 F2 B2 E1 [ B1  ] E2 [ D1  ] D2
  // channel:            [ G1 ]     [ G2 ]
  check(R"({"compression": {"name": "x", "ratio": 0.5,
            "encode": {"startup_us": 1, "us_per_byte": 0.0125}, "decode": {"us_per_byte": 0.025}}})",
        {.iterations = 2, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-19.125, E2 19.125-20.625, D1 20.625-24.5, D2 24.5-25.5, "
         "F1 25.5-27.5, F2 27.5-30.5, B2 30.5-34.5, E1 34.5-36.5, B1 36.5-44.625, E2 44.625-46.125, "
         "D1 46.125-50, D2 50-51",
         "G1 11-17.25, G2 20.625-24.375, G1 36.5-42.75, G2 46.125-49.875", 25.5});
}

TEST_CASE("slow-down: in dear the next forward pass and the all-gathers slow each other down too") {
  // compute: F1 F2 B2 [  B1 ]            [ F1' ] [F2'] ...
  // channel:          [S1]   [ S2 ][ G2 ][ G1 ]
  const Expected expected = {
      "F1 0-2, F2 2-5, B2 5-9, B1 9-17.125, F1 23.125-27.125, F2 28.925-31.925, "
      "B2 31.925-35.925, B1 35.925-44.05, F1 50.05-54.05, F2 55.85-58.85",
      "S1 9-15.25, S2 17.125-20.125, G2 20.125-23.125, G1 23.125-28.925, "
      "S1 35.925-42.175, S2 44.05-47.05, G2 47.05-50.05, G1 50.05-55.85",
      26.925};
  check(R"("dear-no-fusion")", {.iterations = 2, .overlap = kBoth}, expected);
  check(R"("zero")", {.iterations = 2, .overlap = kBoth}, expected);
  // F1 has no tensors: it starts during G1
  // compute: F1 F2 B2 B1     [ F1' ] [F2']
  // channel:         [ S1  ][  G1  ]
  check(R"("dear-no-fusion")", {.iterations = 1, .overlap = kBoth},
        {"F1 0-4, F2 4-7, B2 7-11, B1 11-13, F1 16.4-23.525, F2 23.525-26.525", "S1 11-16.4, G1 16.4-22.65",
         19.525},
        2, profile_of({{4, 1}, {3, 4, {20}}}));
}

TEST_CASE("slow-down: in dear updates are slowed by the all-gathers that they run beside") {
  // compute: ...             U2  F1'    U1 F2'
  // channel: ... [ S2 ][ G2 ][ G1     ]
  check(R"("dear-no-fusion")", {.iterations = 1, .optimizer_us = 3, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-17.125, U2 23.125-25.125, F1 25.125-29.125, U1 29.325-31.325, "
         "F2 31.325-34.325",
         "S1 9-15.25, S2 17.125-20.125, G2 20.125-23.125, G1 23.125-29.325", 29.325});
}

TEST_CASE("slow-down: in dear decoding and all-gathers slow each other down") {
  // half of the bytes: halves 3 and 2, decode 2 and 1, encode nothing
  // B1 5 during S1 3: S1 9-12.75, B1 done 1.875 of 5
  // compute: F1 F2 B2 [ B1 ]           D2  F1'  D1 F2'
  // channel:          [S1]   [S2] [G2][ G1  ]
  check(R"({"pipeline": "dear", "compression": {"name": "x", "ratio": 0.5, "collective": "all_reduce",
            "decode": {"us_per_byte": 0.025}}})",
        {.iterations = 1, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-15.875, D2 19.875-21.875, F1 21.875-24.75, D1 24.75-26.75, F2 "
         "26.75-29.75",
         "S1 9-12.75, S2 15.875-17.875, G2 17.875-19.875, G1 19.875-23.625", 24.75});
}

TEST_CASE("slow-down: zero that does not overlap is slowed under backward alone") {
  // compute: F1 F2 B2 [  B1 ]       U              F1' ...
  // channel:          [S1]   [ S2 ]   [ G2 ][ G1 ]
  check(R"({"pipeline": "zero", "overlap_gather": false})",
        {.iterations = 2, .optimizer_us = 3, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-17.125, U 20.125-23.125, "
         "F1 31.125-33.125, F2 33.125-36.125, B2 36.125-40.125, B1 40.125-48.25, U 51.25-54.25",
         "S1 9-15.25, S2 17.125-20.125, G2 23.125-26.125, G1 26.125-31.125, "
         "S1 40.125-46.375, S2 48.25-51.25, G2 54.25-57.25, G1 57.25-62.25",
         31.125});
}

TEST_CASE("slow-down: reading neither slows nor is slowed") {
  check(R"("wfbp")", {.iterations = 2, .read_us = 1, .read_is_overlapped = false, .overlap = kBoth},
        {"F1 1-3, F2 3-6, B2 6-10, B1 10-20, F1 29-31, F2 31-34, B2 34-38, B1 38-48",
         "A1 10-22, A2 22-28, A1 38-50, A2 50-56", 28, "", "R 0-1, R 28-29"});
  // compute: ...                         [  F1' ]  [F2']
  // input:   ...           [   R        ]
  // channel: ...     [ S2 ][ G2 ][    G1    ]
  check(R"("dear-no-fusion")", {.iterations = 1, .read_us = 4, .read_is_overlapped = false, .overlap = kBoth},
        {"F1 4-6, F2 6-9, B2 9-13, B1 13-21.125, F1 28.125-32.125, F2 32.925-35.925",
         "S1 13-19.25, S2 21.125-24.125, G2 24.125-27.125, G1 27.125-32.925", 26.925, "",
         "R 0-4, R 24.125-28.125"});
}

TEST_CASE(
    "slow-down: nothing is on the channel beside an update or LARS, and nobody computes beside its gather") {
  check(R"("wfbp")", {.iterations = 2, .optimizer_us = 1, .lars_us = 2, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-19, U 27-30, F1 30-32, F2 32-35, B2 35-39, B1 39-49, U 57-60",
         "A1 9-21, A2 21-27, A1 39-51, A2 51-57", 30});
  // the gather of 2 x 4 bytes takes 1 + 0.4
  const Conditions conditions = {
      .iterations = 1, .optimizer_us = 1, .lars_us = 4, .parallel_tensor_operator = true, .overlap = kBoth};
  check(R"("wfbp")", conditions,
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-19, L 27-29, U 30.4-31.4", "A1 9-21, A2 21-27, H 29-30.4", 31.4});
  // in dear F1, which has no tensors, starts during LARS' gather: 1.4 x 1.25, then G1's 5 x 1.25
  // compute: F1 F2 B2 B1     L [   F1'   ] [F2']
  // channel:         [ S1  ]   [H][   G1   ]
  check(R"("dear-no-fusion")",
        {.iterations = 1, .lars_us = 4, .parallel_tensor_operator = true, .overlap = kBoth},
        {"F1 0-4, F2 4-7, B2 7-11, B1 11-13, L 16.4-18.4, F1 18.4-26.4, F2 26.4-29.4",
         "S1 11-16.4, H 18.4-20.15, G1 20.15-26.4", 22.4},
        2, profile_of({{4, 1}, {3, 4, {20}}}));
}

TEST_CASE("slow-down: ticks are neither slowed nor slow anything") {
  // ready 4 and, with the slow-down, 12 us after backward began: ticks at 6 and 9 us
  // compute: F1 F2 B2 [B1  -> slowed from 11 on]
  // channel:               [      A1      ][ A2 ]
  check(R"({"fusion": {"kind": "threshold", "cycle_us": 3}})", {.iterations = 1, .overlap = kBoth},
        {"F1 0-2, F2 2-5, B2 5-9, B1 9-17", "A1 11-22.2, A2 22.2-28.2", 28.2, "T1 5-11, T2 11-14"});
}

TEST_CASE("slow-down: a straggler is slowed on top of its own slowness") {
  check(R"("wfbp")", {.iterations = 1, .stragglers = {{.worker = 1, .slowdown = 2}}, .overlap = kBoth},
        {"F1 0-4, F2 4-10, B2 10-18, B1 18-34.25", "A1 18-30.5, A2 34.25-40.25", 40.25});
}

TEST_CASE("slow-down: one worker is not slowed") {
  const std::string twice = "F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 14-16, F2 16-19, B2 19-23, B1 23-28";
  check(R"("wfbp")", {.iterations = 2, .overlap = kBoth}, {twice, "", 14}, 1);
  check(R"("dear-nl")", {.iterations = 2, .overlap = kBoth}, {twice + ", F1 28-30, F2 30-33", "", 14}, 1);
}

TEST_CASE("slow-down: compute is told at full speed, the channel as long as it is busy") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.overlap = kBoth});
  const Metrics got = scene.run(schedule_of(R"("wfbp")")).metrics;
  CHECK(got.iteration_us == 27);
  CHECK(got.forward_us == 5);
  CHECK(got.backward_us == 9);
  CHECK(got.communication_us == 18);
  CHECK(got.exposed_communication_us == 13);
  CHECK(got.bytes_sent_per_worker == 120);
  CHECK(got.speedup == Approx(2 * 14.0 / 27));
}

}  // namespace
}  // namespace planner
