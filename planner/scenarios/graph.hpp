// Reads a link, and a topology given link by link.

#pragma once

#include "core/field.hpp"
#include "sim/cluster/graph.hpp"

namespace scenarios {

/// Reads `bandwidth_gbps` and the optional `latency_us` of an object whose keys have been checked; throws
/// InputError.
cluster::LinkSpec read_link(const core::Field& field);

/// Reads `links`, `workers_at` and the optional `routes` of a topology. Throws InputError, also if one worker
/// cannot reach another.
cluster::Graph read_graph(const core::Field& topology);

}  // namespace scenarios
