#include "planner/graph/channel.hpp"

namespace planner {

using sim::TaskId;
using sim::Time;

TaskId ChannelWriter::add_in_order(const TaskLabel& label, Time duration) {
  const std::uint32_t turn = added_++ % job_.channels;
  const TaskId task = builder_.add_task(
      {.duration = duration, .stream = Lowered::channel(turn), .priority = 0, .label = label.packed()});
  if (last_.size() == turn) {
    last_.push_back(task);
  } else {
    builder_.add_dependency(last_[turn], task);
    last_[turn] = task;
  }
  return task;
}

TaskId ChannelWriter::add_by_priority(const TaskLabel& label, Time duration, std::int32_t priority,
                                      std::int64_t bytes) {
  const TaskId task = builder_.add_task(
      {.duration = duration, .stream = Lowered::kChannel, .priority = priority, .label = label.packed()});
  builder_.set_size(task, bytes);
  last_.push_back(task);
  return task;
}

TaskId ChannelWriter::add_between(const TaskLabel& label, Time duration) {
  const TaskId task = builder_.add_task({.duration = duration,
                                         .stream = Lowered::channel(job_.channels),
                                         .priority = 0,
                                         .label = label.packed()});
  if (last_between_) builder_.add_dependency(*last_between_, task);
  last_between_ = task;
  return task;
}

std::vector<TaskId> ChannelWriter::last() const {
  std::vector<TaskId> out = last_;
  if (last_between_) out.push_back(*last_between_);
  return out;
}

void ChannelWriter::forget() { last_.clear(); }

}  // namespace planner
