#include "collectives/sparse/between_nodes.hpp"

#include <algorithm>

#include "collectives/sparse/gather.hpp"
#include "collectives/sparse/nodes.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/sparse/tags.hpp"

namespace sparse {
namespace {

using compression::Compressor;
using transport::Bytes;
using transport::Group;
using transport::Phase;
using transport::Transport;

/// Returns a part of encodings with `word` bytes per element, cut between elements.
std::span<std::byte> part_of(std::span<std::byte> bytes, std::size_t word, std::size_t part,
                             std::size_t parts) {
  const std::size_t elements = bytes.size() / word;
  const std::size_t begin = part_begin(elements, part, parts);
  return bytes.subspan(begin * word, (part_begin(elements, part + 1, parts) - begin) * word);
}

/// Replaces the part by the sum of the encodings of all nodes.
void exchange(Group& peers, const Compressor& compressor, double density, Bytes own, std::span<float> part) {
  const Phase phase(peers, "between");
  std::ranges::fill(part, 0.0F);
  if (compressor.sums()) {
    if (!part.empty()) all_reduce_encoded(peers, compressor, own, own.size() / part.size());
    compressor.add_decoded(own, part);
    return;
  }
  const auto max = static_cast<std::size_t>(compressor.wire_bytes(part.size(), density).max);
  all_gather_within(peers, std::move(own), max, part.size_bytes() / 2,
                    [&](std::span<const std::byte> bytes) { compressor.add_decoded(bytes, part); });
}

/// Sends parts of encodings from each rank to the next; parts i and i + size are the same.
class EncodedRing {
 public:
  EncodedRing(Transport& transport, std::span<std::byte> bytes, std::size_t word)
      : transport_(transport), bytes_(bytes), word_(word) {}

  std::span<std::byte> part(std::size_t i) const {
    return part_of(bytes_, word_, i % transport_.size(), transport_.size());
  }
  /// Returns part i - 1 of the previous rank.
  Bytes pass_on(std::size_t i) const {
    const std::uint32_t size = transport_.size();
    const std::span<const std::byte> out = part(i);
    return send_recv(transport_, (transport_.rank() + 1) % size, Bytes(out.begin(), out.end()),
                     (transport_.rank() + size - 1) % size, tag_of(Tag::encoded), part(i + size - 1).size());
  }

 private:
  Transport& transport_;
  std::span<std::byte> bytes_;
  std::size_t word_;
};

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
  reduce_scatter_encoded(transport, compressor, bytes, word);
  all_gather_encoded(transport, bytes, word);
}

void reduce_scatter_encoded(Transport& transport, const Compressor& compressor, std::span<std::byte> bytes,
                            std::size_t word) {
  const EncodedRing ring(transport, bytes, word);
  const std::size_t size = transport.size();
  const std::size_t rank = transport.rank();
  for (std::size_t step = 1; step < size; ++step)
    compressor.sum(ring.part(rank + 2 * size - step - 1), ring.pass_on(rank + size - step));
}

void all_gather_encoded(Transport& transport, std::span<std::byte> bytes, std::size_t word) {
  const EncodedRing ring(transport, bytes, word);
  const std::size_t size = transport.size();
  const std::size_t rank = transport.rank();
  for (std::size_t step = 1; step < size; ++step)
    std::ranges::copy(ring.pass_on(rank + size - step + 1), ring.part(rank + size - step).begin());
}

}  // namespace sparse
