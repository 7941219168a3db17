#include "planner/lower.hpp"

#include <algorithm>
#include <optional>
#include <utility>

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

class Lowering {
 public:
  explicit Lowering(const Job& job)
      : job_(job),
        communicates_(job.costs.workers() > 1),
        carries_(std::any_of(job.program.ops.begin(), job.program.ops.end(),
                             [](const Op& op) { return op.delivers == Delivers::own_layers; })),
        by_first_layer_(groups_by_first_layer(job.workload, job.groups)),
        delivered_(job.groups.size()) {
    builder_.add_stream("compute");
    builder_.add_stream("communication");
    builder_.add_stream("cycle");
    const std::size_t per_iteration = job.workload.forward.size() + job.workload.backward.size() +
                                      2 * job.program.ops.size() + 2 * std::size_t{job.micro_batches} + 4;
    builder_.reserve(per_iteration * (job.iterations + 1), 2 * per_iteration * (job.iterations + 1));
  }

  Lowered run() && {
    for (iteration_ = 0; iteration_ < job_.iterations; ++iteration_) {
      forward_of_first_micro_batch();
      if (carries_)
        mark();
      else if (iteration_ == 0)
        marks_.emplace_back();
      further_micro_batches();
      backward_of_last_micro_batch();
      communicate();
      if (!carries_) mark();
    }
    if (carries_) {
      forward_of_first_micro_batch();
      mark();
    }
    return {.graph = std::move(builder_).build(), .marks = std::move(marks_)};
  }

 private:
  TaskId add(sim::StreamId stream, Kind kind, std::uint32_t item, Time duration) {
    const TaskLabel label = {.kind = kind, .iteration = iteration_, .item = item};
    return builder_.add_task({.duration = duration, .stream = stream, .label = label.packed()});
  }

  void wait(TaskId task, std::optional<TaskId> earlier) {
    if (earlier) builder_.add_dependency(*earlier, task);
  }

  /// Compute and channel each run their tasks in the order in which they are added here.
  TaskId compute(Kind kind, std::uint32_t item, Time duration) {
    const TaskId task = add(Lowered::kCompute, kind, item, duration);
    wait(task, last_compute_);
    wait(task, std::exchange(next_compute_waits_for_, std::nullopt));
    last_compute_ = task;
    return task;
  }

  TaskId channel(Kind kind, std::uint32_t item, Time duration) {
    const TaskId task = add(Lowered::kChannel, kind, item, duration);
    wait(task, last_channel_);
    last_channel_ = task;
    return task;
  }

  /// Everything so far on both streams.
  void mark() {
    std::vector<TaskId> tasks;
    if (last_compute_) tasks.push_back(*last_compute_);
    if (!carries_ && next_compute_waits_for_) tasks.push_back(*next_compute_waits_for_);
    marks_.push_back(std::move(tasks));
  }

  void forward_of_first_micro_batch() {
    if (job_.extras.read > Time::zero()) compute(Kind::read, 0, job_.extras.read);
    const bool updates = job_.program.update == Update::by_group && iteration_ > 0;
    for (std::uint32_t layer = 0; layer < job_.workload.forward.size(); ++layer) {
      std::optional<TaskId> awaited;
      for (const std::uint32_t group : by_first_layer_[layer]) {
        if (delivered_[group]) awaited = std::exchange(delivered_[group], std::nullopt);
        const Time update = updates ? update_of(group) : Time::zero();
        if (update > Time::zero())
          wait(compute(Kind::group_update, group, update), std::exchange(awaited, {}));
      }
      const TaskId task = compute(Kind::forward, layer, job_.workload.forward[layer]);
      wait(task, awaited);
    }
  }

  Time update_of(std::uint32_t group) const {
    return group_update(job_.workload, job_.extras, job_.groups[group].begin, job_.groups[group].end);
  }

  void further_micro_batches() {
    for (std::uint32_t batch = 1; batch < job_.micro_batches; ++batch) {
      compute(Kind::micro_batch_backward, batch - 1, job_.workload.backward_total);
      compute(Kind::micro_batch_forward, batch, job_.workload.forward_total);
    }
  }

  void backward_of_last_micro_batch() {
    backward_begins_after_ = last_compute_;
    backward_tasks_.clear();
    for (std::uint32_t step = 0; step < job_.workload.backward.size(); ++step)
      backward_tasks_.push_back(compute(Kind::backward, step, job_.workload.backward[step].duration));
  }

