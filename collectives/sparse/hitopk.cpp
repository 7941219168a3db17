#include "collectives/sparse/hitopk.hpp"

#include <algorithm>

#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/nodes.hpp"
#include "collectives/sparse/ring.hpp"

namespace sparse {
namespace {

using transport::Group;
using transport::Phase;
using transport::Transport;

/// Returns the selected elements of the shard, indexed as in the gradient; the others stay in `rest`.
SparseVector select_from(std::span<const float> shard_sum, Range shard, const Selector& select,
                         std::span<float> rest) {
  std::ranges::copy(shard_sum, rest.begin());
  SparseVector selected = select(rest);
  check_sparse(selected, rest.size(), "hitopk: what was selected");
  for (std::uint32_t& index : selected.indexes) {
    rest[index] = 0;
    index += static_cast<std::uint32_t>(shard.begin);
  }
  return selected;
}

/// Sums the shard over nodes, in the order of nodes.
Accumulator sum_between_nodes(Group& peers, const SparseVector& selected, std::optional<std::size_t> max,
                              Range shard, std::span<float> place) {
  const Phase phase(peers, "between");
  Accumulator sum(shard, place);
  const std::size_t room = max ? place.size_bytes() / 2 : transport::kAnySize;
  all_gather_within(peers, encode(selected), max.value_or(shard.size()) * compression::kBytesPerKept, room,
                    [&](std::span<const std::byte> message) { sum.add(message, shard); });
  return sum;
}

/// Gathers the shards' sums on all workers of the node, in several pieces one after the other.
void gather_in_node(Group& node, const Accumulator& own, std::size_t elements, std::size_t pieces,
                    Accumulator& all) {
  const Phase phase(node, "inside");
  const auto piece_of = [&](std::uint32_t rank, std::size_t piece) {
    const std::size_t begin = part_begin(elements, rank, node.size());
    const std::size_t size = part_begin(elements, rank + std::size_t{1}, node.size()) - begin;
    return Range{begin + part_begin(size, piece, pieces), begin + part_begin(size, piece + 1, pieces)};
  };
  for (std::size_t piece = 0; piece < pieces; ++piece)
    all_gather_each(
        node, own.encoded(piece_of(node.rank(), piece)),
        [&](std::uint32_t rank, std::span<const std::byte> message) {
          all.add(message, piece_of(rank, piece));
        },
        0, elements * compression::kBytesPerKept);
}

/// Leaves the sum in `gradient`.
Accumulator sum_in_place(Transport& transport, std::span<float> gradient, const HiTopKOptions& options,
                         const Selector& select, Range shard, std::span<float> rest) {
  Group node = node_of(transport, options.workers_per_node);
  Group peers = peers_of(transport, options.workers_per_node);
  {
    const Phase phase(node, "reduce-scatter");
    ring_reduce_scatter(node, gradient);
  }
  const std::span<float> place = gradient.subspan(shard.begin, shard.size());
  const Accumulator shard_sum = [&] {
    const SparseVector selected = select_from(place, shard, select, rest);
    return sum_between_nodes(peers, selected, options.max, shard, place);
  }();
  constexpr std::size_t kPieces = 4;
  const bool may_be_long = options.max && peers.size() * *options.max * compression::kBytesPerKept >
                                              gradient.size_bytes() / kPieces;
  Accumulator all({0, gradient.size()}, gradient);
  gather_in_node(node, shard_sum, gradient.size(), may_be_long ? kPieces : 1, all);
  return all;
}

}  // namespace

Range hitopk_shard(const Transport& transport, std::size_t elements, std::uint32_t workers_per_node) {
  check_full_nodes(transport, workers_per_node, "hitopk");
  const std::size_t place = transport.rank() % workers_per_node;
  return {part_begin(elements, place, workers_per_node), part_begin(elements, place + 1, workers_per_node)};
}

std::size_t hitopk(Transport& transport, std::span<float> gradient, const HiTopKOptions& options,
                   const Selector& select, std::span<float> rest) {
  const Range shard = hitopk_shard(transport, gradient.size(), options.workers_per_node);
  Accumulator sum = sum_in_place(transport, gradient, options, select, shard, rest);
  sum.zero_absent();
  return sum.count();
}

HiTopK hitopk(Transport& transport, std::span<const float> gradient, std::uint32_t workers_per_node,
              const Selector& select) {
  HiTopK result;
  result.shard = hitopk_shard(transport, gradient.size(), workers_per_node);
  result.rest.resize(result.shard.size());
  std::vector<float> values(gradient.begin(), gradient.end());
  result.sum = sum_in_place(transport, values, {.workers_per_node = workers_per_node}, select, result.shard,
                            result.rest)
                   .take();
  return result;
}

}  // namespace sparse
