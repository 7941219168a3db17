// Compares a schedule's whole run with one worked out by hand.

#pragma once

#include <string>

#include <doctest/doctest.h>

#include "tests/support/timelines.hpp"

namespace support {

struct Expected {
  std::string compute;
  std::string channel;
  double iteration_us;
  std::string ticks = {};
  std::string input = {};
};

/// Checks the run of `schedule`, spelled as in a scenario, on a scene; times in microseconds.
inline void check_run(const std::string& schedule, const Scene& scene, const Expected& expected) {
  CAPTURE(schedule);
  const planner::Run run = scene.run(schedule_of(schedule));
  CHECK(stream(scene, run, planner::Lowered::kCompute) == expected.compute);
  CHECK(stream(scene, run, planner::Lowered::kChannel) == expected.channel);
  CHECK(stream(scene, run, planner::Lowered::kTicks) == expected.ticks);
  CHECK(stream(scene, run, planner::Lowered::kInput) == expected.input);
  CHECK(run.metrics.iteration_us == expected.iteration_us);
}

}  // namespace support
