#include "planner/cost/sparse.hpp"

#include <algorithm>
#include <vector>

namespace planner {

// To add a sparse all-reduce: write sparse/<name>.cpp and list it here.
SparseEntry topk_a();
SparseEntry topk_dsa();
SparseEntry gtopk();
SparseEntry gaussian_k();
SparseEntry ok_topk();
SparseEntry hitopk();
SparseEntry hierarchical_topk();

std::span<const SparseEntry> sparse_collectives() {
  static const std::vector<SparseEntry> all = {topk_a(), topk_dsa(),         gtopk(), gaussian_k(), ok_topk(),
                                               hitopk(), hierarchical_topk()};
  return all;
}

const SparseEntry* find_sparse(std::string_view name) {
  const auto all = sparse_collectives();
  const auto found = std::ranges::find(all, name, &SparseEntry::name);
  return found == all.end() ? nullptr : &*found;
}

namespace {

/// 1 - (1 - share)^times by repeated doubling, without cancellation for small shares and without pow().
double any_of_independent(double share, std::int64_t times) {
  const auto either = [](double a, double b) { return a + b - a * b; };
  double out = 0;
  for (; times > 0; times /= 2) {
    if (times % 2 == 1) out = either(out, share);
    share = either(share, share);
  }
  return std::min(out, 1.0);
}

}  // namespace

double fill_in(double density, std::int64_t workers, double overlap) {
  const double common = overlap * density;
  if (common >= 1) return 1;
  const double own = (density - common) / (1 - common);  // among the remaining elements
  return std::min(1.0, common + (1 - common) * any_of_independent(own, workers));
}

double Traffic::us(const core::Link& link) const {
  return messages * link.alpha_us + bytes * link.beta_us_per_byte;
}

double Traffic::us_per_byte(const core::Link& link) const {
  return bytes_per_byte * link.beta_us_per_byte + summed_per_byte * link.gamma_us_per_byte;
}

SparseCost cost_of(const SparseCall& call, const Fabric& fabric) {
  SparseCost out = {.startup_us = call.flat.us(fabric.flat),
                    .us_per_byte = call.flat.us_per_byte(fabric.flat),
                    .sent_bytes = call.sent_bytes,
                    .sent_per_byte = call.sent_per_byte};
  if (!fabric.nodes) return out;
  const Fabric::Nodes& nodes = *fabric.nodes;
  out.startup_us += call.inside.us(nodes.inside) + call.between.us(nodes.between);
  out.us_per_byte += call.inside.us_per_byte(nodes.inside) + call.between.us_per_byte(nodes.between);
  return out;
}

}  // namespace planner
