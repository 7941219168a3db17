#include "planner/graph/lower.hpp"

#include <algorithm>
#include <cassert>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "planner/graph/task_factors.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

Kind label_kind(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return Kind::all_reduce;
    case CollectiveKind::reduce_scatter: return Kind::reduce_scatter;
    case CollectiveKind::all_gather: return Kind::all_gather;
  }
  return Kind::all_reduce;
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

/// For each step of backward, the groups that carry tensors of its layer and of no layer that backward comes
/// to before; at the layer's first step.
std::vector<std::vector<std::uint32_t>> groups_by_first_step(const Workload& workload, const Groups& groups) {
  std::vector<std::vector<std::uint32_t>> out(workload.backward.size());
  std::vector<std::uint32_t> first_step(workload.forward.size());
  for (auto step = static_cast<std::uint32_t>(workload.backward.size()); step-- > 0;)
    first_step[workload.backward[step].layer] = step;
  for (std::uint32_t group = 0; group < groups.size(); ++group)
    out[first_step[workload.gradients[groups[group].begin].layer]].push_back(group);
  return out;
}

bool is_for_pass(const Op& op) { return op.issue == Issue::forward || op.issue == Issue::backward; }

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
        transfers_(job.transfers),
        has_spikes_(job.has_spikes &&
                    std::any_of(transfers_.begin(), transfers_.end(),
                                [](const TransferCost& transfer) { return transfer.has_spikes(); })),
        communicates_(job.transfers.front().workers() > 1),
        carries_(std::any_of(job.program.ops.begin(), job.program.ops.end(),
                             [](const Op& op) { return op.delivers == Delivers::own_layers; })),
        shards_(std::any_of(job.program.ops.begin(), job.program.ops.end(), is_for_pass)),
        by_first_layer_(groups_by_first_layer(job.workload, job.groups)),
        by_last_step_(groups_by_last_step(job)),
        workers_(job.workers.size()),
        is_in_order_(!job.program.by_layer && job.channels == 1),
        delivered_(job.groups.size()) {
    assert(job.channels == 1 || (job.workers.size() == 1 && !job.program.by_layer));
    if (shards_) by_first_step_ = groups_by_first_step(job.workload, job.groups);
    add_streams();
    const std::size_t passes = shards_ ? job.micro_batches : 1;
    const std::size_t per_worker = passes * (job.workload.forward.size() + job.workload.backward.size()) +
                                   2 * job.groups.size() + 2 * std::size_t{job.micro_batches} + 4;
    const std::size_t ops = passes * job.program.ops.size();
    const std::size_t tasks = (per_worker * job.workers.size() + 2 * ops) * (job.iterations + 1);
    builder_.reserve(tasks, 2 * tasks + ops * job.workers.size() * job.iterations);
  }

  Lowered run() && {
    for (iteration_ = 0; iteration_ < job_.iterations; ++iteration_) {
      take_transfers();
      if (iteration_ == 0 && !carries_) marks_.emplace_back();
      if (shards_)
        run_sharded();
      else
        run_iteration();
      if (!carries_) mark();
    }
    if (carries_) {
      forward_of_first_micro_batch();
      mark();
    }
    return {.graph = std::move(builder_).build(), .marks = std::move(marks_), .channels = job_.channels};
  }

 private:
  /// How far a worker has come.
  struct State {
    std::size_t index = 0;
    std::optional<TaskId> last_compute;
    std::vector<TaskId> next_compute_waits_for;  ///< besides the compute task before it
    std::vector<TaskId> backward_begins_after;
    TaskId backward_end{};
    std::vector<TaskId> sendable;  ///< by group: its gradients are ready, and encoded
    std::optional<TaskId> drained_after;
    std::vector<TaskId> awaited;  ///< by what is computed next for the layer that forward has come to
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
    for (std::uint32_t n = 1; n < job_.channels; ++n)
      builder_.add_stream(fmt::format("communication, channel {}", n + 1));
    if (!communicates_) return;
    if (job_.program.by_layer) builder_.limit(Lowered::kChannel, job_.program.by_layer->credit_bytes);
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

  void run_iteration() {
    forward_of_first_micro_batch();
    if (carries_) mark();
    each_worker([&](State& at) { further_micro_batches(at); });
    each_worker([&](State& at) { backward_of_last_micro_batch(at); });
    communicate();
  }

  TaskId add(sim::StreamId stream, Kind kind, std::uint32_t item, Time duration, std::uint32_t iteration,
             std::int32_t priority = 0) {
    const TaskLabel label = {.kind = kind, .iteration = iteration, .item = item};
    return builder_.add_task(
        {.duration = duration, .stream = stream, .priority = priority, .label = label.packed()});
  }
  TaskId add(sim::StreamId stream, Kind kind, std::uint32_t item, Time duration) {
    return add(stream, kind, item, duration, iteration_);
  }

  void wait(TaskId task, std::optional<TaskId> earlier) {
    if (earlier) builder_.add_dependency(*earlier, task);
  }

  /// Compute runs its tasks in the order in which they are added here, and so does a channel, unless it goes
  /// by layer.
  TaskId in_order(State& at, TaskId task) {
    wait(task, at.last_compute);
    for (const TaskId awaited : at.next_compute_waits_for) wait(task, awaited);
    at.next_compute_waits_for.clear();
    at.last_compute = task;
    return task;
  }

  /// `duration` is that of a worker as the workload has it.
  TaskId compute(State& at, Kind kind, std::uint32_t item, Time duration) {
    return in_order(at, add(Lowered::compute(at.index), kind, item, sampled(at, kind, item, duration)));
  }

  Time sampled(const State& at, Kind kind, std::uint32_t item, Time duration) const {
    const Worker& worker = job_.workers[at.index];
    if (worker.slowdown == 1 && job_.jitter.sigma == 0) return duration;
    const TaskLabel label = {.kind = kind, .iteration = iteration_, .item = item};
    return sim::from_us(sim::to_us(duration) * worker.slowdown *
                        task_factor(job_.jitter, job_.jitter.sigma, worker.id, label));
  }

  TaskId channel(Kind kind, std::uint32_t item, Time duration, std::uint32_t iteration) {
    const std::uint32_t turn = turn_++ % job_.channels;
    const TaskId task = add(Lowered::channel(turn), kind, item, duration, iteration);
    if (last_on_channel_.size() == turn) {
      last_on_channel_.push_back(task);
    } else {
      wait(task, last_on_channel_[turn]);
      last_on_channel_[turn] = task;
    }
    return task;
  }

  /// Among those that are ready the one for the layer nearest the input comes first.
  TaskId by_layer(Kind kind, std::uint32_t group, Time duration) {
    const auto layer = static_cast<std::int32_t>(first_layer(group));
    const TaskId task = add(Lowered::kChannel, kind, group, duration, iteration_, layer);
    builder_.set_size(task, bytes_of(group));
    last_on_channel_.push_back(task);
    return task;
  }

  std::uint32_t first_layer(std::uint32_t group) const {
    return job_.workload.gradients[job_.groups[group].end - 1].layer;
  }

  /// All that the channel still has to do.
  void await_channel() {
    each_worker([&](State& at) { at.next_compute_waits_for = last_on_channel_; });
  }

  /// Everything so far on all streams.
  void mark() {
    std::vector<TaskId> tasks;
    for (const State& at : workers_) {
      if (at.last_compute) tasks.push_back(*at.last_compute);
      if (carries_) continue;
      tasks.insert(tasks.end(), at.next_compute_waits_for.begin(), at.next_compute_waits_for.end());
    }
    marks_.push_back(std::move(tasks));
  }

  void read(State& at) {
    if (job_.extras.read > Time::zero())
      in_order(at, add(Lowered::input(at.index), Kind::read, 0, job_.extras.read));
  }

  void forward_of_first_micro_batch() {
    each_worker([&](State& at) { read(at); });
    for (std::uint32_t layer = 0; layer < job_.workload.forward.size(); ++layer) {
      if (carries_ && iteration_ > 0)
        for (const std::uint32_t group : by_first_layer_[layer]) {
          gather_next(group);
          each_worker([&](State& at) { receive(at, group); });
        }
      each_worker([&](State& at) { forward(at, layer, layer); });
    }
  }

  void forward(State& at, std::uint32_t layer, std::uint32_t item) {
    const std::vector<TaskId> awaited = std::exchange(at.awaited, {});
    const TaskId task = compute(at, Kind::forward, item, job_.workload.forward[layer]);
    for (const TaskId earlier : awaited) wait(task, earlier);
  }

  /// What comes between a group's all-gather and the forward pass of its layers.
  void receive(State& at, std::uint32_t group) {
    if (communicates_ && is_in_order_) at.awaited.clear();  // those before it have ended by then
    if (communicates_) at.awaited.push_back(*delivered_[group]);
    const auto run = [&](Kind kind, Time duration) {
      if (duration == Time::zero()) return;
      const TaskId task = compute(at, kind, group, duration);
      for (const TaskId earlier : std::exchange(at.awaited, {})) wait(task, earlier);
    };
    run(Kind::decode, transfer_of(group).decode(bytes_of(group)));
    if (job_.program.update == Update::by_group) run(Kind::group_update, update_of(group));
  }

  const TransferCost& transfer_of(std::uint32_t group) const {
    return transfers_[job_.groups[group].transfer];
  }

  /// What ways cost in the iteration that begins.
  void take_transfers() {
    if (!has_spikes_) return;
    of_iteration_.clear();
    for (const TransferCost& transfer : job_.transfers)
      of_iteration_.push_back(transfer.in_iteration(iteration_));
    transfers_ = of_iteration_;
  }

  std::int64_t bytes_of(std::uint32_t group) const {
    return planner::bytes_of(job_.workload, job_.groups[group]);
  }
  Time update_of(std::uint32_t group) const {
    return group_update(job_.workload, job_.extras, job_.groups[group]);
  }

  void further_micro_batches(State& at) {
    for (std::uint32_t batch = 1; batch < job_.micro_batches; ++batch) {
      compute(at, Kind::micro_batch_backward, batch - 1, job_.workload.backward_total);
      compute(at, Kind::micro_batch_forward, batch, job_.workload.forward_total);
    }
  }

  /// As soon as its first task can run.
  void note_backward_begin(State& at) {
    at.backward_begins_after = at.next_compute_waits_for;
    if (at.last_compute) at.backward_begins_after.push_back(*at.last_compute);
  }

  void backward_of_last_micro_batch(State& at) {
    note_backward_begin(at);
    at.sendable.assign(job_.groups.size(), TaskId{});
    for (std::uint32_t step = 0; step < job_.workload.backward.size(); ++step) {
      at.backward_end = compute(at, Kind::backward, step, job_.workload.backward[step].duration);
      for (const std::uint32_t group : by_last_step_[step]) encode(at, group);
    }
    for (const std::uint32_t group : by_last_step_.back()) encode(at, group);
    at.backward_end = *at.last_compute;
  }

  void encode(State& at, std::uint32_t group) {
    const Time duration = transfer_of(group).encode(bytes_of(group));
    at.sendable[group] =
        duration > Time::zero() ? compute(at, Kind::encode, group, duration) : at.backward_end;
  }

  void communicate() {
    last_tick_.reset();
    if (job_.program.by_layer) last_on_channel_.clear();  // all before has been waited for
    bool updated = false;
    std::uint32_t ahead = 0;
    for (const Op& op : job_.program.ops) {
      if (op.issue == Issue::updated && !std::exchange(updated, true)) update_at_once();
      if (op.issue == Issue::drained && !std::exchange(updated, true)) drain();
      if (!communicates_) continue;
      const bool is_ahead =
          op.issue == Issue::drained && ahead++ >= job_.program.prefetch.value_or(UINT32_MAX);
      if (is_ahead)
        later_gathers_.push_back(&op);
      else
        add_collective(op);
    }
    const bool no_lars = job_.extras.lars == Time::zero() && job_.extras.lars_gather == Time::zero();
    const bool updates_in_transit = job_.program.by_layer && no_lars;
    if (!updated && !updates_in_transit) update_at_once();
    if (!carries_ && communicates_) await_channel();
  }

  TaskId add_to_channel(const Op& op, std::uint32_t iteration) {
    const TransferCost& transfer = transfer_of(op.group);
    const std::int64_t bytes = bytes_of(op.group);
    const Kind kind = label_kind(transfer.is_encoded(bytes) ? transfer.carrier(op.kind) : op.kind);
    const Time duration = job_.program.negotiation + transfer.time(op.kind, bytes);
    return job_.program.by_layer ? by_layer(kind, op.group, duration)
                                 : channel(kind, op.group, duration, iteration);
  }

  /// On one channel what comes later waits anyway.
  void await_drained(TaskId task) {
    if (job_.channels == 1) return;
    for (const TaskId earlier : drained_) wait(task, earlier);
  }

  void add_collective(const Op& op) {
    const Group& group = job_.groups[op.group];
    std::optional<TaskId> tick;
    const bool has_tick = group.tick > Time::zero();
    if (has_tick && (op.issue == Issue::gradients || op.issue == Issue::backward_end))
      tick = tick_of(op.group);
    const TaskId task = add_to_channel(op, iteration_);
    wait(task, tick);
    const bool drained = op.issue == Issue::drained || op.issue == Issue::updated;
    if (drained) await_drained(task);
    for (State& at : workers_) {
      wait(task, drained ? at.drained_after : at.sendable[op.group]);
      if (op.delivers != Delivers::next_iteration) continue;
      const Time duration = transfer_of(op.group).decode(bytes_of(op.group));
      if (duration > Time::zero()) wait(compute(at, Kind::decode, op.group, duration), task);
    }
    if (op.delivers == Delivers::own_layers) delivered_[op.group] = task;
  }

  /// Forward has come to a group: of those that were not to be gathered so far ahead the next one may go.
  void gather_next(std::uint32_t come_to) {
    if (later_gathers_.empty()) return;
    const Op& op = *later_gathers_.front();
    later_gathers_.pop_front();
    const TaskId task = add_to_channel(op, iteration_ - 1);
    each_worker([&](State& at) { wait(task, at.last_compute); });
    await_drained(task);
    if (job_.channels > 1) wait(task, delivered_[come_to]);
    delivered_[op.group] = task;
  }

  // ---- parameters that are gathered for each pass

  void run_sharded() {
    last_tick_.reset();
    each_worker([&](State& at) { read(at); });
    for (std::uint32_t batch = 0; batch < job_.micro_batches; ++batch) {
      sharded_forward(batch);
      sharded_backward(batch);
    }
    update_at_once();
    if (communicates_) await_channel();
  }

  void sharded_forward(std::uint32_t batch) {
    begin_pass(Issue::forward, batch);
    for (std::uint32_t layer = 0; layer < job_.workload.forward.size(); ++layer) {
      for (const std::uint32_t group : by_first_layer_[layer]) come_to(group);
      const auto item = static_cast<std::uint32_t>(batch * job_.workload.forward.size() + layer);
      each_worker([&](State& at) { forward(at, layer, item); });
    }
  }

  /// Only the last micro-batch's gradients are scattered.
  void sharded_backward(std::uint32_t batch) {
    const std::uint32_t before_last = job_.micro_batches - 1 - batch;
    each_worker([&](State& at) { at.sendable.assign(job_.groups.size(), TaskId{}); });
    begin_pass(Issue::backward, before_last);
    for (std::uint32_t step = 0; step < job_.workload.backward.size(); ++step) {
      for (const std::uint32_t group : by_first_step_[step]) come_to(group);
      if (step == 0) each_worker([&](State& at) { note_backward_begin(at); });
      const auto item = static_cast<std::uint32_t>(before_last * job_.workload.backward.size() + step);
      each_worker([&](State& at) {
        at.backward_end = compute(at, Kind::backward, item, job_.workload.backward[step].duration);
      });
      if (before_last == 0)
        for (const std::uint32_t group : by_last_step_[step]) scatter(group);
    }
  }

  void scatter(std::uint32_t group) {
    each_worker([&](State& at) { encode(at, group); });
    if (!communicates_) return;
    for (const Op& op : job_.program.ops)
      if (op.group == group && op.issue == Issue::gradients) add_collective(op);
  }

  /// A pass uses the groups in the order of its ops; what it does not gather is there.
  void begin_pass(Issue issue, std::uint32_t batch) {
    pass_ = {.issue = issue, .batch = batch, .gathers = {}, .order = {}};
    pass_.gathers.resize(job_.groups.size());
    for (const Op& op : job_.program.ops)
      if (op.issue == issue) pass_.gathers[op.group] = &op;
    for (std::uint32_t i = 0; i < job_.groups.size(); ++i)
      pass_.order.push_back(issue == Issue::forward ? static_cast<std::uint32_t>(job_.groups.size()) - 1 - i
                                                    : i);
    while (pass_.issued < job_.program.prefetch.value_or(UINT32_MAX) && pass_.issued < pass_.order.size())
      gather_for_pass();
  }

  /// In the order of their use: the one that is so many groups ahead, which may be the group itself.
  void come_to(std::uint32_t group) {
    if (pass_.issued < pass_.order.size()) gather_for_pass();
    if (const std::optional<TaskId> gathered = delivered_[group])
      each_worker([&](State& at) {
        if (is_in_order_) at.next_compute_waits_for.clear();  // those before it have ended by then
        at.next_compute_waits_for.push_back(*gathered);
      });
  }

  void gather_for_pass() {
    const std::uint32_t group = pass_.order[pass_.issued++];
    delivered_[group].reset();
    if (!communicates_ || pass_.gathers[group] == nullptr) return;
    const bool is_forward = pass_.issue == Issue::forward;
    const auto item = static_cast<std::uint32_t>(pass_.batch * job_.groups.size() + group);
    const TaskId task =
        channel(is_forward ? Kind::all_gather : Kind::backward_gather, item,
                transfer_of(group).time(CollectiveKind::all_gather, bytes_of(group)), iteration_);
    each_worker([&](State& at) { wait(task, at.last_compute); });
    await_drained(task);
    delivered_[group] = task;
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
      for (const State& worker : workers_)
        for (const TaskId earlier : worker.backward_begins_after) wait(task, earlier);
    last_tick_ = task;
    last_tick_at_ = at;
    return task;
  }

  /// From here on everything waits for the channel and for backward.
  void drain() {
    if (communicates_) await_channel();
    lars();
    drained_ = last_on_channel_;
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
    const std::vector<TaskId> before = job_.channels > 1 ? last_on_channel_ : std::vector<TaskId>();
    const TaskId gather = channel(Kind::lars_gather, 0, job_.extras.lars_gather, iteration_);
    for (const TaskId earlier : before) wait(gather, earlier);
    each_worker([&](State& at) {
      wait(gather, at.last_compute);
      if (!carries_ || job_.program.by_layer) at.next_compute_waits_for = {gather};
    });
  }

  /// One pass over the groups.
  struct Pass {
    Issue issue = Issue::forward;
    std::uint32_t batch = 0;
    std::vector<const Op*> gathers;    ///< by group; null: its parameters are there
    std::vector<std::uint32_t> order;  ///< of use
    std::size_t issued = 0;            ///< of them
  };

  const Job& job_;
  std::span<const TransferCost> transfers_;  ///< of the iteration
  bool has_spikes_;                          ///< some iterations cost more than others
  std::vector<TransferCost> of_iteration_;
  bool communicates_;
  bool carries_;  ///< collectives reach under the next forward pass
  bool shards_;   ///< collectives come before passes
  std::vector<std::vector<std::uint32_t>> by_first_layer_;
  std::vector<std::vector<std::uint32_t>> by_last_step_;
  std::vector<std::vector<std::uint32_t>> by_first_step_;  ///< where collectives come before passes
  sim::TaskGraphBuilder builder_;
  std::vector<std::vector<TaskId>> marks_;

  std::uint32_t iteration_ = 0;
  std::vector<State> workers_;
  bool is_in_order_;  ///< what is communicated ends in the order in which it is added
  std::uint32_t turn_ = 0;
  std::vector<TaskId> last_on_channel_;  ///< all that was added ends when these have ended
  std::vector<TaskId> drained_;          ///< likewise, all before what is issued when drained
  std::deque<const Op*> later_gathers_;  ///< beyond those that may be ahead
  Pass pass_;
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

sim::StreamId Lowered::channel(std::uint32_t n) {
  return n == 0 ? kChannel : sim::StreamId{static_cast<std::uint32_t>(kInput) + n};
}

bool Lowered::is_channel(sim::StreamId stream) const {
  if (stream == kChannel) return true;
  return channels > 1 && stream > kInput;
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

namespace {

/// The update of what lies between two places in the gradients' bytes.
Time update_between(const Workload& workload, const Extras& extras, std::int64_t from, std::int64_t to) {
  const auto of_first = [&](std::int64_t bytes) {
    const double share = static_cast<double>(bytes) / static_cast<double>(workload.bytes());
    return sim::from_us(sim::to_us(extras.update) * share);
  };
  return of_first(to) - of_first(from);
}

}  // namespace

Time group_update(const Workload& workload, const Extras& extras, std::uint32_t begin, std::uint32_t end) {
  return update_between(workload, extras, workload.bytes_before[begin], workload.bytes_before[end]);
}

Time group_update(const Workload& workload, const Extras& extras, const Group& group) {
  if (!group.part) return group_update(workload, extras, group.begin, group.end);
  const std::int64_t from = workload.bytes_before[group.begin] + group.part->from;
  return update_between(workload, extras, from, from + group.part->bytes);
}

}  // namespace planner
