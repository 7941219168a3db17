#include "sparse/between_nodes.hpp"

#include <algorithm>

#include "sparse/gather.hpp"
#include "sparse/nodes.hpp"
#include "sparse/ring.hpp"
#include "sparse/tags.hpp"

namespace sparse {
namespace {

using compression::Compressor;
using transport::Bytes;
using transport::Group;
using transport::Phase;
using transport::Transport;

/// Encodings of `word` bytes an element, cut at elements.
std::span<std::byte> part_of(std::span<std::byte> bytes, std::size_t word, std::size_t part,
                             std::size_t parts) {
  const std::size_t elements = bytes.size() / word;
  const std::size_t begin = part_begin(elements, part, parts);
  return bytes.subspan(begin * word, (part_begin(elements, part + 1, parts) - begin) * word);
}

/// The part becomes what the encodings of all nodes say.
void exchange(Group& peers, const Compressor& compressor, double density, Bytes own, std::span<float> part) {
  const Phase phase(peers, "between");
  std::ranges::fill(part, 0.0F);
  if (compressor.sums()) {
    if (!part.empty()) all_reduce_encoded(peers, compressor, own, own.size() / part.size());
    compressor.add_decoded(own, part);
    return;
  }
  const auto most = static_cast<std::size_t>(compressor.wire_bytes(part.size(), density).most);
  all_gather_within(peers, std::move(own), most, part.size_bytes() / 2,
                    [&](std::span<const std::byte> bytes) { compressor.add_decoded(bytes, part); });
}

}  // namespace

Range encoded_part(const Transport& transport, std::size_t elements, std::uint32_t workers_per_node) {
  const std::size_t place = transport.rank() % workers_per_node;
  return {part_begin(elements, place, workers_per_node), part_begin(elements, place + 1, workers_per_node)};
}

void sum_between_nodes(Transport& transport, const Compressor& compressor, std::uint32_t workers_per_node,
                       std::span<float> gradient, compression::State& state,
                       compression::ErrorFeedback* feedback) {
  check_full_nodes(transport, workers_per_node, "sum_between_nodes");
  Group node = node_of(transport, workers_per_node);
  Group peers = peers_of(transport, workers_per_node);
  const Range range = encoded_part(transport, gradient.size(), workers_per_node);
  const std::span<float> part = gradient.subspan(range.begin, range.size());
  {
    const Phase phase(node, "reduce-scatter");
    ring_reduce_scatter(node, gradient);
  }
  if (peers.size() > 1) {
    Bytes own = feedback != nullptr ? compression::encode(compressor, part, state, *feedback)
                                    : compressor.encode(part, state);
    exchange(peers, compressor, state.density, std::move(own), part);
  }
  const Phase phase(node, "inside");
  ring_all_gather(node, gradient);
}

void all_reduce_encoded(Transport& transport, const Compressor& compressor, std::span<std::byte> bytes,
                        std::size_t word) {
  const std::size_t size = transport.size();
  const std::size_t rank = transport.rank();
  const auto next = static_cast<std::uint32_t>((rank + 1) % size);
  const auto before = static_cast<std::uint32_t>((rank + size - 1) % size);
  const auto part = [&](std::size_t i) { return part_of(bytes, word, i % size, size); };
  const auto pass_on = [&](std::size_t i) {
    const std::span<const std::byte> out = part(i);
    return send_recv(transport, next, Bytes(out.begin(), out.end()), before, tag_of(Tag::encoded));
  };
  for (std::size_t step = 1; step < size; ++step)
    compressor.sum(part(rank + 2 * size - step - 1), pass_on(rank + size - step));
  for (std::size_t step = 1; step < size; ++step)
    std::ranges::copy(pass_on(rank + size - step + 1), part(rank + size - step).begin());
}

}  // namespace sparse
