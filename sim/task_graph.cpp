#include "sim/task_graph.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace sim {
namespace {

[[maybe_unused]] bool at_most_one_for_a_stream(std::span<const Interference> rules, std::size_t streams) {
  std::vector<bool> has_one(streams);
  for (const Interference& rule : rules) {
    if (has_one[index(rule.stream)]) return false;
    has_one[index(rule.stream)] = true;
  }
  return true;
}

}  // namespace

TaskGraph TaskGraph::with_free(const std::vector<bool>& is_free) const {
  assert(is_free.size() == tasks_.size());
  TaskGraph out = *this;
  for (std::size_t task = 0; task < tasks_.size(); ++task)
    if (is_free[task]) out.tasks_[task].duration = Time::zero();
  return out;
}

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

void TaskGraphBuilder::slow_down(StreamId stream, std::vector<StreamId> by, double factor) {
  assert(index(stream) < graph_.streams_.size());
  assert(std::ranges::all_of(
      by, [&](StreamId other) { return other != stream && index(other) < graph_.streams_.size(); }));
  assert(factor >= 1 && std::isfinite(factor));
  graph_.interferences_.push_back({.stream = stream, .by = std::move(by), .factor = factor});
}

void TaskGraphBuilder::limit(StreamId stream, std::int64_t credit) {
  assert(index(stream) < graph_.streams_.size() && credit > 0);
  assert(std::ranges::none_of(graph_.windows_, [&](const Window& other) { return other.stream == stream; }));
  graph_.windows_.push_back({.stream = stream, .credit = credit});
}

void TaskGraphBuilder::set_size(TaskId task, std::int64_t size) {
  assert(index(task) < graph_.tasks_.size() && size >= 0);
  assert(graph_.sizes_.empty() || graph_.sizes_.back().first < task);
  graph_.sizes_.emplace_back(task, size);
}

void TaskGraphBuilder::reserve(std::size_t tasks, std::size_t dependencies) {
  graph_.tasks_.reserve(tasks);
  dependencies_.reserve(dependencies);
}

TaskGraph TaskGraphBuilder::build() && {
  assert(at_most_one_for_a_stream(graph_.interferences_, graph_.streams_.size()));
  // A counting sort by the earlier task; within a row the order of add_dependency() is kept.
  std::vector<std::uint32_t>& starts = graph_.row_starts_;
  starts.assign(graph_.tasks_.size() + 1, 0);
  for (const auto& [earlier, later] : dependencies_) ++starts[index(earlier) + 1];
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  graph_.targets_.resize(dependencies_.size());
  for (const auto& [earlier, later] : dependencies_) graph_.targets_[starts[index(earlier)]++] = later;
  // Each start had moved to its row's end.
  for (std::size_t i = starts.size() - 1; i > 0; --i) starts[i] = starts[i - 1];
  starts[0] = 0;
  dependencies_ = {};
  return std::move(graph_);
}

}  // namespace sim
