// The steps of the double binary tree.

#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "sim/cluster/steps.hpp"
#include "sim/cluster/tree_edges.hpp"

namespace cluster {
namespace {

using sim::Time;

/// When the first bytes have arrived at a rank, and when all have.
struct Arrival {
  Time head{};
  Time tail{};
};

using ByTree = std::array<std::vector<Arrival>, 2>;

class TreeRun {
 public:
  TreeRun(const DoubleBinaryTree& trees, const Links& links, std::uint64_t collective, unsigned shift)
      : trees_(trees), edges_(trees, links, collective_bits(links, collective)), shift_(shift) {}

  ByTree up(std::span<const Time> starts) const;
  ByTree down(const ByTree& up) const;
  std::vector<Time> leave(const ByTree& down) const;

 private:
  const DoubleBinaryTree& trees_;
  TreeEdges edges_;
  unsigned shift_;
};

/// Sums up: returns when each rank has both halves, including those of its children.
ByTree TreeRun::up(std::span<const Time> starts) const {
  const std::vector<double> incoming = edges_.incoming_us(true);
  ByTree out;
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    std::vector<Arrival>& at = out[tree];
    for (const Time start : starts) at.push_back({.head = start, .tail = start});
    const Tree& edges = trees_.trees()[tree];
    std::vector<bool> receives(starts.size());
    for (auto rank = edges.order.rbegin(); rank != edges.order.rend(); ++rank) {
      Arrival& own = at[*rank];
      if (receives[*rank])
        own.tail = std::max(own.tail, sim::after(own.head, scaled(sim::from_us(incoming[*rank]), shift_)));
      const std::uint32_t parent = edges.parent[*rank];
      if (parent == Tree::kRoot) continue;
      const Time head = scaled(edges_({.tree = tree, .rank = *rank, .is_up = true}).head, shift_);
      receives[parent] = true;
      at[parent].head = std::max(at[parent].head, sim::after(own.head, head));
      at[parent].tail = std::max(at[parent].tail, sim::after(own.tail, head));
    }
  }
  return out;
}

/// Spreads the sums, which a root has only when all of its bytes have arrived.
ByTree TreeRun::down(const ByTree& up) const {
  const std::vector<double> incoming = edges_.incoming_us(false);
  ByTree out = up;
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const Tree& edges = trees_.trees()[tree];
    for (const std::uint32_t rank : edges.order) {
      Arrival& own = out[tree][rank];
      const std::uint32_t parent = edges.parent[rank];
      if (parent == Tree::kRoot) {
        own.head = own.tail;
        continue;
      }
      const Time head = scaled(edges_({.tree = tree, .rank = rank, .is_up = false}).head, shift_);
      own.head = sim::after(out[tree][parent].head, head);
      own.tail = std::max(sim::after(out[tree][parent].tail, head),
                          sim::after(own.head, scaled(sim::from_us(incoming[rank]), shift_)));
    }
  }
  return out;
}

std::vector<Time> TreeRun::leave(const ByTree& down) const {
  std::vector<Time> out(trees_.ranks());
  for (std::uint32_t tree = 0; tree < 2; ++tree)
    for (std::uint32_t rank = 0; rank < trees_.ranks(); ++rank) {
      const Time there = down[tree][rank].tail;
      const std::uint32_t parent = trees_.trees()[tree].parent[rank];
      out[rank] = std::max(out[rank], there);
      if (parent != Tree::kRoot) out[parent] = std::max(out[parent], there);
    }
  return out;
}

}  // namespace

void run_steps(const DoubleBinaryTree& trees, const Links& links, std::uint64_t collective,
               std::span<Time> times, unsigned shift) {
  assert(times.size() == trees.ranks());
  const TreeRun run(trees, links, collective, shift);
  std::ranges::copy(run.leave(run.down(run.up(times))), times.begin());
}

}  // namespace cluster
