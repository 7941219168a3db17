// Per-worker statistics: how iterations spread, and which workers others wait for.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/simulated.hpp"

namespace planner {

/// Summary of a distribution; percentiles are nearest ranks.
struct Spread {
  double mean_us = 0;
  double p50_us = 0;
  double p95_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

/// A worker and its mean time per iteration.
struct WorkerTime {
  std::int64_t worker = 0;
  double us = 0;
};

/// The composition of the critical path of an iteration.
struct CriticalShares {
  double computing_us = 0;      ///< compute of the workers on the path
  double communicating_us = 0;  ///< includes ticks
  double untraced_us = 0;
  std::vector<WorkerTime> workers;  ///< parts of `computing`, the longest first, at most five
  /// Parts of `communicating` by sending worker, the longest first, at most five. Empty if collectives are
  /// closed, links are shared, bytes stream through trees, or there are too many messages to examine.
  std::vector<WorkerTime> senders;
};

/// Shares of the whole run, including the first iteration.
struct Utilisation {
  double compute = 0;  ///< share of time in which workers compute or code, mean over workers
  double channel = 0;  ///< share of time in which any collective runs
  std::vector<LinkUse> links;
};

struct WorkerReport {
  Spread iteration;  ///< over workers and iterations, each between consecutive iteration ends of a worker
  Spread waiting;    ///< over workers, per iteration: time between being ready for a collective and the last
                     ///< worker being ready
  /// The workers that all others waited for, the longest time first, at most five.
  std::vector<WorkerTime> waited_for;
  Utilisation utilisation;
  std::optional<CriticalShares> critical_path;
};

/// None if all workers are alike, compute and channel slow each other down, or the channel goes by layer.
std::optional<WorkerReport> report_workers(const Setting& setting, const Simulated& simulated);

}  // namespace planner
