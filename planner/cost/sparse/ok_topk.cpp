// Ok-Topk (Li and Hoefler, PPoPP 2022) as implemented in collectives/sparse/ok_topk.hpp, with balanced
// regions and shares: split sends 2k (P-1)/P words in P-1 messages; the sizes of shares take P-1 words and
// gather 2k (P-1)/P words, in ceil(log2 P) rounds each. The bound adds balancing, another 2k (P-1)/P words in
// P-1 messages. Iterations that recompute thresholds gather all sums, as many as the selections fill in.
// Regions come from a ring all-reduce of P-1 numbers of two words.

#include <algorithm>

#include "planner/cost/sparse/selections.hpp"

namespace planner {
namespace {

constexpr std::string_view kKeys[] = {
    "overlap", "recompute_every", "repartition_every", "recompute_selection", "unamortized", "volume"};

/// The traffic of a call that gathers the share `gathered` of the gradient's elements.
SparseCall call(const Fabric& fabric, double density, double gathered, bool balances) {
  const auto p = static_cast<double>(fabric.workers);
  const auto lg = static_cast<double>(rounds(fabric.workers));
  const double elements = density + gathered + (balances ? density : 0);
  const Traffic traffic = {.messages = (p - 1) + 2 * lg + (balances ? p - 1 : 0),
                           .bytes = 4 * (p - 1),
                           .bytes_per_byte = (p - 1) / p * selections::kIndexAndValue * elements};
  return {.flat = traffic, .sent_bytes = traffic.bytes, .sent_per_byte = traffic.bytes_per_byte};
}

SparseCall repartitioning(const Fabric& fabric) {
  const auto p = static_cast<double>(fabric.workers);
  const double bytes = 2 * (p - 1) / p * 8 * (p - 1);
  return {.flat = {.messages = 2 * (p - 1), .bytes = bytes}, .sent_bytes = bytes};
}

SparseCalls calls(const Fabric& fabric, double density, const SparseOptions& options) {
  const double filled = options.bound ? std::min(1.0, static_cast<double>(fabric.workers) * density)
                                      : fill_in(density, fabric.workers, options.overlap.value_or(0));
  return {.usual = call(fabric, density, density, options.bound),
          .recomputing = call(fabric, density, filled, false),
          .repartitioning = repartitioning(fabric)};
}

}  // namespace

SparseEntry ok_topk() {
  return {.name = "ok-topk",
          .summary = "Ok-Topk: top-k of the summed top-k, by thresholds that are reused, under 6k words",
          .calls = calls,
          .selection = selections::passes(2),  // one pass over the gradient and one over the sums, which are
                                               // at most as long
          .source =
              "estimated, not measured: two passes at 900 GB/s (V100) and 5 us a launch; where "
              "thresholds are recomputed as CommLib's exact top-k",
          .selector = "threshold",
          .recompute_selection = selections::exact(),
          .option_keys = kKeys};
}

}  // namespace planner
