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

/// Selects k elements of a dense vector: top-k, MSTopK, ...
using Selector = std::function<SparseVector(std::span<const float>)>;

struct HiTopK {
  SparseVector sum;         ///< over all ranks' gradients, the same on all ranks
  Range shard;              ///< the elements from which this rank has selected
  std::vector<float> rest;  ///< of the shard, summed over the node: the elements not selected, otherwise 0
};

/// Rank r is worker r % workers_per_node of node r / workers_per_node; std::invalid_argument if nodes are not
/// full. Steps: a ring reduce-scatter inside the node ("reduce-scatter"); `select` keeps k elements of the
/// shard; an all-gather between the workers with the same position in their nodes, summed in the order of
/// nodes ("between"); an all-gather inside the node ("inside"). With n workers in each of m nodes and d
/// elements, words received: d (n-1)/n, 2k(m-1), and twice the elements of the other shards' sums, at most
/// 2km(n-1).
HiTopK hitopk(transport::Transport& transport, std::span<const float> gradient,
              std::uint32_t workers_per_node, const Selector& select);

/// The same on all ranks.
struct HiTopKOptions {
  std::uint32_t workers_per_node = 1;
  /// The maximum that a rank may select. None: all of its shard, and memory is not limited.
  std::optional<std::size_t> max = {};
};

/// Returns the elements from which this rank selects.
Range hitopk_shard(const transport::Transport& transport, std::size_t elements,
                   std::uint32_t workers_per_node);

/// Works in place: `gradient` becomes the sum, and the unselected elements of the shard go to `rest`, which
/// is as long as the shard. Returns the number of elements of the sum. With `max`, selections go round one at
/// a time if all together would take more than half a shard (gather.hpp), and shards' sums that may be more
/// than a quarter of a gradient are sent in four pieces. Memory in gradients: half a shard, or half of a
/// shard's sum twice.
std::size_t hitopk(transport::Transport& transport, std::span<float> gradient, const HiTopKOptions& options,
                   const Selector& select, std::span<float> rest);

}  // namespace sparse
