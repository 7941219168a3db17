#include "planner/lower.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/draws.hpp"

namespace planner {
namespace {

using sim::TaskId;
using sim::Time;
using traces::CollectiveKind;
using Kind = TaskLabel::Kind;

Kind label_kind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return Kind::all_reduce;
    case CollectiveKind::reduce_scatter: return Kind::reduce_scatter;
    case CollectiveKind::all_gather: return Kind::all_gather;
  }
  return Kind::all_reduce;
}

std::int64_t group_bytes(const Workload& workload, const Group& group) {
  return workload.bytes_before[group.end] - workload.bytes_before[group.begin];
}

/// For each layer, the groups whose update has to come right before its forward pass: those that carry
/// tensors of it and of no layer before it.
std::vector<std::vector<std::uint32_t>> groups_by_first_layer(const Workload& workload,
                                                              const Groups& groups) {
  std::vector<std::vector<std::uint32_t>> out(workload.forward.size());
  for (auto group = static_cast<std::uint32_t>(groups.size()); group-- > 0;)  // in forward order
    out[workload.gradients[groups[group].end - 1].layer].push_back(group);
  return out;
}

/// For each step of backward, the groups whose last gradient it yields; the last element holds the groups
/// that wait for all of backward.
std::vector<std::vector<std::uint32_t>> groups_by_last_step(const Job& job) {
  std::vector<std::vector<std::uint32_t>> out(job.workload.backward.size() + 1);
  for (const Op& op : job.program.ops)
    if (op.issue == Issue::gradients)
      out[job.workload.gradients[job.groups[op.group].end - 1].backward_step].push_back(op.group);
    else if (op.issue == Issue::backward_end)
      out.back().push_back(op.group);
  return out;
}

class Lowering {
 public:
  explicit Lowering(const Job& job)
      : job_(job),
        communicates_(job.ways.front().workers() > 1),
        carries_(std::any_of(job.program.ops.begin(), job.program.ops.end(),
                             [](const Op& op) { return op.delivers == Delivers::own_layers; })),
        by_first_layer_(groups_by_first_layer(job.workload, job.groups)),
        by_last_step_(groups_by_last_step(job)),
        workers_(job.workers.size()),
        delivered_(job.groups.size()) {
    add_streams();
    const std::size_t per_worker = job.workload.forward.size() + job.workload.backward.size() +
                                   2 * job.groups.size() + 2 * std::size_t{job.micro_batches} + 4;
    const std::size_t ops = job.program.ops.size();
    const std::size_t tasks = (per_worker * job.workers.size() + 2 * ops) * (job.iterations + 1);
    builder_.reserve(tasks, 2 * tasks + ops * job.workers.size() * job.iterations);
  }

  Lowered run() && {
    for (iteration_ = 0; iteration_ < job_.iterations; ++iteration_) {
      each_worker([&](State& at) { forward_of_first_micro_batch(at); });
      if (carries_)
        mark();
      else if (iteration_ == 0)
        marks_.emplace_back();
      each_worker([&](State& at) { further_micro_batches(at); });
      each_worker([&](State& at) { backward_of_last_micro_batch(at); });
      communicate();
      if (!carries_) mark();
    }
    if (carries_) {
      each_worker([&](State& at) { forward_of_first_micro_batch(at); });
      mark();
    }
    return {.graph = std::move(builder_).build(), .marks = std::move(marks_)};
  }

 private:
  /// How far a worker has come.
  struct State {
    std::size_t index = 0;
    std::optional<TaskId> last_compute;
    std::optional<TaskId> next_compute_waits_for;  ///< besides the compute task before it
    std::optional<TaskId> backward_begins_after;
    TaskId backward_end{};
    std::vector<TaskId> sendable;  ///< by group: its gradients are ready, and encoded
    std::optional<TaskId> drained_after;
  };

  void add_streams() {
    const auto add_worker = [&](const std::string& suffix) {
      builder_.add_stream("compute" + suffix);
      if (suffix.empty()) {
        builder_.add_stream("communication");
        builder_.add_stream("cycle");
      }
      builder_.add_stream("input" + suffix);
    };
    std::vector<sim::StreamId> computing;
    for (std::size_t n = 0; n < workers_.size(); ++n) {
      add_worker(n == 0 ? "" : fmt::format(" of worker {}", job_.workers[n].id));
      workers_[n].index = n;
      computing.push_back(Lowered::compute(n));
    }
    if (!communicates_) return;
    if (job_.overlap.compute_slowdown > 0)
      for (const sim::StreamId stream : computing)
        builder_.slow_down(stream, {Lowered::kChannel}, 1 + job_.overlap.compute_slowdown);
    if (job_.overlap.communication_slowdown > 0)
      builder_.slow_down(Lowered::kChannel, computing, 1 + job_.overlap.communication_slowdown);
  }

  template <typename Action>
  void each_worker(Action action) {
    for (State& at : workers_) action(at);
  }

  TaskId add(sim::StreamId stream, Kind kind, std::uint32_t item, Time duration) {
    const TaskLabel label = {.kind = kind, .iteration = iteration_, .item = item};
    return builder_.add_task({.duration = duration, .stream = stream, .label = label.packed()});
  }

