// All-reduce along two trees, each for half of the message, in which bytes are passed on as they come
// (Sanders, Speck and Traeff 2009): not rounds, so not a Pattern.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

/// Each rank's parent and all ranks, parents before their children.
struct Tree {
  static constexpr std::uint32_t kRoot = Exchange::kNobody;

  std::vector<std::uint32_t> parent;  ///< by rank; kRoot: none
  std::vector<std::uint32_t> order;
};

class DoubleBinaryTree {
 public:
  DoubleBinaryTree(std::uint32_t ranks, std::int64_t bytes);

  std::uint32_t ranks() const { return ranks_; }
  std::int64_t bytes() const { return bytes_; }
  /// Each ceil(log2 ranks) deep. A rank has at most two children in both together: of an even number of ranks
  /// each has them in one tree alone, of an odd number rank 0 has one in either (as NCCL's trees).
  const std::array<Tree, 2>& trees() const { return trees_; }
  /// What goes through each of them.
  Stretch half(std::uint32_t tree) const { return part_of({.begin = 0, .end = bytes_}, 2, tree); }

 private:
  std::uint32_t ranks_;
  std::int64_t bytes_;
  std::array<Tree, 2> trees_;
};

}  // namespace cluster
