// All-reduce along two trees, each for half of the message (trees.hpp).

#include "sim/cluster/patterns/entry.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) { return DoubleBinaryTree(shape.ranks, shape.bytes); }

}  // namespace

PatternEntry double_binary_tree() {
  return {.name = "double_binary_tree", .outcome = Outcome::all_reduce, .make = make};
}

}  // namespace cluster
