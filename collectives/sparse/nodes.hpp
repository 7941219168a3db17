// Groups of ranks by node: rank r is worker r % workers of node r / workers.

#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/transport/group.hpp"

namespace sparse {

/// Throws std::invalid_argument, which mentions `what`, unless all nodes have that many workers.
void check_full_nodes(const transport::Transport& all, std::uint32_t workers, std::string_view what);

/// Returns the workers of this rank's node.
transport::Group node_of(transport::Transport& all, std::uint32_t workers);

/// Returns the workers with this rank's position in their nodes.
transport::Group peers_of(transport::Transport& all, std::uint32_t workers);

}  // namespace sparse
