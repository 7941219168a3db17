// Collectives made of rings: in each round every rank sends one part to the next rank of its ring and
// receives the part before from the previous rank.

#pragma once

#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

/// Independent rings of equal size. Neighbours in a ring are `stride` ranks apart, so every size x stride
/// ranks hold `stride` rings. In round r of a ring its member k sends part k + first_part - r. If stride > 1,
/// the message is divided between the rings: the ring through rank s of the first `stride` works on part s +
/// 1, which is what the rings through these ranks have left there. Parts whose sizes differ by a byte travel
/// in messages of the larger size, as NCCL pads its chunks.
struct RingPhase {
  std::uint32_t size = 1;
  std::uint32_t stride = 1;
  std::uint32_t reducing = 0;   ///< the first rounds, which add the received data
  std::uint32_t gathering = 0;  ///< the following rounds, which only forward it
  std::uint32_t first_part = 0;

  std::uint32_t rounds() const { return reducing + gathering; }
  std::uint32_t member(std::uint32_t rank) const {
    assert(size > 0);
    return rank / stride % size;
  }
  /// Returns the part that member `member` sends in round `round`; the next member sends it one round later.
  std::uint32_t part_sent(std::uint32_t member, std::uint32_t round) const {
    assert(size > 0);
    return (member + first_part + 2 * size - round) % size;
  }
};

class Rings final : public BytePattern {
 public:
  /// The phases follow each other; `ranks` is a multiple of each phase's size x stride.
  Rings(std::uint32_t ranks, std::int64_t bytes, std::vector<RingPhase> phases);

  std::span<const RingPhase> phases() const { return phases_; }
  /// Returns the part of the message on which the ring of `rank` works.
  Stretch shared(const RingPhase& phase, std::uint32_t rank) const;

  /// Returns the size of every message of the ring of `rank`.
  std::int64_t message_bytes(const RingPhase& phase, std::uint32_t rank) const;

  std::uint32_t rounds() const override { return rounds_; }
  Move move(std::uint32_t rank, std::uint32_t round) const override;

 private:
  std::vector<RingPhase> phases_;
  std::uint32_t rounds_ = 0;
};

/// Rows of `row` neighbouring ranks: reduce-scatter along rows, all-reduce of each part along columns,
/// all-gather along rows. If rows do not divide the ranks, their greatest common divisor replaces `row`; a
/// longer row is cut to the number of ranks.
std::vector<RingPhase> grid_phases(std::uint32_t ranks, std::uint32_t row);

}  // namespace cluster
