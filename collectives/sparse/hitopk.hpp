// HiTopKComm (Shi et al., MLSys 2021, Algorithm 2): dense inside a node, sparse between nodes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "collectives/sparse/wire.hpp"
#include "collectives/transport/transport.hpp"

namespace sparse {

/// What is kept of a dense vector: top-k, MSTopK, ...
using Selector = std::function<SparseVector(std::span<const float>)>;

struct HiTopK {
  SparseVector sum;         ///< over all ranks' gradients, the same on all
  Range shard;              ///< which elements this rank has selected from
  std::vector<float> rest;  ///< of the shard, summed over the node: what was not selected, else 0
};

/// Rank r is worker r % workers_per_node of node r / workers_per_node; std::invalid_argument if nodes are not
/// full. A ring reduce-scatter inside the node ("reduce-scatter"); `select` keeps k of the shard; an
/// all-gather between the workers with the same place in their nodes, summed in the order of nodes
/// ("between"); an all-gather inside the node ("inside"). With n workers in each of m nodes and d elements,
/// words received: d (n-1)/n, 2k(m-1), and twice what the other shards' sums have, at most 2km(n-1).
HiTopK hitopk(transport::Transport& transport, std::span<const float> gradient,
              std::uint32_t workers_per_node, const Selector& select);

/// The same on all ranks.
struct HiTopKOptions {
  std::uint32_t workers_per_node = 1;
  std::optional<std::size_t> max = {};  ///< that a rank may select; none: all of its shard
};

/// Which elements this rank selects from.
Range hitopk_shard(const transport::Transport& transport, std::size_t elements,
                   std::uint32_t workers_per_node);

/// The same in place: `gradient` becomes the sum, and the rest of the shard goes to `rest`, which is as long.
/// How many elements the sum has. Selections go round one at a time where all would take more than half a
/// shard (gather.hpp), and shards' sums that may be more than a quarter of a gradient travel in four pieces.
/// Memory in gradients: half a shard, or half of a shard's sum twice.
std::size_t hitopk(transport::Transport& transport, std::span<float> gradient, const HiTopKOptions& options,
                   const Selector& select, std::span<float> rest);

}  // namespace sparse
