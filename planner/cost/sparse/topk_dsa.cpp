// TopkDSA (SparCML): each worker sums its part of all selections, which are sent directly; the sums are
// gathered on a ring. A part with more than 2/3 nonzero elements is sent dense. Each message has one
// additional word that states its format.

#include "planner/cost/sparse/selections.hpp"

namespace planner {
namespace {

constexpr std::string_view kKeys[] = {"overlap"};
constexpr double kFormBytes = 4;

bool travels_dense(double density) { return density > 2.0 / 3; }

double part_bytes(double density) {
  return travels_dense(density) ? 1 : selections::kIndexAndValue * density;
}

SparseCalls calls(const Fabric& fabric, double density, const SparseOptions& options) {
  const auto p = static_cast<double>(fabric.workers);
  const double others = (p - 1) / p;
  const double filled = fill_in(density, fabric.workers, options.overlap.value_or(0));
  const Traffic traffic = {.messages = 2 * (p - 1),
                           .bytes = 2 * (p - 1) * kFormBytes,
                           .bytes_per_byte = others * (part_bytes(density) + part_bytes(filled)),
                           .summed_per_byte = travels_dense(density) ? others : 0};
  return {.usual = {.flat = traffic, .sent_bytes = traffic.bytes, .sent_per_byte = traffic.bytes_per_byte}};
}

}  // namespace

SparseEntry topk_dsa() {
  return {
      .name = "topk-dsa",
      .summary = "reduce-scatter of each worker's top-k and all-gather of what it fills, dense beyond 2/3",
      .calls = calls,
      .selection = selections::exact(),
      .source = selections::kExactSource,
      .option_keys = kKeys};
}

}  // namespace planner
