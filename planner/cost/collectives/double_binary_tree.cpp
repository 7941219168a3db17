// Double binary tree: two pipelined trees, each carrying half of the message (NCCL's tree).

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& algorithm) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * static_cast<double>(rounds(fabric.workers)) * fabric.flat.alpha_us,
          .link_us_per_byte = algorithm.bandwidth_factor * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};
}

}  // namespace

AlgorithmEntry double_binary_tree() {
  return {"double_binary_tree", "two pipelined trees of half the message each", cost};
}

}  // namespace planner
