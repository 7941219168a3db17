// Ring: reduce-scatter around the ring, then all-gather; 2(P-1) rounds of M/P bytes.

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * (p - 1) * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * (p - 1) / p * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = (p - 1) / p * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};
}

}  // namespace

AlgorithmEntry ring() { return {"ring", "2(P-1) rounds of M/P bytes", cost}; }

}  // namespace planner
