#include "planner/graph/collectives.hpp"

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

/// The step of backward after which a group is issued; their number for those that wait for all of backward.
std::size_t step_of_issue(const Job& job, const Op& op) {
  const std::uint32_t end = job.groups[op.group].end;
  const bool waits = op.issue == Issue::backward_end;
  const bool waits_for_next = job.program.one_in_flight;
  if (waits || (waits_for_next && end == job.workload.gradient_count())) return job.workload.backward.size();
  return job.workload.gradients[waits_for_next ? end : end - 1].backward_step;
}

std::vector<std::vector<std::uint32_t>> groups_by_last_step(const Job& job) {
  std::vector<std::vector<std::uint32_t>> out(job.workload.backward.size() + 1);
  for (const Op& op : job.program.ops)
    if (op.issue == Issue::gradients || op.issue == Issue::backward_end)
      out[step_of_issue(job, op)].push_back(op.group);
  return out;
}

}  // namespace

CollectiveWriter::CollectiveWriter(GraphWriter& writer, UpdateWriter& update)
    : writer_(writer), update_(update), by_last_step_(groups_by_last_step(writer.job())) {}

void CollectiveWriter::begin_backward() {
  last_tick_.reset();
  for (WorkerTasks& at : writer_.workers()) at.sendable.assign(writer_.job().groups.size(), TaskId{});
}

void CollectiveWriter::note_backward_begin(WorkerTasks& at) {
  at.backward_begins_after = at.next_waits_for;
  if (at.last) at.backward_begins_after.push_back(*at.last);
}

void CollectiveWriter::backward(WorkerTasks& at, std::uint32_t step, std::uint32_t item) {
  at.backward_end = writer_.compute(at, Kind::backward, item, writer_.workload().backward[step].duration);
}

bool CollectiveWriter::is_task(std::uint32_t group, Time duration) const {
  if (duration > Time::zero()) return true;
  return writer_.job().has_free_codes && writer_.transfer_of(group).is_encoded(writer_.payload_of(group));
}

void CollectiveWriter::encode(WorkerTasks& at, std::uint32_t group) {
  const Time duration = writer_.transfer_of(group).encode(writer_.payload_of(group));
  at.sendable[group] =
      is_task(group, duration) ? writer_.compute(at, Kind::encode, group, duration) : at.backward_end;
}

bool CollectiveWriter::is_decoded(std::uint32_t group) const {
  return is_task(group, writer_.transfer_of(group).decode(writer_.payload_of(group)));
}

void CollectiveWriter::decode(WorkerTasks& at, std::uint32_t group) {
  writer_.compute(at, Kind::decode, group, writer_.transfer_of(group).decode(writer_.payload_of(group)));
}

TaskId CollectiveWriter::add_alone(const Op& op, std::uint32_t iteration) {
  const TransferCost& transfer = writer_.transfer_of(op.group);
  const Payload payload = writer_.payload_of(op.group);
  const Kind kind = label_kind(transfer.is_encoded(payload) ? transfer.carrier(op.kind) : op.kind);
  return writer_.collective(
      kind, op.group, sim::after(writer_.program().negotiation, transfer.time(op.kind, payload)), iteration);
}

TaskId CollectiveWriter::add_between(const Op& op, TaskId scattered) {
  const Time duration = writer_.transfer_of(op.group).time(op.kind, writer_.payload_of(op.group));
  const TaskId task = writer_.collective_between(label_kind(op.kind), op.group, duration);
  writer_.depend(task, scattered);
  return task;
}

TaskId CollectiveWriter::add(const Op& op) {
  const bool has_tick = op.issue == Issue::gradients || op.issue == Issue::backward_end;
  const std::optional<TaskId> tick = has_tick ? tick_of(op.group) : std::nullopt;
  const TaskId task = add_alone(op, writer_.iteration());
  writer_.depend(task, tick);
  if (!has_tick) update_.wait_until_drained(task);
  for (WorkerTasks& at : writer_.workers()) {
    if (has_tick) writer_.depend(task, at.sendable[op.group]);
    if (op.delivers != Delivers::next_iteration || !is_decoded(op.group)) continue;
    at.next_waits_for.push_back(task);
    decode(at, op.group);
  }
  return task;
}

/// The ticks of a cycle are consecutive tasks on their own stream, counted from the start of backward.
std::optional<TaskId> CollectiveWriter::tick_of(std::uint32_t group) {
  const Time at = writer_.job().groups[group].tick;
  if (at == Time::zero()) return {};
  const Time since = last_tick_ ? at - last_tick_at_ : at;
  if (last_tick_ && since <= Time::zero()) return last_tick_;
  const TaskId task = writer_.add_tick(group, since);
  writer_.depend(task, last_tick_);
  if (!last_tick_)
    for (const WorkerTasks& worker : writer_.workers())
      for (const TaskId earlier : worker.backward_begins_after) writer_.depend(task, earlier);
  last_tick_ = task;
  last_tick_at_ = at;
  return task;
}

}  // namespace planner
