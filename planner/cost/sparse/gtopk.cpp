// gTopk: selections are summed up a binary tree to one worker, which receives k elements and selects again
// ceil(log2 P) times, and sends its result down again: 4k ceil(log2 P) words. Repeated selection is not
// counted.

#include "planner/cost/sparse/selections.hpp"

namespace planner {
namespace {

SparseCalls calls(const Fabric& fabric, double density, const SparseOptions& /*options*/) {
  const auto p = static_cast<double>(fabric.workers);
  const double kept = selections::kIndexAndValue * density;
  const double messages = 2 * static_cast<double>(rounds(fabric.workers));
  return {.usual = {.flat = {.messages = messages, .bytes_per_byte = messages * kept},
                    .sent_per_byte = 2 * (p - 1) / p * kept}};
}

}  // namespace

SparseEntry gtopk() {
  return {.name = "gtopk",
          .summary = "top-k of the sums up a tree and down again",
          .calls = calls,
          .selection = selections::exact(),
          .source = selections::kExactSource};
}

}  // namespace planner
