// Groups of workers on a part of a network: its costs as the workers of one of several groups see them, while
// the other groups run the same collectives.

#pragma once

#include <cstdint>

#include "core/network.hpp"

namespace planner {

/// A group of every `stride`-th worker, as many as `size`; the other workers are in groups alike.
struct Placement {
  std::int64_t stride = 1;
  std::int64_t size = 1;
};

/// The network between the members of such a group, whatever their number. Levels inside which the group has
/// a single worker are left out. A level whose link a node's workers share is slower by the number of groups
/// that have workers in the node. Measured curves remain where they were measured inside what is left of the
/// innermost level. Throws Unsupported as check_placement() does.
core::Network as_seen_by(const core::Network& network, const Placement& placement);

/// Throws Unsupported if a group would fill some units of a level in part, so that groups are not alike.
void check_placement(const core::Network& network, const Placement& placement);

}  // namespace planner