  void wait(TaskId task, std::optional<TaskId> earlier) {
    if (earlier) builder_.add_dependency(*earlier, task);
  }

  /// Compute and channel each run their tasks in the order in which they are added here.
  TaskId in_order(State& at, TaskId task) {
    wait(task, at.last_compute);
    wait(task, std::exchange(at.next_compute_waits_for, std::nullopt));
    at.last_compute = task;
    return task;
  }

  /// `duration` is that of a worker as the workload has it.
  TaskId compute(State& at, Kind kind, std::uint32_t item, Time duration) {
    return in_order(at, add(Lowered::compute(at.index), kind, item, drawn(at, kind, item, duration)));
  }

  Time drawn(const State& at, Kind kind, std::uint32_t item, Time duration) const {
    const Worker& worker = job_.workers[at.index];
    if (worker.slowdown == 1 && job_.jitter.sigma == 0) return duration;
    const std::uint64_t bits = sim::hash(job_.jitter.seed, static_cast<std::uint64_t>(worker.id), iteration_,
                                         static_cast<std::uint64_t>(kind), item);
    return sim::from_us(sim::to_us(duration) * worker.slowdown *
                        sim::lognormal_mean_one(bits, job_.jitter.sigma));
  }

  TaskId channel(Kind kind, std::uint32_t item, Time duration) {
    const TaskId task = add(Lowered::kChannel, kind, item, duration);
    wait(task, last_channel_);
    last_channel_ = task;
    return task;
  }

  /// Everything so far on all streams.
  void mark() {
    std::vector<TaskId> tasks;
    for (const State& at : workers_) {
      if (at.last_compute) tasks.push_back(*at.last_compute);
      if (!carries_ && at.next_compute_waits_for) tasks.push_back(*at.next_compute_waits_for);
    }
    marks_.push_back(std::move(tasks));
  }

  void forward_of_first_micro_batch(State& at) {
    if (job_.extras.read > Time::zero())
      in_order(at, add(Lowered::input(at.index), Kind::read, 0, job_.extras.read));
    for (std::uint32_t layer = 0; layer < job_.workload.forward.size(); ++layer) {
      std::optional<TaskId> awaited;
      if (carries_ && iteration_ > 0)
        for (const std::uint32_t group : by_first_layer_[layer]) receive(at, group, awaited);
      const TaskId task = compute(at, Kind::forward, layer, job_.workload.forward[layer]);
      wait(task, awaited);
    }
  }

  /// What comes between a group's all-gather and the forward pass of its layers.
  void receive(State& at, std::uint32_t group, std::optional<TaskId>& awaited) {
    if (communicates_) awaited = delivered_[group];
    const auto run = [&](Kind kind, Time duration) {
      if (duration > Time::zero()) wait(compute(at, kind, group, duration), std::exchange(awaited, {}));
    };
    run(Kind::decode, way_of(group).decode(bytes_of(group)));
    if (job_.program.update == Update::by_group) run(Kind::group_update, update_of(group));
  }

  const WayCost& way_of(std::uint32_t group) const { return job_.ways[job_.groups[group].way]; }
  std::int64_t bytes_of(std::uint32_t group) const { return group_bytes(job_.workload, job_.groups[group]); }
  Time update_of(std::uint32_t group) const {
    return group_update(job_.workload, job_.extras, job_.groups[group].begin, job_.groups[group].end);
  }

  void further_micro_batches(State& at) {
    for (std::uint32_t batch = 1; batch < job_.micro_batches; ++batch) {
      compute(at, Kind::micro_batch_backward, batch - 1, job_.workload.backward_total);
      compute(at, Kind::micro_batch_forward, batch, job_.workload.forward_total);
    }
  }

  void backward_of_last_micro_batch(State& at) {
    at.backward_begins_after = at.last_compute;
    at.sendable.assign(job_.groups.size(), TaskId{});
    for (std::uint32_t step = 0; step < job_.workload.backward.size(); ++step) {
      at.backward_end = compute(at, Kind::backward, step, job_.workload.backward[step].duration);
      for (const std::uint32_t group : by_last_step_[step]) encode(at, group);
    }
    for (const std::uint32_t group : by_last_step_.back()) encode(at, group);
    at.backward_end = *at.last_compute;
  }

  void encode(State& at, std::uint32_t group) {
    const Time duration = way_of(group).encode(bytes_of(group));
    at.sendable[group] =
        duration > Time::zero() ? compute(at, Kind::encode, group, duration) : at.backward_end;
  }

  void communicate() {
    last_tick_.reset();
    bool updated = false;
    for (const Op& op : job_.program.ops) {
      if (op.issue == Issue::updated && !std::exchange(updated, true)) update_at_once();
      if (op.issue == Issue::drained && !std::exchange(updated, true)) drain();
      if (communicates_) add_collective(op);
    }
    if (!updated) update_at_once();
    if (!carries_ && communicates_)
      each_worker([&](State& at) { at.next_compute_waits_for = last_channel_; });
  }

