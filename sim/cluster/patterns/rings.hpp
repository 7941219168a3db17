// Collectives made of rings: in each round every rank sends a part of what its ring works on to the next rank
// of the ring, and gets the part before from the one before.

#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

/// Rings of alike sizes side by side, each for itself. Neighbours in a ring are `stride` ranks apart, so
/// every size x stride ranks hold `stride` rings. In a ring's round r its member k sends part k + first_part
/// - r. Where stride > 1 the message is shared out between the rings: the one through rank s of the first
/// `stride` works on part s + 1, which is what rings through these ranks have left there.
struct RingPhase {
  std::uint32_t size = 1;
  std::uint32_t stride = 1;
  std::uint32_t reducing = 0;   ///< rounds that add what comes in; the first ones
  std::uint32_t gathering = 0;  ///< rounds that only pass it on
  std::uint32_t first_part = 0;

  std::uint32_t rounds() const { return reducing + gathering; }
  std::uint32_t member(std::uint32_t rank) const {
    assert(size > 0);
    return rank / stride % size;
  }
  /// That member `member` sends in round `round`; one round later it is what the next member sends.
  std::uint32_t part_sent(std::uint32_t member, std::uint32_t round) const {
    assert(size > 0);
    return (member + first_part + 2 * size - round) % size;
  }
};

class Rings final : public BytePattern {
 public:
  /// The phases follow each other; `ranks` is a multiple of each one's size x stride.
  Rings(std::uint32_t ranks, std::int64_t bytes, std::vector<RingPhase> phases);

  std::span<const RingPhase> phases() const { return phases_; }
  /// What the ring that `rank` is in works on.
  Stretch shared(const RingPhase& phase, std::uint32_t rank) const;

  std::uint32_t rounds() const override { return rounds_; }
  Move move(std::uint32_t rank, std::uint32_t round) const override;

 private:
  std::vector<RingPhase> phases_;
  std::uint32_t rounds_ = 0;
};

/// Rows of `row` neighbouring ranks: reduce-scatter along rows, all-reduce of each part along columns,
/// all-gather along rows. Where rows do not divide the ranks their greatest common divisor stands for `row`;
/// a row longer than all ranks ends with them.
std::vector<RingPhase> grid_phases(std::uint32_t ranks, std::uint32_t row);

}  // namespace cluster
