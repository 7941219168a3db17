// FSDP with the groups of a traced job. Groups are neighbours in backward order for the planner. In a job
// they need not be: the model's own parameters are often used first and last.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/profile.hpp"
#include "core/sharded_groups.hpp"

namespace scenarios {

/// The profile with the gradients in the order of the groups. A gradient that waits for others of its group
/// belongs to the layer at whose end its reduce-scatter is issued; layers keep their times.
core::Profile in_groups(core::Profile profile, const core::ShardedGroups& sharded);

/// Whether the simulation has to keep the parameters of the group that is scattered last, which pipelines
/// have no key for.
bool keeps_last_group(const core::ShardedGroups& sharded);

/// A schedule, as JSON, for the profile in_groups(). With `collectives_block` they stop the worker that
/// issues them.
std::string schedule_of_groups(const core::Profile& in_groups, const core::ShardedGroups& sharded,
                               std::int64_t workers, bool collectives_block);

struct PlanOfNeighbours {
  std::string text;         ///< a fusewise.plan
  std::size_t divided = 0;  ///< groups that it holds in parts
};

/// A plan for the profile as it is.
PlanOfNeighbours plan_of_neighbours(const core::Profile& profile, const core::ShardedGroups& sharded,
                                    std::int64_t workers, bool collectives_block);

}  // namespace scenarios
