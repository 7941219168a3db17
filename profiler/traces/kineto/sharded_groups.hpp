// The groups of a job with sharded parameters: which gradients each reduce-scatter of a trace carries, and
// when the parameters of a group are gathered.

#pragma once

#include <cstdint>
#include <vector>

#include "core/sharded_groups.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/layers.hpp"

namespace kineto {

/// The most frequent groups of those of these steps that tell their groups. Their layers are `layers`.
core::ShardedGroups sharded_groups(const Trace& trace, const Calls& calls,
                                   const std::vector<std::int32_t>& steps,
                                   const std::vector<core::ProfileLayer>& layers);

}  // namespace kineto
