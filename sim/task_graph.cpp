#include "sim/task_graph.hpp"

#include <cassert>

namespace sim {

StreamId TaskGraphBuilder::add_stream(std::string name) {
  graph_.streams_.push_back(std::move(name));
  return StreamId{static_cast<std::uint32_t>(graph_.streams_.size() - 1)};
}

TaskId TaskGraphBuilder::add_task(Task task) {
  assert(index(task.stream) < graph_.streams_.size());
  assert(task.duration >= Time::zero());
  graph_.tasks_.push_back(task);
  return TaskId{static_cast<std::uint32_t>(graph_.tasks_.size() - 1)};
}

void TaskGraphBuilder::add_dependency(TaskId earlier, TaskId later) {
  assert(index(earlier) < graph_.tasks_.size() && index(later) < graph_.tasks_.size());
  dependencies_.emplace_back(earlier, later);
}

void TaskGraphBuilder::reserve(std::size_t tasks, std::size_t dependencies) {
  graph_.tasks_.reserve(tasks);
  dependencies_.reserve(dependencies);
}

TaskGraph TaskGraphBuilder::build() && {
  // A counting sort by the earlier task; within a row the order of add_dependency stays.
  std::vector<std::uint32_t>& starts = graph_.row_starts_;
  starts.assign(graph_.tasks_.size() + 1, 0);
  for (const auto& [earlier, later] : dependencies_) ++starts[index(earlier) + 1];
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  graph_.targets_.resize(dependencies_.size());
  for (const auto& [earlier, later] : dependencies_) graph_.targets_[starts[index(earlier)]++] = later;
  for (std::size_t i = starts.size() - 1; i > 0; --i) starts[i] = starts[i - 1];  // each had moved to its end
  starts[0] = 0;
  dependencies_ = {};
  return std::move(graph_);
}

}  // namespace sim
