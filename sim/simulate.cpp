#include "sim/simulate.hpp"

#include <algorithm>
#include <deque>
#include <queue>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "sim/graph_algorithms.hpp"
#include "sim/slow_downs.hpp"

namespace sim {
namespace {

/// Tasks whose predecessors have ended and that wait for their stream: lowest priority value first, then
/// longest ready, then lowest id. They nearly always arrive in that order; then this is a plain queue with
/// one comparison per task.
class ReadyQueue {
 public:
  struct Entry {
    std::int32_t priority;
    TaskId task;
    Time since;
    bool operator>(const Entry& other) const {
      if (priority != other.priority) return priority > other.priority;
      if (since != other.since) return since > other.since;
      return task > other.task;
    }
  };

  bool empty() const { return head_ == in_order_.size() && out_of_order_.empty(); }

  // Two kinds of Run call it; without the attribute g++ does not inline it: 3 % more instructions in total.
  [[gnu::always_inline]] inline void push(Entry entry) {
    if (head_ == in_order_.size()) {
      in_order_.clear();
      head_ = 0;
    }
    if (in_order_.empty() || entry > in_order_.back())
      in_order_.push_back(entry);
    else
      out_of_order_.push(entry);
  }

  TaskId top() const { return from_heap() ? out_of_order_.top().task : in_order_[head_].task; }

  TaskId pop() {
    if (!from_heap()) return in_order_[head_++].task;
    const TaskId task = out_of_order_.top().task;
    out_of_order_.pop();
    return task;
  }

 private:
  bool from_heap() const {
    return !out_of_order_.empty() && (head_ == in_order_.size() || in_order_[head_] > out_of_order_.top());
  }

  std::vector<Entry> in_order_;
  std::size_t head_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> out_of_order_;
};

/// Replaces SlowDowns in a run without interference.
struct FullSpeed {
  explicit FullSpeed(const TaskGraph& /*graph*/) {}
};

/// Replaces Windows in a run without windows.
struct NoWindows {
  explicit NoWindows(const TaskGraph& /*graph*/) {}
};

/// The tasks that are committed on streams with a window.
class Windows {
 public:
  explicit Windows(const TaskGraph& graph) : streams_(graph.streams().size()), sizes_(graph.tasks().size()) {
    for (const Window& window : graph.windows()) streams_[index(window.stream)].credit = window.credit;
    for (const auto& [task, size] : graph.sizes()) sizes_[index(task)] = size;
  }

  bool is_limited(StreamId id) const { return streams_[index(id)].credit > 0; }

  /// Moves the tasks that may be committed now out of the ready queue.
  void commit(StreamId id, ReadyQueue& ready) {
    Stream& stream = streams_[index(id)];
    while (!ready.empty()) {
      const std::int64_t size = sizes_[index(ready.top())];
      const bool is_alone = stream.count == 0;
      if (!is_alone && size > stream.credit - stream.in_flight) return;
      stream.in_flight += size;
      ++stream.count;
      stream.committed.push_back(ready.pop());
    }
  }

  bool empty(StreamId id) const { return streams_[index(id)].committed.empty(); }

  TaskId pop(StreamId id) {
    Stream& stream = streams_[index(id)];
    const TaskId task = stream.committed.front();
    stream.committed.pop_front();
    return task;
  }

  void end(StreamId id, TaskId task) {
    Stream& stream = streams_[index(id)];
    stream.in_flight -= sizes_[index(task)];
    --stream.count;
  }

 private:
  struct Stream {
    std::int64_t credit = 0;  // 0: no window
    std::int64_t in_flight = 0;
    std::size_t count = 0;         // committed tasks that have not ended
    std::deque<TaskId> committed;  // committed tasks that have not started
  };

  std::vector<Stream> streams_;
  std::vector<std::int64_t> sizes_;  // indexed by task
};

/// The state of one run; lives during one call of simulate(). `Rates` is FullSpeed, which costs nothing, or
/// SlowDowns (and Limits NoWindows or Windows): then a task's end may move while it runs, and entries of
/// endings_ become stale.
template <typename Rates, typename Limits>
class Run {
 public:
  explicit Run(const TaskGraph& graph)
      : graph_(graph),
        waiting_for_(graph.tasks().size()),
        streams_(graph.streams().size()),
        rates_(graph),
        limits_(graph) {
    timeline_.spans.resize(graph.tasks().size());
    for (std::size_t i = 0; i < waiting_for_.size(); ++i)
      for (const TaskId next : graph.successors(task_id(i))) ++waiting_for_[index(next)];
    for (std::size_t i = 0; i < waiting_for_.size(); ++i)
      if (waiting_for_[i] == 0) make_ready(task_id(i));
  }

  Timeline finish() && {
    start_what_can_start();
    while (!endings_.empty()) {
      now_ = endings_.top().at;
      while (ends_now()) end(pop_ending());
      start_what_can_start();
    }
    if (ended_ != graph_.tasks().size()) throw CycleError(find_cycle(graph_));
    timeline_.makespan = now_;
    return std::move(timeline_);
  }

