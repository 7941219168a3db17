#include "sparse/hitopk.hpp"

#include <fmt/format.h>

#include "sparse/gather.hpp"
#include "sparse/ring.hpp"
#include "transport/group.hpp"

namespace sparse {
namespace {

using transport::Group;
using transport::Phase;
using transport::Transport;

Group node_of(Transport& all, std::uint32_t workers) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t i = 0; i < workers; ++i) members.push_back(all.rank() / workers * workers + i);
  return {all, members};
}

/// The workers with this rank's place in their nodes.
Group peers_of(Transport& all, std::uint32_t workers) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t rank = all.rank() % workers; rank < all.size(); rank += workers) members.push_back(rank);
  return {all, members};
}

/// This rank's shard of the node's sum.
std::vector<float> sum_in_node(Group& node, std::span<const float> gradient, Range shard) {
  const Phase phase(node, "reduce-scatter");
  std::vector<float> values(gradient.begin(), gradient.end());
  ring_reduce_scatter(node, values);
  return {values.begin() + static_cast<std::ptrdiff_t>(shard.begin),
          values.begin() + static_cast<std::ptrdiff_t>(shard.end)};
}

SparseVector sum_between_nodes(Group& peers, const SparseVector& selected, Range shard) {
  const Phase phase(peers, "between");
  Accumulator sum(shard);
  for (const transport::Bytes& message : all_gather(peers, encode(selected))) sum.add(decode(message, shard));
  return sum.take();
}

SparseVector gather_in_node(Group& node, const SparseVector& shard_sum, std::size_t elements) {
  const Phase phase(node, "inside");
  SparseVector all;
  const std::vector<transport::Bytes> messages = all_gather(node, encode(shard_sum));
  for (std::size_t j = 0; j < messages.size(); ++j)
    append(all, decode(messages[j], {part_begin(elements, j, messages.size()),
                                     part_begin(elements, j + 1, messages.size())}));
  return all;
}

}  // namespace

HiTopK hitopk(Transport& transport, std::span<const float> gradient, std::uint32_t workers_per_node,
              const Selector& select) {
  if (workers_per_node == 0 || transport.size() % workers_per_node != 0)
    throw std::invalid_argument(
        fmt::format("hitopk: {} ranks are not full nodes of {}", transport.size(), workers_per_node));
  Group node = node_of(transport, workers_per_node);
  Group peers = peers_of(transport, workers_per_node);
  const std::size_t elements = gradient.size();
  HiTopK result;
  result.shard = {part_begin(elements, node.rank(), node.size()),
                  part_begin(elements, node.rank() + std::size_t{1}, node.size())};
  result.rest = sum_in_node(node, gradient, result.shard);
  SparseVector selected = select(result.rest);
  check_sparse(selected, result.rest.size(), "hitopk: what was selected");
  for (std::uint32_t& index : selected.indexes) {
    result.rest[index] = 0;
    index += static_cast<std::uint32_t>(result.shard.begin);
  }
  result.sum = gather_in_node(node, sum_between_nodes(peers, selected, result.shard), elements);
  return result;
}

}  // namespace sparse
