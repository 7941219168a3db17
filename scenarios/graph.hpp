// A topology that is written out link by link.

#pragma once

#include "cluster/graph.hpp"
#include "models/field.hpp"

namespace scenarios {

/// `links`, `workers_at` and, where there are any, `routes` of a topology; throws InputError, also where
/// links lead from some worker to no other.
cluster::Graph read_graph(const models::Field& topology);

}  // namespace scenarios
