// Two-level (2DTAR): reduce-scatter inside each node, ring all-reduce of the shards between nodes, all-gather
// inside.

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const Fabric::Nodes& nodes = *fabric.nodes;
  const auto n = static_cast<double>(nodes.workers_in_node);
  const auto m = static_cast<double>(nodes.nodes);
  const double inside = (n - 1) / n;           // share of M in each of the two steps inside a node
  const double between = 2 * (m - 1) / m / n;  // share of M for each of a node's n workers
  const double links_shared_by = nodes.between_is_shared ? n : 1;
  return {.startup_us = 2 * (n - 1) * nodes.inside.alpha_us + 2 * (m - 1) * nodes.between.alpha_us,
          .link_us_per_byte = 2 * inside * nodes.inside.beta_us_per_byte +
                              between * links_shared_by * nodes.between.beta_us_per_byte,
          .sum_us_per_byte =
              inside * nodes.inside.gamma_us_per_byte + between / 2 * nodes.between.gamma_us_per_byte,
          .sent_per_byte = 2 * inside + between};
}

}  // namespace

AlgorithmEntry two_level() {
  return {"two_level", "reduce-scatter in a node, all-reduce between, all-gather in a node", cost, true};
}

}  // namespace planner
