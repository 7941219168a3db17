// Extends algorithms for powers of two to other numbers of ranks: in an extra first round each surplus rank
// gives its data to a participating rank, and in an extra last round it gets the result.

#pragma once

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

class Paired : public BytePattern {
 public:
  Paired(std::uint32_t ranks, std::int64_t bytes);

  std::uint32_t rounds() const final;
  Move move(std::uint32_t rank, std::uint32_t round) const final;

 protected:
  /// ceil(log2 of the participating ranks); 2^levels ranks participate.
  std::uint32_t levels() const { return levels_; }

 private:
  virtual std::uint32_t paired_rounds() const = 0;
  /// As move(), for the participating ranks. They send and receive in every round.
  virtual Move paired_move(std::uint32_t rank, std::uint32_t round) const = 0;

  std::uint32_t levels_;
  std::uint32_t beyond_;  ///< ranks from 2^levels on
};

}  // namespace cluster