  void communicate() {
    const TaskId backward_end = *last_compute_;
    last_tick_.reset();
    bool updated = false;
    for (const Op& op : job_.program.ops) {
      if (op.issue == Issue::updated && !std::exchange(updated, true)) update_at_once();
      if (op.issue == Issue::drained && !std::exchange(updated, true)) drain();
      if (communicates_) add_collective(op, backward_end);
    }
    if (!updated) update_at_once();
    if (!carries_ && communicates_) next_compute_waits_for_ = last_channel_;
  }

  void add_collective(const Op& op, TaskId backward_end) {
    const Group& group = job_.groups[op.group];
    const Time duration = job_.costs.of(op.kind).time(group_bytes(job_.workload, group));
    std::optional<TaskId> tick;
    const bool has_tick = group.tick > Time::zero();
    if (has_tick && (op.issue == Issue::gradients || op.issue == Issue::backward_end))
      tick = tick_of(op.group);
    const TaskId task = channel(label_kind(op.kind), op.group, duration);
    wait(task, tick);
    switch (op.issue) {
      case Issue::gradients:
        wait(task, backward_tasks_[job_.workload.gradients[group.end - 1].backward_step]);
        break;
      case Issue::backward_end: wait(task, backward_end); break;
      case Issue::drained:
      case Issue::updated: wait(task, last_compute_); break;
    }
    if (op.delivers == Delivers::own_layers) delivered_[op.group] = task;
  }

  /// A cycle's ticks follow one another on a stream of their own, counted from the start of backward.
  std::optional<TaskId> tick_of(std::uint32_t group) {
    const Time at = job_.groups[group].tick;
    const Time since = last_tick_ ? at - last_tick_at_ : at;
    if (last_tick_ && since <= Time::zero()) return last_tick_;
    const TaskId task = add(Lowered::kTicks, Kind::tick, group, since);
    wait(task, last_tick_ ? last_tick_ : backward_begins_after_);
    last_tick_ = task;
    last_tick_at_ = at;
    return task;
  }

  /// From here on everything waits for the channel and for backward.
  void drain() {
    if (communicates_) next_compute_waits_for_ = last_channel_;
    lars();
  }

  void update_at_once() {
    if (job_.program.update == Update::by_group) return drain();
    drain();
    if (job_.extras.update > Time::zero()) compute(Kind::update, 0, job_.extras.update);
  }

  /// A share of LARS on each worker, then everyone's results (the parallel tensor operator).
  void lars() {
    if (job_.extras.lars > Time::zero()) compute(Kind::lars, 0, job_.extras.lars);
    if (job_.extras.lars_gather == Time::zero() || !communicates_) return;
    const TaskId gather = channel(Kind::lars_gather, 0, job_.extras.lars_gather);
    wait(gather, last_compute_);
    if (!carries_) next_compute_waits_for_ = gather;
  }

  const Job& job_;
  bool communicates_;
  bool carries_;  ///< collectives reach under the next forward pass
  std::vector<std::vector<std::uint32_t>> by_first_layer_;
  sim::TaskGraphBuilder builder_;
  std::vector<std::vector<TaskId>> marks_;

  std::uint32_t iteration_ = 0;
  std::optional<TaskId> last_compute_;
  std::optional<TaskId> last_channel_;
  std::optional<TaskId> next_compute_waits_for_;  ///< besides the compute task before it
  std::vector<TaskId> backward_tasks_;            ///< of this iteration, by step
  std::optional<TaskId> backward_begins_after_;
  std::optional<TaskId> last_tick_;
  Time last_tick_at_{};
  std::vector<std::optional<TaskId>> delivered_;  ///< by group: what its layers' next forward waits for
};

}  // namespace

std::uint64_t TaskLabel::packed() const {
  return (std::uint64_t{iteration} << 40U) | (std::uint64_t{item} << 8U) | static_cast<std::uint64_t>(kind);
}

TaskLabel TaskLabel::unpack(std::uint64_t label) {
  return {.kind = Kind{static_cast<std::uint8_t>(label & 0xffU)},
          .iteration = static_cast<std::uint32_t>(label >> 40U),
          .item = static_cast<std::uint32_t>(label >> 8U)};
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
