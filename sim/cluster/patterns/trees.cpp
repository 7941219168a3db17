#include "sim/cluster/patterns/trees.hpp"

#include <bit>

namespace cluster {
namespace {

/// A range of ranks that is still to be attached under `parent`.
struct Rest {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t parent = Tree::kRoot;
};

/// Ranks are numbered from left to right. The inner ranks are first + 1, first + 3, ..., each with two
/// children, except the last one of an even number, which has one.
void hang(Tree& tree, const Rest& all) {
  std::vector<Rest> waiting = {all};
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    const Rest rest = waiting[i];
    if (rest.count == 0) continue;
    const std::uint32_t left = std::bit_floor(rest.count) - 1;
    const std::uint32_t top = rest.first + left;
    tree.parent[top] = rest.parent;
    tree.order.push_back(top);
    waiting.push_back({.first = rest.first, .count = left, .parent = top});
    waiting.push_back({.first = top + 1, .count = rest.count - 1 - left, .parent = top});
  }
}

/// Rank 0 is above all others, so that the inner ranks are the even ones.
Tree first_tree(std::uint32_t ranks) {
  Tree tree = {.parent = std::vector<std::uint32_t>(ranks, Tree::kRoot), .order = {0}};
  hang(tree, {.first = 1, .count = ranks - 1, .parent = 0});
  return tree;
}

/// Mirrors the ranks, or shifts them if there is a middle one, so that inner ranks become leaves.
Tree second_tree(const Tree& first) {
  const auto ranks = static_cast<std::uint32_t>(first.parent.size());
  const auto moved = [&](std::uint32_t rank) {
    return ranks % 2 == 0 ? ranks - 1 - rank : (rank + 1) % ranks;
  };
  Tree out = first;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    const std::uint32_t parent = first.parent[i];
    out.parent[moved(i)] = parent == Tree::kRoot ? Tree::kRoot : moved(parent);
    out.order[i] = moved(first.order[i]);
  }
  return out;
}

}  // namespace

DoubleBinaryTree::DoubleBinaryTree(std::uint32_t ranks, std::int64_t bytes) : ranks_(ranks), bytes_(bytes) {
  trees_[0] = first_tree(ranks);
  trees_[1] = second_tree(trees_[0]);
}

}  // namespace cluster
