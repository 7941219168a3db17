// A topology that is written out link by link.

#pragma once

#include "core/field.hpp"
#include "sim/cluster/graph.hpp"

namespace scenarios {

/// `links`, `workers_at` and, where there are any, `routes` of a topology; throws InputError, also where
/// links lead from some worker to no other.
cluster::Graph read_graph(const core::Field& topology);

}  // namespace scenarios
