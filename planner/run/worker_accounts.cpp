#include "planner/run/worker_accounts.hpp"

#include <algorithm>

#include "sim/worker_times.hpp"

namespace planner {

using sim::Time;
using Kind = TaskLabel::Kind;

Time Busy::*Busy::part(Kind kind) {
  switch (kind) {
    case Kind::forward:
    case Kind::micro_batch_forward: return &Busy::forward;
    case Kind::backward:
    case Kind::micro_batch_backward: return &Busy::backward;
    case Kind::encode: return &Busy::encode;
    case Kind::decode: return &Busy::decode;
    case Kind::lars:
    case Kind::update:
    case Kind::group_update: return &Busy::update;
    case Kind::read:
    case Kind::tick:
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::backward_gather:
    case Kind::forward_gather:
    case Kind::lars_gather: return nullptr;
  }
  return nullptr;
}

WorkerAccounts::WorkerAccounts(const Setting& setting, const Executable& executable,
                               const std::vector<std::int64_t>& shown)
    : executable_(executable), marks_by_task_(executable.lowered.graph.tasks().size()) {
  const auto workers = static_cast<std::size_t>(setting.costs.workers());
  for (std::size_t kind = 0; kind < first_of_.size(); ++kind)
    first_of_[kind] = first_counted(executable, static_cast<TaskLabel::Kind>(kind));
  out_.marks.assign(executable.lowered.marks.size(), std::vector<Time>(workers));
  out_.busy.resize(workers);
  out_.waited.resize(workers);
  out_.kept_waiting.resize(workers);
  for (const std::int64_t worker : shown)
    out_.shown.push_back(
        {.worker = worker,
         .timeline = {.spans = std::vector<sim::Span>(executable.lowered.graph.tasks().size())}});
  for (std::size_t mark = 0; mark < executable.lowered.marks.size(); ++mark)
    for (const sim::TaskId task : executable.lowered.marks[mark])
      marks_by_task_[sim::index(task)].push_back(mark);
}

void WorkerAccounts::computes(std::size_t worker, const TaskLabel& label, Time duration) {
  Time Busy::*const part = Busy::part(label.kind);
  if (part == nullptr) return;
  out_.use.computing += duration;
  if (is_counted(label)) out_.busy[worker].*part += duration;
}

void WorkerAccounts::all_compute(const TaskLabel& label, Time duration) {
  Time Busy::*const part = Busy::part(label.kind);
  if (part == nullptr) return;
  out_.use.computing.add(duration, workers());
  if (!is_counted(label)) return;
  for (Busy& busy : out_.busy) busy.*part += duration;
}

bool WorkerAccounts::is_counted(const TaskLabel& label) const {
  return label.iteration >= first_of_.at(static_cast<std::size_t>(label.kind));
}

void WorkerAccounts::meets(const TaskLabel& label, std::span<const Time> begins, std::span<const Time> ends) {
  const Time last = sim::max_of(begins);
  const Time end = sim::max_of(ends);
  out_.use.communicating += all_busy_.add(last, end);
  if (label.iteration < first_counted(executable_.lowered)) return;
  sim::TotalTime all;
  for (std::size_t n = 0; n < begins.size(); ++n) {
    out_.waited[n] += last - begins[n];
    all += last - begins[n];
  }
  out_.kept_waiting[static_cast<std::size_t>(std::ranges::find(begins, last) - begins.begin())] += all;
  out_.channel_busy += busy_.add(last, end);
}

Time WorkerAccounts::Union::add(Time begin, Time end) {
  Time more{};
  while (!spans_.empty() && spans_.back().end >= begin) {
    begin = std::min(begin, spans_.back().start);
    end = std::max(end, spans_.back().end);
    more -= spans_.back().end - spans_.back().start;
    spans_.pop_back();
  }
  spans_.push_back({.start = begin, .end = end});
  return more + (end - begin);
}

void WorkerAccounts::ran(sim::TaskId task, std::span<const Time> begins, std::span<const Time> ends) {
  for (const std::size_t mark : marks_by_task_[sim::index(task)])
    for (std::size_t n = 0; n < ends.size(); ++n)
      out_.marks[mark][n] = std::max(out_.marks[mark][n], ends[n]);
  out_.use.length = std::max(out_.use.length, sim::max_of(ends));
  for (ShownWorker& shown : out_.shown) {
    const auto n = static_cast<std::size_t>(shown.worker);
    shown.timeline.spans[sim::index(task)] = {.start = begins[n], .end = ends[n]};
    shown.timeline.makespan = std::max(shown.timeline.makespan, ends[n]);
  }
}

}  // namespace planner
