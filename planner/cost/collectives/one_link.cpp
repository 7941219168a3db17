// Algorithms that go over one link, with M bytes on P workers.

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

double lg(const Fabric& fabric) { return static_cast<double>(rounds(fabric.workers)); }

/// Reduce-scatter around the ring, then all-gather.
ClosedForm ring_cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * (p - 1) * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * (p - 1) / p * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = (p - 1) / p * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};
}

ClosedForm binary_tree_cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * lg(fabric) * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * lg(fabric) * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = lg(fabric) * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};  // each edge of the tree carries M up and M down
}

ClosedForm recursive_doubling_cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  return {.startup_us = lg(fabric) * fabric.flat.alpha_us,
          .link_us_per_byte = lg(fabric) * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = lg(fabric) * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = lg(fabric)};
}

/// Rabenseifner's, in 2 lg P rounds.
ClosedForm halving_doubling_cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * lg(fabric) * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * (p - 1) / p * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = (p - 1) / p * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};
}

/// NCCL's tree.
ClosedForm double_binary_tree_cost(const Fabric& fabric, const Algorithm& algorithm) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * lg(fabric) * fabric.flat.alpha_us,
          .link_us_per_byte = algorithm.bandwidth_factor * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};
}

}  // namespace

AlgorithmEntry ring() { return {"ring", "2(P-1) rounds of M/P bytes", ring_cost}; }
AlgorithmEntry binary_tree() {
  return {"binary_tree", "reduce to a root and broadcast, 2 lg P rounds of M", binary_tree_cost};
}
AlgorithmEntry recursive_doubling() {
  return {"recursive_doubling", "lg P exchanges of the whole message", recursive_doubling_cost};
}
AlgorithmEntry halving_doubling() {
  return {"halving_doubling", "reduce-scatter by halving, all-gather by doubling", halving_doubling_cost};
}
AlgorithmEntry double_binary_tree() {
  return {"double_binary_tree", "two pipelined trees of half the message each", double_binary_tree_cost};
}

}  // namespace planner
