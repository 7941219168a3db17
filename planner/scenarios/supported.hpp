// Reports unsupported scenarios as errors in the scenario's file.

#pragma once

#include <cstdint>

#include "core/errors.hpp"
#include "planner/cost/setting.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// Throws InputError that names the problem's place in the scenario: the number of workers, or another key.
[[noreturn]] void refuse(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
                         const core::Unsupported& problem);

/// Returns the result of `work`. If that throws Unsupported, throws as refuse() does.
template <typename Work>
auto supported(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule, Work work) {
  try {
    return planner::within_clock(work);
  } catch (const core::Unsupported& problem) {
    refuse(scenario, workers, schedule, problem);
  }
}

}  // namespace scenarios
