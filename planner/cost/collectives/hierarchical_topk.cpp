// HiTopKComm (Shi et al., MLSys 2021, equations 7, 9 and 10) as an all-reduce, with the traffic of the sparse
// all-reduce hitopk. Selection is compute; only the compressor of that name accounts for it.

#include "planner/cost/collectives.hpp"
#include "planner/cost/sparse.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& algorithm) {
  const SparseCall call =
      find_sparse("hitopk")->calls(fabric, algorithm.density, {.paper_bytes = algorithm.paper_bytes}).usual;
  const Fabric::Nodes& nodes = *fabric.nodes;
  return {.startup_us = call.inside.us(nodes.inside) + call.between.us(nodes.between),
          .link_us_per_byte = call.inside.bytes_per_byte * nodes.inside.beta_us_per_byte +
                              call.between.bytes_per_byte * nodes.between.beta_us_per_byte,
          .sum_us_per_byte = call.inside.summed_per_byte * nodes.inside.gamma_us_per_byte +
                             call.between.summed_per_byte * nodes.between.gamma_us_per_byte,
          .sent_per_byte = call.sent_per_byte};
}

}  // namespace

AlgorithmEntry hierarchical_topk_all_reduce() {
  return {.name = "hierarchical_topk",
          .summary = "HiTopKComm: dense in a node, top-k between nodes",
          .cost = cost,
          .needs_nodes = true,
          .has_halves = false};
}

}  // namespace planner
