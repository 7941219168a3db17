// A link, and a topology that is written out link by link.

#pragma once

#include "core/field.hpp"
#include "sim/cluster/graph.hpp"

namespace scenarios {

/// `bandwidth_gbps` and, if it is there, `latency_us` of an object whose keys have been checked; throws
/// InputError.
cluster::LinkSpec read_link(const core::Field& field);

/// `links`, `workers_at` and, where there are any, `routes` of a topology; throws InputError, also where
/// links lead from some worker to no other.
cluster::Graph read_graph(const core::Field& topology);

}  // namespace scenarios
