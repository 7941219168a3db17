// Halving-doubling (Rabenseifner): reduce-scatter by halving, all-gather by doubling; 2 lg P rounds.

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto p = static_cast<double>(fabric.workers);
  return {.startup_us = 2 * static_cast<double>(rounds(fabric.workers)) * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * (p - 1) / p * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = (p - 1) / p * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 2 * (p - 1) / p};
}

}  // namespace

AlgorithmEntry halving_doubling() {
  return {"halving_doubling", "reduce-scatter by halving, all-gather by doubling", cost};
}

}  // namespace planner
