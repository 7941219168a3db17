#include "planner/graph/graph_writer.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "planner/graph/task_factors.hpp"

namespace planner {

using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

GraphWriter::GraphWriter(const Job& job)
    : job_(job),
      channel_(job, builder_),
      workers_(job.workers.size()),
      has_spikes_(job.has_spikes && std::ranges::any_of(job.transfers, &TransferCost::has_spikes)),
      transfers_(job.transfers) {
  assert(!channel_.is_divided() || (job.workers.size() == 1 && !job.program.by_layer));
  add_streams();
  std::size_t ops = 0;
  for (const Op& op : job.program.ops) ops += job.program.runs(op, job.micro_batches);
  // with collectives of its own each micro-batch is written layer by layer
  const std::size_t passes = job.program.sends_in_each_batch() ? job.micro_batches : 1;
  const std::size_t per_worker = passes * (job.workload.forward.size() + job.workload.backward.size()) +
                                 2 * job.groups.size() + 2 * std::size_t{job.micro_batches} + 4;
  const std::size_t tasks = (per_worker * job.workers.size() + 2 * ops) * (job.iterations + 1);
  builder_.reserve(tasks, 2 * tasks + ops * job.workers.size() * job.iterations);
}

void GraphWriter::add_streams() {
  std::vector<sim::StreamId> computing;
  for (std::size_t n = 0; n < workers_.size(); ++n) {
    const std::string suffix = n == 0 ? "" : fmt::format(" of worker {}", job_.workers[n].id);
    builder_.add_stream("compute" + suffix);
    if (n == 0) {
      builder_.add_stream("communication");
      builder_.add_stream("cycle");
    }
    builder_.add_stream("input" + suffix);
    workers_[n].index = n;
    computing.push_back(Lowered::compute(n));
  }
  for (std::uint32_t n = 1; n < job_.channels; ++n)
    builder_.add_stream(fmt::format("communication, channel {}", n + 1));
  if (job_.program.has_channel_between()) builder_.add_stream("communication between shard groups");
  if (!communicates()) return;
  if (job_.program.by_layer) builder_.limit(Lowered::kChannel, job_.program.by_layer->credit_bytes);
  add_slow_downs(computing);
}

void GraphWriter::add_slow_downs(const std::vector<sim::StreamId>& computing) {
  std::vector<sim::StreamId> channels = {Lowered::kChannel};
  if (job_.program.has_channel_between()) channels.push_back(Lowered::channel(job_.channels));
  if (job_.overlap.compute_slowdown > 0)
    for (const sim::StreamId stream : computing)
      builder_.slow_down(stream, channels, 1 + job_.overlap.compute_slowdown);
  if (job_.overlap.communication_slowdown > 0)
    for (const sim::StreamId channel : channels)
      builder_.slow_down(channel, computing, 1 + job_.overlap.communication_slowdown);
}

void GraphWriter::begin_iteration(std::uint32_t iteration) {
  iteration_ = iteration;
  if (!has_spikes_) return;
  transfers_of_iteration_.clear();
  for (const TransferCost& transfer : job_.transfers)
    transfers_of_iteration_.push_back(transfer.in_iteration(iteration));
  transfers_ = transfers_of_iteration_;
}

void GraphWriter::depend(TaskId task, std::optional<TaskId> earlier) {
  if (earlier) builder_.add_dependency(*earlier, task);
}

TaskId GraphWriter::add(sim::StreamId stream, Kind kind, std::uint32_t item, Time duration) {
  const TaskLabel label = {.kind = kind, .iteration = iteration_, .item = item};
  return builder_.add_task({.duration = duration, .stream = stream, .priority = 0, .label = label.packed()});
}

TaskId GraphWriter::in_order(WorkerTasks& at, TaskId task) {
  depend(task, at.last);
  for (const TaskId earlier : at.next_waits_for) depend(task, earlier);
  at.next_waits_for.clear();
  at.last = task;
  return task;
}

TaskId GraphWriter::compute(WorkerTasks& at, Kind kind, std::uint32_t item, Time duration) {
  return in_order(at, add(Lowered::compute(at.index), kind, item, sampled(at, kind, item, duration)));
}

Time GraphWriter::sampled(const WorkerTasks& at, Kind kind, std::uint32_t item, Time duration) const {
  const Worker& worker = job_.workers[at.index];
  if (worker.slowdown == 1 && job_.jitter.sigma == 0) return duration;
  const TaskLabel label = {.kind = kind, .iteration = iteration_, .item = item};
  return sim::from_us(sim::to_us(duration) * worker.slowdown *
                      task_factor(job_.jitter, job_.jitter.sigma, worker.id, label));
}

void GraphWriter::read(WorkerTasks& at) {
  if (job_.extras.read > Time::zero())
    in_order(at, add(Lowered::input(at.index), Kind::read, 0, job_.extras.read));
}

TaskId GraphWriter::add_tick(std::uint32_t group, Time duration) {
  return add(Lowered::kTicks, Kind::tick, group, duration);
}

TaskId GraphWriter::collective(Kind kind, std::uint32_t group, Time duration, std::uint32_t iteration) {
  const TaskLabel label = {.kind = kind, .iteration = iteration, .item = group};
  if (!job_.program.by_layer) return channel_.add_in_order(label, duration);
  const auto layer = static_cast<std::int32_t>(job_.workload.gradients[job_.groups[group].end - 1].layer);
  return channel_.add_by_priority(label, duration, layer, payload_of(group).bytes);
}

TaskId GraphWriter::collective_in_order(Kind kind, std::uint32_t item, Time duration) {
  return channel_.add_in_order({.kind = kind, .iteration = iteration_, .item = item}, duration);
}

TaskId GraphWriter::collective_between(Kind kind, std::uint32_t group, Time duration) {
  return channel_.add_between({.kind = kind, .iteration = iteration_, .item = group}, duration);
}

void GraphWriter::await_channel() {
  for (WorkerTasks& at : workers_) at.next_waits_for = channel_.last();
}

void GraphWriter::mark() {
  std::vector<TaskId> tasks;
  for (const WorkerTasks& at : workers_) {
    if (at.last) tasks.push_back(*at.last);
    tasks.insert(tasks.end(), at.next_waits_for.begin(), at.next_waits_for.end());
  }
  add_mark(std::move(tasks));
}

void GraphWriter::mark_compute() {
  std::vector<TaskId> tasks;
  for (const WorkerTasks& at : workers_)
    if (at.last) tasks.push_back(*at.last);
  add_mark(std::move(tasks));
}

void GraphWriter::add_mark(std::vector<TaskId> tasks) {
  marks_.push_back(std::move(tasks));
  after_marks_.push_back(TaskId{static_cast<std::uint32_t>(builder_.task_count())});
}

Lowered GraphWriter::finish() && {
  return {.graph = std::move(builder_).build(),
          .marks = std::move(marks_),
          .after_marks = std::move(after_marks_),
          .channels = job_.channels + (job_.program.has_channel_between() ? 1 : 0),
          .negotiation = job_.program.negotiation};
}

}  // namespace planner
