// Ranks in nodes: rank r is worker r % workers of node r / workers.

#pragma once

#include <cstdint>
#include <string_view>

#include "collectives/transport/group.hpp"

namespace sparse {

/// std::invalid_argument, for `what`, where nodes of so many workers are not full.
void check_full_nodes(const transport::Transport& all, std::uint32_t workers, std::string_view what);

/// The workers of this rank's node.
transport::Group node_of(transport::Transport& all, std::uint32_t workers);

/// The workers with this rank's place in their nodes.
transport::Group peers_of(transport::Transport& all, std::uint32_t workers);

}  // namespace sparse
