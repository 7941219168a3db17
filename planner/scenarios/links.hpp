// Reads how a scenario's collectives are simulated: fidelity, link differences, and the topology that
// messages share.

#pragma once

#include "core/field.hpp"
#include "planner/job/conditions.hpp"
#include "sim/cluster/graph.hpp"

namespace scenarios {

/// Reads `fidelity`, `links` and `topology` of a scenario into its conditions; throws InputError.
void read_fidelity(const core::Field& scenario, planner::Conditions& conditions);

/// Reads `bandwidth_gbps` and the optional `latency_us` of an object whose keys have been checked; throws
/// InputError.
cluster::LinkSpec read_link(const core::Field& field);

/// Reads `links`, `workers_at` and the optional `routes` of a topology. Throws InputError, also if one worker
/// cannot reach another.
cluster::Graph read_graph(const core::Field& topology);

}  // namespace scenarios
