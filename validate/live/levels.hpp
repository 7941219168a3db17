// The links of a network whose workers sit in nodes, measured: what a message costs inside a node and between
// nodes.

#pragma once

#include <cstdint>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "core/network.hpp"

namespace live {

/// All ranks call it; rank 0 gets the levels, the others none. Rank r is worker r % workers_per_node of node
/// r / workers_per_node; nodes are full. Workers pass messages on as a ring of them does: inside all nodes at
/// once, then between nodes with the workers at the same place of theirs, first those of one place alone and
/// then all. Where that takes all of them much longer they share a link. EnvironmentError where a message
/// arrives that was not sent. Before messages of `burst_bytes` and more as many are sent, which a link that
/// has rested may let pass at once.
std::vector<core::Level> measured_levels(transport::Transport& transport, std::uint32_t workers_per_node,
                                         const std::vector<std::int64_t>& sizes, std::uint32_t rounds,
                                         std::int64_t burst_bytes = 0);

/// The link of all, and whether they share it: `alone` is what messages of one of them cost, `together` those
/// of so many at once.
struct MaybeShared {
  core::Link link;
  bool shared = false;
};
MaybeShared shared_link(const core::Link& alone, const core::Link& together, std::uint32_t workers);

}  // namespace live
