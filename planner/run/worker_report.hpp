// What it comes to that workers differ: how iterations spread, and who waits for whom.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/simulated.hpp"

namespace planner {

/// Percentiles are nearest ranks.
struct Spread {
  double mean_us = 0;
  double p50_us = 0;
  double p95_us = 0;
  double p99_us = 0;
  double max_us = 0;
};

/// In an iteration, mean.
struct WorkerTime {
  std::int64_t worker = 0;
  double us = 0;
};

/// Of an iteration's length: what the chain that decides it is made of.
struct CriticalShares {
  double computing_us = 0;      ///< of whichever worker was waited for
  double communicating_us = 0;  ///< ticks included
  double untraced_us = 0;
  std::vector<WorkerTime> workers;  ///< of computing, the longest first, five at most
  /// Of communicating, whose messages, likewise; none where collectives are closed, links are shared, bytes
  /// stream through trees, or messages are too many to look at.
  std::vector<WorkerTime> senders;
};

/// Shares of all of a run, the first iteration included.
struct Utilisation {
  double compute = 0;  ///< that workers compute or code, mean
  double channel = 0;  ///< that any collective runs
  std::vector<LinkUse> links;
};

struct WorkerReport {
  Spread iteration;  ///< over workers and iterations, each from one of the worker's ends to its next
  Spread waiting;    ///< over workers, in an iteration: ready for a collective before the last one was
  /// The workers that the others waited for, all of them together, the longest first, five at most.
  std::vector<WorkerTime> waited_for;
  Utilisation utilisation;
  std::optional<CriticalShares> critical_path;
};

/// None where all workers are alike, compute and channel slow each other, or the channel goes by layer.
std::optional<WorkerReport> report_workers(const Setting& setting, const Simulated& simulated);

}  // namespace planner
