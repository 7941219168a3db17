// Every worker by itself: one worker's task graph run on all of them at once, each with its own speed, draws
// and failures. Collectives are what they meet at.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/graph/lower.hpp"
#include "planner/run/critical_path.hpp"
#include "planner/run/outages.hpp"
#include "sim/simulate.hpp"

namespace planner {

struct Run;
struct Setting;

/// Compute and code of a worker at full speed.
struct Busy {
  sim::Time forward{};
  sim::Time backward{};
  sim::Time encode{};
  sim::Time decode{};
  sim::Time update{};

  sim::Time all() const { return forward + backward + encode + decode + update; }
  /// What a task of this kind adds to; null where it is none of these.
  sim::Time* part(TaskLabel::Kind kind);
};

struct ShownWorker {
  std::int64_t worker = 0;
  sim::Timeline timeline;  ///< of the one-worker graph; closed collectives from when the last has issued them
};

/// Of all of a run, the first iteration included.
struct LinkUse {
  std::string link;
  double share = 0;  ///< of what it could have carried
};

/// Likewise.
struct Use {
  sim::Time length{};
  sim::Time computing{};       ///< of all workers together, code included
  sim::Time communicating{};   ///< of any channel
  std::vector<LinkUse> links;  ///< five at most, the busiest first; where links are shared
};

/// What each worker did; sums are over the iterations that count.
struct AllWorkers {
  std::vector<std::vector<sim::Time>> marks;  ///< by mark, then worker: when it was reached
  std::vector<Busy> busy;                     ///< by worker
  std::vector<sim::Time> waited;              ///< by worker: ready for a collective, before the last one was
  std::vector<sim::Time> kept_waiting;        ///< by worker: what all others waited for it, the last one
  /// From when the last has begun a collective until the last has left it; of several at once, of any.
  sim::Time channel_busy{};
  Use use;
  std::vector<ShownWorker> shown;
  std::optional<CriticalPath> critical_path;  ///< of the iterations that count
};

/// `nominal` is the setting without stragglers, whose workload run.lowered was made from; `setting` tells who
/// is slow and who fails. Spans are kept of the workers `shown` (each once). Throws NeverEnds, and
/// Unsupported where the network does not say what messages take.
AllWorkers simulate_all_workers(const Setting& setting, const Run& run,
                                const std::vector<std::int64_t>& shown);

/// The iterations that count: the first is left out if there is another.
std::size_t first_counted(const Lowered& lowered);
std::int64_t counted(const Lowered& lowered);

/// The first iteration that counts for a task of this kind: forward passes under which all-gathers run end
/// an iteration, so those of the first counted one belong to the one before.
std::size_t first_counted(const Run& run, TaskLabel::Kind kind);

}  // namespace planner
