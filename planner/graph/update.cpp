#include "planner/graph/update.hpp"

namespace planner {

using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

void UpdateWriter::drain() {
  if (writer_.communicates()) writer_.await_channel();
  compute_rates();
  drained_ = writer_.channel().last();
  for (WorkerTasks& at : writer_.workers()) at.drained_after = at.last;
}

void UpdateWriter::update_at_once() {
  drain();
  const Time update = writer_.job().extras.update;
  if (writer_.program().update == Update::by_group || update == Time::zero()) return;
  for (WorkerTasks& at : writer_.workers()) at.drained_after = writer_.compute(at, Kind::update, 0, update);
}

/// LARS or LAMB with the parallel tensor operator: each worker computes a share of the rates, then an
/// all-gather distributes them.
void UpdateWriter::compute_rates() {
  const Job& job = writer_.job();
  if (job.extras.lars > Time::zero())
    for (WorkerTasks& at : writer_.workers()) writer_.compute(at, Kind::lars, 0, job.extras.lars);
  if (job.extras.lars_gather == Time::zero() || !writer_.communicates()) return;
  const std::vector<TaskId> before =
      writer_.channel().is_divided() ? writer_.channel().last() : std::vector<TaskId>();
  const TaskId gather = writer_.collective_in_order(Kind::lars_gather, 0, job.extras.lars_gather);
  for (const TaskId earlier : before) writer_.depend(gather, earlier);
  for (WorkerTasks& at : writer_.workers()) {
    writer_.depend(gather, at.last);
    if (!keeps_gathers_apart_ || job.program.by_layer) at.next_waits_for = {gather};
  }
}

void UpdateWriter::wait_until_drained(TaskId collective) {
  wait_for_drained_channel(collective);
  for (const WorkerTasks& at : writer_.workers()) writer_.depend(collective, at.drained_after);
}

void UpdateWriter::wait_for_drained_channel(TaskId collective) {
  if (!writer_.channel().is_divided()) return;
  for (const TaskId earlier : drained_) writer_.depend(collective, earlier);
}

}  // namespace planner
