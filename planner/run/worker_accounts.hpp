// Adds up what each worker does, task by task, whichever way workers are simulated.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/critical_path.hpp"
#include "planner/run/executable.hpp"
#include "sim/timeline.hpp"

namespace planner {

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

class WorkerAccounts {
 public:
  WorkerAccounts(const Setting& setting, const Executable& executable,
                 const std::vector<std::int64_t>& shown);

  std::size_t workers() const { return out_.busy.size(); }

  /// A worker computes so long, outages aside.
  void computes(std::size_t worker, const TaskLabel& label, sim::Time duration);
  /// A collective that each worker has begun and left at these times.
  void meets(const TaskLabel& label, std::span<const sim::Time> begins, std::span<const sim::Time> ends);
  /// Any task, by worker.
  void ran(sim::TaskId task, std::span<const sim::Time> begins, std::span<const sim::Time> ends);

  AllWorkers take() && { return std::move(out_); }

 private:
  /// Of spans, told in the order in which they end.
  class Union {
   public:
    /// By how much it grows.
    sim::Time add(sim::Time begin, sim::Time end);

   private:
    std::vector<sim::Span> spans_;  // apart from one another, in order
  };

  const Executable& executable_;
  std::vector<std::vector<std::size_t>> marks_by_task_;
  std::array<std::size_t, TaskLabel::kKinds> first_of_{};  // iteration that counts, by kind
  AllWorkers out_;
  Union busy_;  // of any channel, in the iterations that count
  Union all_busy_;
};

}  // namespace planner
