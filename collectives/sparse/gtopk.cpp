#include <utility>

#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/ring.hpp"
#include "collectives/sparse/tags.hpp"

namespace sparse {
namespace {

using transport::Transport;

/// Returns the distance to the lower rank to which a rank sends its sum; rank 0 has none, so it gets the
/// smallest power of two that is not below the number of ranks.
std::uint32_t distance_to_parent(std::uint32_t rank, std::uint32_t size) {
  std::uint32_t distance = 1;
  while (distance < size && rank % (2 * distance) == 0) distance *= 2;
  return distance;
}

/// Returns the union; where both have an element, the first value plus the second.
SparseVector sum_of_both(const SparseVector& a, const SparseVector& b) {
  SparseVector sum;
  sum.indexes.reserve(a.indexes.size() + b.indexes.size());
  sum.values.reserve(a.indexes.size() + b.indexes.size());
  const auto take = [&](std::uint32_t index, float value) {
    sum.indexes.push_back(index);
    sum.values.push_back(value);
  };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.indexes.size() || j < b.indexes.size()) {
    const bool from_a = j == b.indexes.size() || (i < a.indexes.size() && a.indexes[i] <= b.indexes[j]);
    const bool from_b = i == a.indexes.size() || (j < b.indexes.size() && b.indexes[j] <= a.indexes[i]);
    if (from_a && from_b)
      take(a.indexes[i], sum_of(a.values[i], b.values[j]));
    else
      take(from_a ? a.indexes[i] : b.indexes[j], from_a ? a.values[i] : b.values[j]);
    if (from_a) ++i;
    if (from_b) ++j;
  }
  return sum;
}

/// Receives the sum of the rank `below`; if it must be asked for, only after asking.
SparseVector from_below(Transport& transport, std::uint32_t below, std::size_t elements, Sending sending) {
  if (sending == Sending::when_asked) {
    const transport::Phase phase(transport, "asked");
    transport.send(below, tag_of(Tag::request), {});
  }
  return decode(transport.recv(below, tag_of(Tag::tree_up), elements * compression::kBytesPerKept),
                {0, elements});
}

/// Returns the k largest elements of the sum of the ranks below this one.
SparseVector sum_from_below(Transport& transport, SparseVector own, std::size_t elements, std::size_t k,
                            Sending sending) {
  const std::uint32_t parent = distance_to_parent(transport.rank(), transport.size());
  SparseVector selected = own.indexes.size() > k ? top_of(own, k) : std::move(own);
  for (std::uint32_t distance = 1; distance < parent; distance *= 2) {
    if (transport.rank() + distance >= transport.size()) continue;
    SparseVector sum;
    {  // frees the memory of what has been summed
      const SparseVector below = from_below(transport, transport.rank() + distance, elements, sending);
      sum = sum_of_both(std::exchange(selected, {}), below);
    }
    selected = top_of(sum, k);
  }
  return selected;
}

SparseVector reduce(Transport& transport, SparseVector own, std::size_t elements, std::size_t k,
                    Sending sending) {
  const transport::Phase phase(transport, "reduce");
  SparseVector selected = sum_from_below(transport, std::move(own), elements, k, sending);
  if (transport.rank() == 0) return selected;
  const std::uint32_t parent = transport.rank() - distance_to_parent(transport.rank(), transport.size());
  if (sending == Sending::when_asked) {
    const transport::Phase asking(transport, "asked");
    transport.recv(parent, tag_of(Tag::request), 0);
  }
  transport.send(parent, tag_of(Tag::tree_up), encode(selected));
  return {};
}

/// Broadcasts the selection of rank 0.
SparseVector broadcast(Transport& transport, SparseVector selected, std::size_t elements) {
  const transport::Phase phase(transport, "broadcast");
  const std::uint32_t parent = distance_to_parent(transport.rank(), transport.size());
  if (transport.rank() != 0)
    selected = decode(transport.recv(transport.rank() - parent, tag_of(Tag::tree_down),
                                     elements * compression::kBytesPerKept),
                      {0, elements});
  for (std::uint32_t distance = parent / 2; distance > 0; distance /= 2)
    if (transport.rank() + distance < transport.size())
      transport.send(transport.rank() + distance, tag_of(Tag::tree_down), encode(selected));
  return selected;
}

}  // namespace

Selected gtopk(Transport& transport, SparseVector own, std::size_t elements, std::size_t k, Sending sending) {
  check_sparse(own, elements, "gtopk");
  Marks given({0, elements});  // takes less memory than the selection itself
  for (const std::uint32_t index : own.indexes) given.set(index);
  Selected result;
  result.sum = broadcast(transport, reduce(transport, std::move(own), elements, k, sending), elements);
  for (const std::uint32_t index : result.sum.indexes)
    if (given.has(index)) result.contributed.push_back(index);
  return result;
}

}  // namespace sparse
