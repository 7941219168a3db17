#include "planner/graph/task_order.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace planner {

using sim::TaskId;

std::vector<TaskId> order_with_few_times(const Lowered& lowered) {
  const std::span<const sim::Task> tasks = lowered.graph.tasks();
  const auto is_shared = [&](std::size_t task) { return lowered.is_shared(tasks[task].stream); };
  // By task: the id + 1 of the last task of the workers that has to run before it, or 0.
  std::vector<std::uint32_t> after_own(tasks.size());
  // By task: the id + 1 of the last shared task among its predecessors, or 0.
  std::vector<std::uint32_t> after_shared(tasks.size());
  // By task: whether a task of the workers is among its predecessors.
  std::vector<bool> follows_own(tasks.size());
  std::vector<TaskId> shared;
  std::uint32_t last = 0;  // shared tasks run one after the other
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    if (is_shared(i)) {
      after_own[i] = last = std::max(last, after_own[i]);
      shared.push_back(TaskId{i});
    }
    for (const TaskId next : lowered.graph.successors(TaskId{i})) {
      const std::size_t to = sim::index(next);
      assert(to > i);
      after_own[to] = std::max(after_own[to], is_shared(i) ? after_own[i] : i + 1);
      if (is_shared(i)) after_shared[to] = std::max(after_shared[to], i + 1);
      if (!is_shared(i)) follows_own[to] = true;
    }
  }
  std::vector<TaskId> out;
  out.reserve(tasks.size());
  std::size_t added = 0;     // of the shared tasks
  std::size_t can_run = 0;   // after the tasks of the workers so far
  std::size_t as_early = 0;  // of these, the last that follows a task of the workers
  const auto add_shared = [&](std::size_t end) {
    for (; added < end; ++added) out.push_back(shared[added]);
  };
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    if (is_shared(i)) continue;
    while (added < shared.size() && sim::index(shared[added]) < after_shared[i])
      out.push_back(shared[added++]);
    out.push_back(TaskId{i});
    for (; can_run < shared.size() && after_own[sim::index(shared[can_run])] <= i + 1; ++can_run)
      if (follows_own[sim::index(shared[can_run])]) as_early = can_run + 1;
    add_shared(as_early);
  }
  add_shared(shared.size());
  return out;
}

}  // namespace planner
