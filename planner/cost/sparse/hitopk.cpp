// HiTopKComm (Shi et al., MLSys 2021, equations 7 to 10): ring reduce-scatter in each node of n, selection
// from d/n, all-gather of the selections between m nodes, all-gather of their sums in each node. Message
// counts are the paper's, log m and log n, although collectives/sparse/hitopk.hpp gathers on rings; byte
// counts are those of the implementation.

#include <algorithm>

#include "planner/cost/sparse/selections.hpp"

namespace planner {
namespace {

constexpr std::string_view kKeys[] = {"overlap", "paper_bytes"};

SparseCalls calls(const Fabric& fabric, double density, const SparseOptions& options) {
  const Fabric::Nodes& nodes = *fabric.nodes;
  const auto n = static_cast<double>(nodes.workers_in_node);
  const auto m = static_cast<double>(nodes.nodes);
  const double element = options.paper_bytes ? 1 : selections::kIndexAndValue;
  // Without an overlap, nodes select disjoint elements as long as there are enough.
  const double filled =
      options.overlap ? fill_in(density, nodes.nodes, *options.overlap) : std::min(1.0, density * m);
  const double dense = (n - 1) / n;
  const double between = element * density * (m - 1) / n;
  const double gathered = (n - 1) / n * element * filled;
  const double links_shared_by = nodes.between_is_shared ? n : 1;
  return {.usual = {.inside = {.messages = n - 1 + static_cast<double>(rounds(nodes.workers_in_node)),
                               .bytes_per_byte = dense + gathered,
                               .summed_per_byte = dense},
                    .between = {.messages = static_cast<double>(rounds(nodes.nodes)),
                                .bytes_per_byte = between * links_shared_by},
                    .sent_per_byte = dense + between + gathered},
          .selects_from = 1 / n};
}

SparseEntry named(std::string_view name, std::string_view summary) {
  constexpr int kSamplings = 30;
  return {.name = name,
          .summary = summary,
          .calls = calls,
          .selection = selections::passes(kSamplings),
          .source = "as the built-in mstopk's (estimated), of a worker's share of the node's sum",
          .selector = "mstopk",
          .option_keys = kKeys,
          .needs_nodes = true};
}

}  // namespace

SparseEntry hitopk() { return named("hitopk", "HiTopKComm: dense in a node, top-k between nodes"); }

SparseEntry hierarchical_topk() {
  SparseEntry out = named("hierarchical_topk", "another name of hitopk");
  out.is_alias = true;
  return out;
}

}  // namespace planner
