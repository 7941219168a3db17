#include "sim/cluster/patterns/rings.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

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

}  // namespace cluster
