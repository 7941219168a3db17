// Recursive doubling: in each of lg P rounds every worker exchanges the whole message with a partner.

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

ClosedForm cost(const Fabric& fabric, const Algorithm& /*algorithm*/) {
  const auto lg = static_cast<double>(rounds(fabric.workers));
  return {.startup_us = lg * fabric.flat.alpha_us,
          .link_us_per_byte = lg * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = lg * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = lg};
}

}  // namespace

AlgorithmEntry recursive_doubling() {
  return {"recursive_doubling", "lg P exchanges of the whole message", cost};
}

}  // namespace planner