 private:
  static constexpr bool kSlowDowns = std::is_same_v<Rates, SlowDowns>;
  static constexpr bool kWindows = std::is_same_v<Limits, Windows>;

  struct Ending {
    Time at;
    TaskId task;
    bool operator==(const Ending& other) const = default;
    bool operator>(const Ending& other) const { return at != other.at ? at > other.at : task > other.task; }
  };
  struct Stream {
    ReadyQueue ready;
    bool busy = false;
    bool touched = false;
  };

  static TaskId task_id(std::size_t i) { return TaskId{static_cast<std::uint32_t>(i)}; }

  [[gnu::always_inline]] inline void make_ready(TaskId id) {
    const Task& task = graph_.tasks()[index(id)];
    streams_[index(task.stream)].ready.push({task.priority, id, now_});
    touch(task.stream);
  }

  void touch(StreamId id) {
    if (!std::exchange(streams_[index(id)].touched, true)) touched_.push_back(id);
  }

  void start_what_can_start() {
    for (const StreamId id : touched_) {
      if constexpr (kWindows) {
        if (limits_.is_limited(id)) {
          held_.push_back(id);
          continue;
        }
      }
      start_next(id);
    }
    touched_.clear();
    if constexpr (kWindows) {
      if (!ends_now()) start_held();
    }
    if constexpr (kSlowDowns) {
      if (!ends_now()) settle();
    }
  }

  /// Everything that becomes ready at this instant is ready, including through tasks of zero length.
  void start_held() {
    for (const StreamId id : held_) start_next(id);
    held_.clear();
  }

  [[gnu::always_inline]] inline void start_next(StreamId id) {
    Stream& stream = streams_[index(id)];
    stream.touched = false;
    if (stream.busy && !kWindows) return;
    if (!has_next(id, stream) || stream.busy) return;
    stream.busy = true;
    const TaskId task = next(id, stream);
    const Time duration = graph_.tasks()[index(task)].duration;
    Span& span = timeline_.spans[index(task)];
    span = {now_, after(now_, duration)};
    if constexpr (kSlowDowns) {
      if (duration > Time::zero()) {
        rates_.start(id, task, duration);
        return;
      }
    }
    endings_.push({span.end, task});
  }

  bool has_next(StreamId id, Stream& stream) {
    if constexpr (kWindows) {
      if (limits_.is_limited(id)) {
        limits_.commit(id, stream.ready);
        return !limits_.empty(id);
      }
    }
    return !stream.ready.empty();
  }

  TaskId next(StreamId id, Stream& stream) {
    if constexpr (kWindows) {
      if (limits_.is_limited(id)) return limits_.pop(id);
    }
    return stream.ready.pop();
  }

  bool ends_now() const { return !endings_.empty() && endings_.top().at == now_; }

  TaskId pop_ending() {
    const Ending ending = endings_.top();
    endings_.pop();
    if constexpr (kSlowDowns) {
      // An end can move away and back again; then it is in the queue twice.
      while (!endings_.empty() && endings_.top() == ending) endings_.pop();
      drop_stale();
    }
    return ending.task;
  }

  /// The instant is over: running tasks get the rates that hold until the next one.
  void settle() {
    for (const SlowDowns::NewEnd& moved : rates_.settle(now_)) {
      timeline_.spans[index(moved.task)].end = moved.at;
      endings_.push({moved.at, moved.task});
    }
    drop_stale();
  }

  /// Removes stale entries until the next ending is a real one.
  void drop_stale() {
    while (!endings_.empty() && endings_.top().at != timeline_.spans[index(endings_.top().task)].end)
      endings_.pop();
  }

  void end(TaskId id) {
    const StreamId stream = graph_.tasks()[index(id)].stream;
    if constexpr (kSlowDowns) rates_.end(stream);
    if constexpr (kWindows) {
      if (limits_.is_limited(stream)) limits_.end(stream, id);
    }
    streams_[index(stream)].busy = false;
    touch(stream);
    for (const TaskId next : graph_.successors(id))
      if (--waiting_for_[index(next)] == 0) make_ready(next);
    ++ended_;
  }

  const TaskGraph& graph_;
  std::vector<std::uint32_t> waiting_for_;  // indexed by task: predecessors that have not ended
  std::vector<Stream> streams_;
  std::vector<StreamId> touched_;  // streams that changed at this instant
  std::vector<StreamId> held_;     // those that wait for the end of the instant
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> endings_;
  Timeline timeline_;
  Time now_{};
  std::size_t ended_ = 0;
  [[no_unique_address]] Rates rates_;
  [[no_unique_address]] Limits limits_;
};

}  // namespace

Timeline simulate(const TaskGraph& graph) {
  const auto rules = graph.interferences();
  const bool slowed = std::ranges::any_of(rules, SlowDowns::matters);
  if (!graph.windows().empty())
    return slowed ? Run<SlowDowns, Windows>(graph).finish() : Run<FullSpeed, Windows>(graph).finish();
  return slowed ? Run<SlowDowns, NoWindows>(graph).finish() : Run<FullSpeed, NoWindows>(graph).finish();
}

}  // namespace sim
