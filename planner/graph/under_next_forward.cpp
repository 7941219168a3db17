#include "planner/graph/under_next_forward.hpp"

#include "planner/graph/groups_by_layer.hpp"

namespace planner {

using sim::TaskId;
using sim::Time;
using Kind = TaskLabel::Kind;

UnderNextForward::UnderNextForward(GraphWriter& writer, CollectiveWriter& collectives, UpdateWriter& update)
    : writer_(writer),
      collectives_(collectives),
      update_(update),
      by_first_layer_(
          groups_by_first_layer(writer.workload(), writer.job().groups, writer.program().sharding)),
      delivered_(writer.job().groups.size()) {}

void UnderNextForward::come_to(std::uint32_t layer) {
  for (const std::uint32_t group : by_first_layer_[layer]) {
    issue_next(group);
    for (WorkerTasks& at : writer_.workers()) receive(at, group);
  }
}

void UnderNextForward::issue_next(std::uint32_t come_to) {
  if (deferred_.empty()) return;
  const Op& op = *deferred_.front();
  deferred_.pop_front();
  const TaskId task = collectives_.add_alone(op, writer_.iteration() - 1);
  for (const WorkerTasks& at : writer_.workers()) writer_.depend(task, at.last);
  update_.wait_for_drained_channel(task);
  if (writer_.job().channels > 1) writer_.depend(task, delivered_[come_to]);
  deliver(op.group, task);
}

/// Adds the tasks between a group's collective and the forward pass of its layers.
void UnderNextForward::receive(WorkerTasks& at, std::uint32_t group) {
  if (writer_.communicates()) {
    if (writer_.channel().is_in_order()) at.next_waits_for.clear();  // earlier ones have ended by then
    at.next_waits_for.push_back(delivered_[group]);
  }
  if (collectives_.is_decoded(group)) collectives_.decode(at, group);
  if (writer_.program().update != Update::by_group) return;
  const Time update = group_update(writer_.workload(), writer_.job().extras, writer_.job().groups[group]);
  if (update > Time::zero()) writer_.compute(at, Kind::group_update, group, update);
}

}  // namespace planner
