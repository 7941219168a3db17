#include "collectives/transport/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <variant>

#include <fmt/format.h>

#include "collectives/transport/bytes.hpp"

namespace transport {
namespace {

using cluster::Exchange;
using cluster::Stretch;

std::span<float> part(std::span<float> values, const Stretch& stretch) {
  return values.subspan(static_cast<std::size_t>(stretch.begin), static_cast<std::size_t>(stretch.size()));
}

Bytes message(std::span<const float> values) { return to_bytes(values); }

/// Splits off the first `piece` values.
template <typename T>
std::span<T> bite(std::span<T>& values, std::size_t piece) {
  const std::span<T> first = values.first(std::min(piece, values.size()));
  values = values.subspan(first.size());
  return first;
}

/// Sends in pieces, so that the receiver sums the first while the last is in transit. No values are one empty
/// message.
void give(Transport& transport, std::uint32_t to, std::uint32_t tag, std::span<const float> values) {
  do transport.send(to, tag, message(bite(values, kPiece)));
  while (!values.empty());
}

/// Replaces every NaN by the same one, because operands come in either order.
float sum_of(float a, float b) {
  const float sum = a + b;
  return sum == sum ? sum : std::numeric_limits<float>::quiet_NaN();
}

/// Adds the values of a message without copying them.
void add(std::span<const std::byte> message, std::span<float> into) {
  if (message.size() != into.size_bytes())
    throw TransportError(
        fmt::format("a message of {} bytes where {} were expected", message.size(), into.size_bytes()));
  for (std::size_t i = 0; i < into.size(); ++i) {
    float value = 0;
    std::memcpy(&value, message.data() + i * sizeof value, sizeof value);
    into[i] = sum_of(into[i], value);
  }
}

void take(Transport& transport, std::uint32_t from, std::uint32_t tag, std::span<float> into, bool sums) {
  const Bytes came = transport.recv(from, tag, into.size_bytes());
  if (sums)
    add(came, into);
  else
    from_bytes<float>(came, into);
}

void take_pieces(Transport& transport, std::uint32_t from, std::uint32_t tag, std::span<float> into,
                 bool sums) {
  do take(transport, from, tag, bite(into, kPiece), sums);
  while (!into.empty());
}

/// The place of a rank in one tree.
struct Place {
  std::span<float> half;
  std::uint32_t parent = cluster::Tree::kRoot;
  std::vector<std::uint32_t> children;
};

class Trees {
 public:
  Trees(Transport& transport, const cluster::DoubleBinaryTree& trees, std::span<float> values,
        std::uint32_t tag, std::size_t piece)
      : transport_(transport), tag_(tag), piece_(piece) {
    for (std::uint32_t tree = 0; tree < 2; ++tree) {
      const std::vector<std::uint32_t>& parents = trees.trees()[tree].parent;
      Place& place = places_[tree];
      place.half = part(values, trees.half(tree));
      place.parent = parents[transport.rank()];
      for (std::uint32_t rank = 0; rank < parents.size(); ++rank)
        if (parents[rank] == transport.rank()) place.children.push_back(rank);
    }
  }

  /// Receives from the children so many pieces ahead of the parent's that neither direction waits for the
  /// other if all ranks are alike.
  void run(std::uint32_t depth) {
    const std::size_t pieces = std::max(count(places_[0]), count(places_[1]));
    const std::size_t lead = 2 * std::size_t{depth};
    for (std::size_t step = 0; step < pieces + lead; ++step) {
      for (std::uint32_t tree = 0; tree < 2; ++tree) up(tree, step);
      for (std::uint32_t tree = 0; tree < 2 && step >= lead; ++tree) down(tree, step - lead);
    }
  }

 private:
  std::size_t count(const Place& place) const { return (place.half.size() + piece_ - 1) / piece_; }
  std::span<float> piece_of(const Place& place, std::size_t index) const {
    const std::size_t begin = index * piece_;
    return place.half.subspan(begin, std::min(piece_, place.half.size() - begin));
  }
  std::uint32_t tag_of(std::uint32_t tree, bool is_up) const { return tag_ + 2 * tree + (is_up ? 0 : 1); }

  void up(std::uint32_t tree, std::size_t index) {
    const Place& place = places_[tree];
    if (index >= count(place)) return;
    const std::span<float> values = piece_of(place, index);
    for (const std::uint32_t child : place.children)
      take(transport_, child, tag_of(tree, true), values, true);
    if (place.parent != cluster::Tree::kRoot)
      transport_.send(place.parent, tag_of(tree, true), message(values));
  }

  void down(std::uint32_t tree, std::size_t index) {
    const Place& place = places_[tree];
    if (index >= count(place)) return;
    const std::span<float> values = piece_of(place, index);
    if (place.parent != cluster::Tree::kRoot)
      take(transport_, place.parent, tag_of(tree, false), values, false);
    for (const std::uint32_t child : place.children)
      transport_.send(child, tag_of(tree, false), message(values));
  }

  Transport& transport_;
  std::uint32_t tag_;
  std::size_t piece_;
  std::array<Place, 2> places_;
};

void check_shape(const Transport& transport, std::uint32_t ranks, std::int64_t values, std::size_t given) {
  if (ranks != transport.size() || values != static_cast<std::int64_t>(given))
    throw std::invalid_argument(fmt::format("a collective of {} values on {} ranks is run with {} on {}",
                                            values, ranks, given, transport.size()));
}

}  // namespace

void run_pattern(Transport& transport, const cluster::BytePattern& pattern, std::span<float> values,
                 std::uint32_t tag) {
  check_shape(transport, pattern.ranks(), pattern.bytes(), values.size());
  const std::uint32_t rank = transport.rank();
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
    const cluster::Move move = pattern.move(rank, round);
    if (move.to != Exchange::kNobody) give(transport, move.to, tag, part(values, move.out));
    if (move.from != Exchange::kNobody)
      take_pieces(transport, move.from, tag, part(values, pattern.move(move.from, round).out), move.sums);
  }
}

void run_trees(Transport& transport, const cluster::DoubleBinaryTree& trees, std::span<float> values,
               std::uint32_t tag, std::size_t piece) {
  check_shape(transport, trees.ranks(), trees.bytes(), values.size());
  if (transport.size() > 1)
    Trees(transport, trees, values, tag, std::max<std::size_t>(piece, 1))
        .run(cluster::doublings(trees.ranks()));
}

void run_collective(Transport& transport, const cluster::Collective& collective, std::span<float> values,
                    std::uint32_t tag) {
  if (const auto* trees = std::get_if<cluster::DoubleBinaryTree>(&collective))
    run_trees(transport, *trees, values, tag);
  else
    run_pattern(transport, *std::get<std::unique_ptr<const cluster::BytePattern>>(collective), values, tag);
}

void send_receive(Transport& transport, std::span<float> values, std::uint32_t tag) {
  const std::uint32_t size = transport.size();
  if (size == 1) return;
  const std::uint32_t rank = transport.rank();
  give(transport, (rank + 1) % size, tag, values);
  take_pieces(transport, (rank + size - 1) % size, tag, values, false);
}

void barrier(Transport& transport, std::uint32_t tag) {
  const std::uint32_t size = transport.size();
  const std::uint32_t rank = transport.rank();
  for (std::uint32_t distance = 1; distance < size; distance *= 2)
    (void)send_recv(transport, (rank + distance) % size, {}, (rank + size - distance) % size, tag, 0);
}

}  // namespace transport
