#include "sim/cluster/tree_edges.hpp"

#include "sim/draws.hpp"

namespace cluster {

Factors TreeEdges::factors(const TreePlace& edge) const {
  Factors out = {.slowdown = links_.slowdown.empty() ? 1 : links_.slowdown[from(edge)]};
  if (links_.sigma > 0) {
    const std::uint32_t round = (edge.is_up ? 0 : 2) + edge.tree;
    out.draw = sim::lognormal_mean_one(message_bits(draws_from_, round, edge.rank), links_.sigma);
  }
  return out;
}

TreeEdge TreeEdges::operator()(const TreePlace& edge) const {
  const LinkCost& link = links_.between(from(edge), to(edge));
  const Factors both = factors(edge);
  const double factor = both.slowdown * both.draw;
  return {.head = sim::from_us(link.startup_us * factor),
          .body_us = static_cast<double>(trees_.half(edge.tree).size()) * link.us_per_byte * factor};
}

double TreeEdges::sum_us(std::uint32_t tree) const {
  return static_cast<double>(trees_.half(tree).size()) * links_.sum_us_per_byte;
}

std::vector<double> TreeEdges::incoming_us(bool is_up) const {
  std::vector<double> out(trees_.ranks());
  for (std::uint32_t tree = 0; tree < 2; ++tree)
    for (const std::uint32_t rank : trees_.trees()[tree].order) {
      const TreePlace edge = {.tree = tree, .rank = rank, .is_up = is_up};
      if (parent(edge) != Tree::kRoot) out[to(edge)] += (*this)(edge).body_us + (is_up ? sum_us(tree) : 0);
    }
  return out;
}

std::vector<double> TreeEdges::sums_us() const {
  std::vector<double> out(trees_.ranks());
  for (std::uint32_t tree = 0; tree < 2; ++tree)
    for (const std::uint32_t parent : trees_.trees()[tree].parent)
      if (parent != Tree::kRoot) out[parent] += sum_us(tree);
  return out;
}

}  // namespace cluster
