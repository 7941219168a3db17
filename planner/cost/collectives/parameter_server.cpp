// Parameter servers, each on its own link and with its share of every tensor: all workers push to all servers
// at once, then pull (MG-WFBP, section 4.3, where each direction is a startup and a time per byte).

#include <algorithm>

#include "planner/cost/collectives.hpp"

namespace planner {
namespace {

/// In each direction P messages of M/S bytes cross a server's link, or M bytes cross a worker's link if that
/// is more; a server sums P-1 messages into the first.
ClosedForm cost(const Fabric& fabric, const Algorithm& algorithm) {
  const auto p = static_cast<double>(fabric.workers);
  const auto servers = static_cast<double>(algorithm.servers);
  return {.startup_us = 2 * fabric.flat.alpha_us,
          .link_us_per_byte = 2 * std::max(1.0, p / servers) * fabric.flat.beta_us_per_byte,
          .sum_us_per_byte = (p - 1) / servers * fabric.flat.gamma_us_per_byte,
          .sent_per_byte = 1};
}

}  // namespace

AlgorithmEntry parameter_servers() {
  return {"parameter_server", "to `servers` (1) machines beside the workers and back", cost};
}

}  // namespace planner
