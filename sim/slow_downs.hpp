// Computes how fast tasks run: which streams slow which, and the remaining work of running tasks. Internal to
// simulate().

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/task_graph.hpp"

namespace sim {

/// Receives the start of each task of nonzero length and the end of every task, and computes when the running
/// tasks end.
///
/// A stream has one factor, which is in force or not. The remaining work therefore follows from two integers,
/// the time at full speed and the time slowed: however often the rate changes, the end is rounded once.
class SlowDowns {
 public:
  struct NewEnd {
    TaskId task;
    Time at;
  };

  explicit SlowDowns(const TaskGraph& graph);

  static bool matters(const Interference& rule) { return rule.factor > 1 && !rule.by.empty(); }

  void start(StreamId id, TaskId task, Time duration) {
    Stream& stream = streams_[index(id)];
    stream.running = Running::fresh;
    stream.task = task;
    stream.left_at_full_speed = duration;
    stream.slowed_for = Time::zero();
    note_change(id);
  }

  void end(StreamId id) {
    streams_[index(id)].running = Running::nothing;
    note_change(id);
  }

  /// To be called after all ends and starts at `now`: adjusts rates to the streams that are busy and returns
  /// the ends of tasks that started or changed their rate. Such an end may be `now` itself. The result is
  /// valid until the next call.
  std::span<const NewEnd> settle(Time now);

 private:
  enum class Running : std::uint8_t { nothing, fresh, settled };

  struct Stream {
    double factor = 1;
    std::uint32_t busy_slowers = 0;
    bool slowed = false;   // the factor is in force
    bool counted = false;  // counted as busy at the streams it slows
    bool in_changed = false;
    bool in_crossed = false;
    Running running = Running::nothing;
    TaskId task{};
    Time since{};               // when the task started or last changed its rate
    Time left_at_full_speed{};  // its duration less the time it ran at full speed
    Time slowed_for{};          // the time it ran slowed
  };

  void note_change(StreamId id) {
    if (!std::exchange(streams_[index(id)].in_changed, true)) changed_.push_back(id);
  }
  void count(StreamId id);
  void change_rate(StreamId id, Time now);
  void set_off(Stream& stream, Time now);
  static Time end_of(const Stream& stream);

  std::vector<Stream> streams_;
  std::vector<std::uint32_t> row_starts_;  // start of each stream's row in slows_, and the end
  std::vector<StreamId> slows_;            // the streams that it slows
  std::vector<StreamId> changed_;          // streams on which a task started or ended at this instant
  std::vector<StreamId> crossed_;          // streams whose busy_slowers changed from or to 0 at this instant
  std::vector<NewEnd> new_ends_;
};

}  // namespace sim
