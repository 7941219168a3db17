// Compression between nodes only: a ring reduce-scatter in each node of n workers; for each worker's n-th
// part, with the workers at the same index in the m nodes, a ring all-gather of encodings or, if these can be
// summed, a ring all-reduce; then a ring all-gather of the dense parts inside the node. The implementation is
// collectives/sparse/between_nodes.hpp.

#include "planner/cost/sparse.hpp"

namespace planner {

SparseCall between_nodes(const Fabric& fabric, double ratio, bool gathers) {
  const Fabric::Nodes& nodes = *fabric.nodes;
  const auto n = static_cast<double>(nodes.workers_in_node);
  const auto m = static_cast<double>(nodes.nodes);
  const double inside = (n - 1) / n;  // share of the gradient in each of the two steps inside a node
  const double between = ratio / n * (gathers ? m - 1 : 2 * (m - 1) / m);
  const double links_shared_by = nodes.between_is_shared ? n : 1;
  return {.flat = {},
          .inside = {.messages = 2 * (n - 1), .bytes_per_byte = 2 * inside, .summed_per_byte = inside},
          .between = {.messages = gathers ? m - 1 : 2 * (m - 1),
                      .bytes_per_byte = between * links_shared_by,
                      .summed_per_byte = gathers ? 0 : between / 2},
          .sent_per_byte = 2 * inside + between};
}

}  // namespace planner
