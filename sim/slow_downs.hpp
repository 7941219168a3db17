// The part of a run that knows how fast tasks go: which streams slow which, and what is left of the tasks
// that run. Internal to simulate().

#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/task_graph.hpp"

namespace sim {

/// Told of the tasks of some length that start and of all that end, it says when those that run will end.
///
/// A stream has one factor, in force or not, so the work left follows from two integers, the time a task has
/// run at full speed and the time it has run slowed: however often its rate changes, its end is rounded once.
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

  /// To be called once all that ends and starts at `now` has done so: brings rates in line with the streams
  /// that are busy now and gives the ends of the tasks that have started or changed their rate. Such an end
  /// may be `now` itself. Valid until the next call.
  std::span<const NewEnd> settle(Time now);

 private:
  enum class Running : std::uint8_t { nothing, fresh, settled };

  struct Stream {
    double factor = 1;
    std::uint32_t busy_slowers = 0;
    bool slowed = false;   // the factor is in force
    bool counted = false;  // as busy, at the streams it slows
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
  std::vector<std::uint32_t> row_starts_;  // of each stream's row in slows_, and the end
  std::vector<StreamId> slows_;            // the streams that it slows
  std::vector<StreamId> changed_;          // where a task has started or ended at this instant
  std::vector<StreamId> crossed_;          // whose busy_slowers have come from 0 or to 0 at this instant
  std::vector<NewEnd> new_ends_;
};

}  // namespace sim