  void add_collective(const Op& op) {
    const Group& group = job_.groups[op.group];
    std::optional<TaskId> tick;
    const bool has_tick = group.tick > Time::zero();
    if (has_tick && (op.issue == Issue::gradients || op.issue == Issue::backward_end))
      tick = tick_of(op.group);
    const WayCost& way = way_of(op.group);
    const std::int64_t bytes = bytes_of(op.group);
    const TaskId task = channel(label_kind(way.is_encoded(bytes) ? way.carrier(op.kind) : op.kind), op.group,
                                way.time(op.kind, bytes));
    wait(task, tick);
    for (State& at : workers_) {
      const bool drained = op.issue == Issue::drained || op.issue == Issue::updated;
      wait(task, drained ? at.drained_after : at.sendable[op.group]);
      if (op.delivers != Delivers::next_iteration) continue;
      const Time duration = way.decode(bytes);
      if (duration > Time::zero()) wait(compute(at, Kind::decode, op.group, duration), task);
    }
    if (op.delivers == Delivers::own_layers) delivered_[op.group] = task;
  }

  /// A cycle's ticks follow one another on a stream of their own, counted from the start of backward.
  std::optional<TaskId> tick_of(std::uint32_t group) {
    const Time at = job_.groups[group].tick;
    const Time since = last_tick_ ? at - last_tick_at_ : at;
    if (last_tick_ && since <= Time::zero()) return last_tick_;
    const TaskId task = add(Lowered::kTicks, Kind::tick, group, since);
    if (last_tick_)
      wait(task, last_tick_);
    else
      for (const State& worker : workers_) wait(task, worker.backward_begins_after);
    last_tick_ = task;
    last_tick_at_ = at;
    return task;
  }

  /// From here on everything waits for the channel and for backward.
  void drain() {
    if (communicates_) each_worker([&](State& at) { at.next_compute_waits_for = last_channel_; });
    lars();
    each_worker([](State& at) { at.drained_after = at.last_compute; });
  }

  void update_at_once() {
    drain();
    if (job_.program.update == Update::by_group || job_.extras.update == Time::zero()) return;
    each_worker([&](State& at) { at.drained_after = compute(at, Kind::update, 0, job_.extras.update); });
  }

  /// A share of LARS on each worker, then everyone's results (the parallel tensor operator).
  void lars() {
    if (job_.extras.lars > Time::zero())
      each_worker([&](State& at) { compute(at, Kind::lars, 0, job_.extras.lars); });
    if (job_.extras.lars_gather == Time::zero() || !communicates_) return;
    const TaskId gather = channel(Kind::lars_gather, 0, job_.extras.lars_gather);
    each_worker([&](State& at) {
      wait(gather, at.last_compute);
      if (!carries_) at.next_compute_waits_for = gather;
    });
  }

  const Job& job_;
  bool communicates_;
  bool carries_;  ///< collectives reach under the next forward pass
  std::vector<std::vector<std::uint32_t>> by_first_layer_;
  std::vector<std::vector<std::uint32_t>> by_last_step_;
  sim::TaskGraphBuilder builder_;
  std::vector<std::vector<TaskId>> marks_;

  std::uint32_t iteration_ = 0;
  std::vector<State> workers_;
  std::optional<TaskId> last_channel_;
  std::optional<TaskId> last_tick_;
  Time last_tick_at_{};
  std::vector<std::optional<TaskId>> delivered_;  ///< by group: what its layers' next forward waits for
};

}  // namespace

sim::StreamId Lowered::compute(std::size_t n) {
  return n == 0 ? kCompute : sim::StreamId{static_cast<std::uint32_t>(kShared + 2 * n)};
}

std::size_t Lowered::worker_of(sim::StreamId stream) {
  return stream == kCompute ? 0 : (sim::index(stream) - kShared) / 2;
}

sim::StreamId Lowered::input(std::size_t n) {
  return n == 0 ? kInput : sim::StreamId{static_cast<std::uint32_t>(kShared + 2 * n + 1)};
}

std::uint64_t TaskLabel::packed() const {
  return (std::uint64_t{iteration} << 40U) | (std::uint64_t{item} << 8U) | static_cast<std::uint64_t>(kind);
}

TaskLabel TaskLabel::unpack(std::uint64_t label) {
  return {.kind = Kind{static_cast<std::uint8_t>(label & 0xffU)},
          .iteration = static_cast<std::uint32_t>(label >> 40U),
          .item = static_cast<std::uint32_t>(label >> 8U)};
}

Time at_mark(const std::vector<TaskId>& mark, const sim::Timeline& timeline) {
  Time at{};
  for (const TaskId task : mark) at = std::max(at, timeline.spans[sim::index(task)].end);
  return at;
}

Lowered lower(const Job& job) { return Lowering(job).run(); }

Time group_update(const Workload& workload, const Extras& extras, std::uint32_t begin, std::uint32_t end) {
  const auto of_first = [&](std::uint32_t gradients) {
    const double share =
        static_cast<double>(workload.bytes_before[gradients]) / static_cast<double>(workload.bytes());
    return sim::from_us(sim::to_us(extras.update) * share);
  };
  return of_first(end) - of_first(begin);
}

}  // namespace planner
