#include "sim/cluster/patterns/rings.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "sim/cluster/patterns/entry.hpp"

namespace cluster {

Rings::Rings(std::uint32_t ranks, std::int64_t bytes, std::vector<RingPhase> phases)
    : BytePattern(ranks, bytes), phases_(std::move(phases)) {
  for (const RingPhase& phase : phases_) {
    assert(ranks % (phase.size * phase.stride) == 0);
    rounds_ += phase.rounds();
  }
}

Stretch Rings::shared(const RingPhase& phase, std::uint32_t rank) const {
  return part_of(whole(), phase.stride, (rank + 1) % phase.stride);
}

std::int64_t Rings::message_bytes(const RingPhase& phase, std::uint32_t rank) const {
  return (shared(phase, rank).size() + phase.size - 1) / phase.size;
}

Move Rings::move(std::uint32_t rank, std::uint32_t round) const {
  const RingPhase* phase = phases_.data();
  while (round >= phase->rounds()) round -= (phase++)->rounds();
  const std::uint32_t member = phase->member(rank);
  const std::uint32_t first = rank - member * phase->stride;
  const auto neighbour = [&](std::uint32_t of) { return first + of % phase->size * phase->stride; };
  const Stretch out = part_of(shared(*phase, rank), phase->size, phase->part_sent(member, round));
  return {.to = neighbour(member + 1),
          .from = neighbour(member + phase->size - 1),
          .out = out,
          .sums = round < phase->reducing,
          .padding = message_bytes(*phase, rank) - out.size()};
}

std::vector<RingPhase> grid_phases(std::uint32_t ranks, std::uint32_t row) {
  const std::uint32_t columns = row >= ranks ? ranks : std::gcd(ranks, row);
  const std::uint32_t rows = ranks / columns;
  return {{.size = columns, .stride = 1, .reducing = columns - 1},
          {.size = rows, .stride = columns, .reducing = rows - 1, .gathering = rows - 1},
          {.size = columns, .stride = 1, .gathering = columns - 1, .first_part = 1}};
}

namespace {

Collective once_around(const Shape& shape, RingPhase phase) {
  phase.size = shape.ranks;
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::vector{phase});
}

Collective make_grid(const Shape& shape) {
  return std::make_unique<Rings>(shape.ranks, shape.bytes, grid_phases(shape.ranks, shape.ranks_per_node));
}

}  // namespace

/// Patarasuk and Yuan 2009: every part goes once around the ring to be summed, then once more to be spread.
PatternEntry ring() {
  return {.name = "ring", .outcome = Outcome::all_reduce, .make = [](const Shape& shape) {
            return once_around(shape, {.reducing = shape.ranks - 1, .gathering = shape.ranks - 1});
          }};
}

/// The first half of a ring all-reduce, started one part earlier: rank r ends with the sum of part r.
PatternEntry reduce_scatter() {
  return {.name = "reduce_scatter", .outcome = Outcome::reduce_scatter, .make = [](const Shape& shape) {
            return once_around(shape, {.reducing = shape.ranks - 1, .first_part = shape.ranks - 1});
          }};
}

/// The second half: rank r has part r and forwards each part that it receives.
PatternEntry all_gather() {
  return {.name = "all_gather", .outcome = Outcome::all_gather, .make = [](const Shape& shape) {
            return once_around(shape, {.gathering = shape.ranks - 1});
          }};
}

/// A rank sends only its row's share of the bytes to other rows: rows are those of a torus, whose links along
/// rows and columns may be equal, or the nodes of two_level (2DTAR).
PatternEntry torus() { return {.name = "torus", .outcome = Outcome::all_reduce, .make = make_grid}; }
PatternEntry two_level() { return {.name = "two_level", .outcome = Outcome::all_reduce, .make = make_grid}; }

}  // namespace cluster
