// What algorithms for powers of two do with the ranks beyond: a round before, in which each of these gives
// what it has to a rank that takes part, and a round after, in which it gets the result.

#pragma once

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

class Paired : public BytePattern {
 public:
  Paired(std::uint32_t ranks, std::int64_t bytes);

  std::uint32_t rounds() const final;
  Move move(std::uint32_t rank, std::uint32_t round) const final;

 protected:
  /// ceil(log2 of the ranks that take part), all 2^levels of them.
  std::uint32_t levels() const { return levels_; }

 private:
  virtual std::uint32_t paired_rounds() const = 0;
  /// As move(), for the ranks that take part. They send and receive in every round.
  virtual Move paired_move(std::uint32_t rank, std::uint32_t round) const = 0;

  std::uint32_t levels_;
  std::uint32_t beyond_;  ///< ranks from 2^levels on
};

}  // namespace cluster
