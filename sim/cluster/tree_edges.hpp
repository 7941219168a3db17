// The times of the edges of a double binary tree when no other message shares their links.

#pragma once

#include <cstdint>
#include <vector>

#include "sim/cluster/flows.hpp"
#include "sim/cluster/links.hpp"
#include "sim/cluster/patterns/trees.hpp"
#include "sim/time.hpp"

namespace cluster {

/// A rank in one direction of a tree; also identifies the message between it and its parent.
struct TreePlace {
  std::uint32_t tree = 0;
  std::uint32_t rank = 0;
  bool is_up = false;
};

struct TreeEdge {
  sim::Time head{};    ///< alpha
  double body_us = 0;  ///< beta for all its bytes
};

/// Edge times of one run of a collective. Keeps references to the constructor's arguments.
class TreeEdges {
 public:
  /// `draws_from`: collective_bits() of the run.
  TreeEdges(const DoubleBinaryTree& trees, const Links& links, std::uint64_t draws_from)
      : trees_(trees), links_(links), draws_from_(draws_from) {}

  std::uint32_t from(const TreePlace& edge) const { return edge.is_up ? edge.rank : parent(edge); }
  std::uint32_t to(const TreePlace& edge) const { return edge.is_up ? parent(edge) : edge.rank; }
  /// The random factor is that of the child in round `tree` on the way up, in round 2 + `tree` on the way
  /// down.
  Factors factors(const TreePlace& edge) const;
  TreeEdge operator()(const TreePlace& edge) const;

  /// Indexed by rank: time of the bytes that it receives in both trees, with their sums on the way up.
  std::vector<double> incoming_us(bool is_up) const;
  /// Indexed by rank: the part of incoming_us() for the sums.
  std::vector<double> sums_us() const;

 private:
  double sum_us(std::uint32_t tree) const;
  std::uint32_t parent(const TreePlace& edge) const { return trees_.trees()[edge.tree].parent[edge.rank]; }

  const DoubleBinaryTree& trees_;
  const Links& links_;
  std::uint64_t draws_from_;
};

}  // namespace cluster
