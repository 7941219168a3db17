// Reads how a scenario's collectives are simulated: fidelity, link differences, and the topology that
// messages share.

#pragma once

#include "core/field.hpp"
#include "planner/job/conditions.hpp"

namespace scenarios {

/// Reads `fidelity`, `links` and `topology` of a scenario into its conditions; throws InputError.
void read_fidelity(const core::Field& scenario, planner::Conditions& conditions);

}  // namespace scenarios
