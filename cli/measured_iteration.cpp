#include "cli/measured_iteration.hpp"

namespace cli {

scenarios::MeasuredIteration measured_iteration(const kineto::Imported& imported,
                                                std::optional<double> waiting_us) {
  return {.iteration_us = imported.iteration_us,
          .exposed_us = imported.exposed_us,
          .buckets = imported.buckets,
          .collectives_block = imported.computes_on_host,
          .gathers = imported.gathers,
          .sharded = imported.sharded,
          .waiting_us = waiting_us};
}

}  // namespace cli
