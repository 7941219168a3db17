// All-reduce along two trees, each for half of the message, in which bytes are forwarded as they arrive
// (Sanders, Speck and Traeff 2009). There are no rounds, so it is not a Pattern.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cluster/patterns/byte_pattern.hpp"

namespace cluster {

/// Each rank's parent, and the order of all ranks with parents before their children.
struct Tree {
  static constexpr std::uint32_t kRoot = Exchange::kNobody;

  std::vector<std::uint32_t> parent;  ///< indexed by rank; kRoot: none
  std::vector<std::uint32_t> order;
};

class DoubleBinaryTree {
 public:
  DoubleBinaryTree(std::uint32_t ranks, std::int64_t bytes);

  std::uint32_t ranks() const { return ranks_; }
  std::int64_t bytes() const { return bytes_; }
  /// Each tree is ceil(log2 ranks) deep. A rank has at most two children in both trees together: with an even
  /// number of ranks all are in one tree, with an odd number rank 0 has one child in each (as in NCCL).
  const std::array<Tree, 2>& trees() const { return trees_; }
  /// The part of the message that goes through a tree.
  Stretch half(std::uint32_t tree) const { return part_of({.begin = 0, .end = bytes_}, 2, tree); }

 private:
  std::uint32_t ranks_;
  std::int64_t bytes_;
  std::array<Tree, 2> trees_;
};

}  // namespace cluster
