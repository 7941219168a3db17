// Which replica of a model is the slowest, if some of the workers compute more slowly than others.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/job/conditions.hpp"
#include "planner/parallel/parallel.hpp"

namespace planner {

/// By stage: how many times as long the slowest replica computes. A replica of the model is one tensor group
/// of each stage, and a tensor group is as slow as its slowest worker, for which the others wait in each
/// layer. Collectives of a stage wait for the slowest of its tensor groups, so a replica that has the slowest
/// of every stage decides the iteration. Throws Unsupported if none has. `workers` is a multiple of the
/// groups, as check_workers() checks; stragglers beyond it are none.
std::vector<double> slowest_replica(const Parallel& parallel, std::int64_t workers,
                                    const std::vector<Straggler>& stragglers);

}  // namespace planner
