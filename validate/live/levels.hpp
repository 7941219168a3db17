// Measures the links of a network whose workers are placed in nodes: the cost of a message inside a node and
// between nodes.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "core/network.hpp"

namespace live {

/// All ranks call it; rank 0 gets the levels, the others nothing. Rank r is worker r % workers_per_node of
/// node r / workers_per_node; nodes are full. Workers pass messages in a ring: inside all nodes at once, then
/// between workers with the same index in their nodes, first for one index alone and then for all. If all
/// together take much longer, they share a link. Throws EnvironmentError if a received message was not sent.
/// Before each message of at least `burst_bytes`, this many bytes are sent untimed, as an idle link may let a
/// burst pass at once.
std::vector<core::Level> measured_levels(transport::Transport& transport, std::uint32_t workers_per_node,
                                         const std::vector<std::int64_t>& sizes, std::uint32_t rounds,
                                         std::int64_t burst_bytes = 0);

/// The common link and whether it is shared: `alone` is the cost of one worker's messages, `together` that of
/// several workers at once.
struct MaybeShared {
  core::Link link;
  bool shared = false;
};
MaybeShared shared_link(const core::Link& alone, const core::Link& together, std::uint32_t workers);

}  // namespace live
