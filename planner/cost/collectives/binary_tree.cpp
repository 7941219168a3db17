// Binary tree: reduce to the root, then broadcast; the whole message at each of 2 lg P rounds.

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto p = static_cast<double>(fabric.workers);
  const auto lg = static_cast<double>(rounds(fabric.workers));
  return {.startup_us = 2 * lg * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * lg * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = lg * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};  // each edge of the tree carries M up and M down
}

}  // namespace

AlgorithmEntry binary_tree() {
  return {"binary_tree", "reduce to a root and broadcast, 2 lg P rounds of M", cost};
}

}  // namespace planner
