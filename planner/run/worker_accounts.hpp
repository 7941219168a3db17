// Sums the activity of each worker, task by task, for every kind of worker simulation.

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

/// Compute and coding time of a worker at full speed.
struct Busy {
  sim::Time forward{};
  sim::Time backward{};
  sim::Time encode{};
  sim::Time decode{};
  sim::Time update{};

  sim::Time all() const { return forward + backward + encode + decode + update; }
  /// The member that a task of this kind contributes to; null if none.
  static sim::Time Busy::*part(TaskLabel::Kind kind);
};

struct ShownWorker {
  std::int64_t worker = 0;
  sim::Timeline timeline;  ///< of the one-worker graph; closed collectives start when the last worker has
                           ///< issued them
};

/// Use of a link over the whole run, including the first iteration.
struct LinkUse {
  std::string link;
  double share = 0;  ///< share of its capacity
};

/// Resource use over the whole run, including the first iteration.
struct Use {
  sim::Time length{};
  sim::TotalTime computing;    ///< sum over all workers, including coding
  sim::Time communicating{};   ///< time in which any channel is busy
  std::vector<LinkUse> links;  ///< at most five, the busiest first; only for shared links
};

/// The activity of each worker; sums cover the counted iterations.
struct AllWorkers {
  std::vector<std::vector<sim::Time>> marks;  ///< by mark, then worker: when the worker reached the mark
  std::vector<Busy> busy;                     ///< by worker
  std::vector<sim::TotalTime> waited;         ///< by worker: time between being ready for a collective and
                                              ///< the last worker being ready
  std::vector<sim::TotalTime> kept_waiting;   ///< by worker: time that all others waited for it as the last
                                              ///< one
  /// Time from when the last worker has begun a collective until the last has left it; the union over
  /// concurrent collectives.
  sim::Time channel_busy{};
  Use use;
  double message_work = 0;  ///< of simulating messages, in steps of about a nanosecond
  std::vector<ShownWorker> shown;
  std::optional<CriticalPath> critical_path;  ///< over the counted iterations
};

class WorkerAccounts {
 public:
  WorkerAccounts(const Setting& setting, const Executable& executable,
                 const std::vector<std::int64_t>& shown);

  std::size_t workers() const { return out_.busy.size(); }

  /// Records compute of this duration on a worker, without outages.
  void computes(std::size_t worker, const TaskLabel& label, sim::Time duration);
  /// The same on all workers.
  void all_compute(const TaskLabel& label, sim::Time duration);
  /// Records a collective that each worker began and left at these times.
  void meets(const TaskLabel& label, std::span<const sim::Time> begins, std::span<const sim::Time> ends);
  /// Records any task, with times by worker.
  void ran(sim::TaskId task, std::span<const sim::Time> begins, std::span<const sim::Time> ends);

  AllWorkers take() && { return std::move(out_); }

 private:
  /// The union of spans that are added in the order of their ends.
  class Union {
   public:
    /// Adds a span and returns the growth of the union.
    sim::Time add(sim::Time begin, sim::Time end);

   private:
    std::vector<sim::Span> spans_;  // disjoint and sorted
  };

  bool is_counted(const TaskLabel& label) const;

  const Executable& executable_;
  std::vector<std::vector<std::size_t>> marks_by_task_;
  std::array<std::size_t, TaskLabel::kKinds> first_of_{};  // first counted iteration, by kind
  AllWorkers out_;
  Union busy_;  // time of any channel in the counted iterations
  Union all_busy_;
};

}  // namespace planner
