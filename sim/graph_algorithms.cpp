#include "sim/graph_algorithms.hpp"

#include <algorithm>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/boost_graph.hpp"

namespace sim {
namespace {

/// Stops at the first edge that leads back to a task on the current path, and keeps the path.
class CycleFinder : public boost::dfs_visitor<> {
 public:
  CycleFinder(std::vector<std::uint32_t>& path, std::vector<TaskId>& cycle) : path_(&path), cycle_(&cycle) {}

  void discover_vertex(std::uint32_t vertex, const TaskGraph& /*graph*/) { path_->push_back(vertex); }
  void finish_vertex(std::uint32_t /*vertex*/, const TaskGraph& /*graph*/) { path_->pop_back(); }
  void back_edge(TaskEdge edge, const TaskGraph& /*graph*/) {
    if (!cycle_->empty()) return;
    for (auto at = std::ranges::find(*path_, edge.later); at != path_->end(); ++at)
      cycle_->push_back(TaskId{*at});
  }

 private:
  std::vector<std::uint32_t>* path_;  // pointers, because Boost.Graph copies visitors
  std::vector<TaskId>* cycle_;
};

/// The colours with which a search marks the tasks it has visited.
class Colours {
 public:
  explicit Colours(std::size_t tasks) : colours_(tasks) {}

  auto map() {
    return boost::make_iterator_property_map(colours_.begin(),
                                             boost::typed_identity_property_map<std::uint32_t>());
  }

 private:
  std::vector<boost::default_color_type> colours_;
};

std::string cycle_message(const std::vector<TaskId>& cycle) {
  std::string out = "tasks wait for one another:";
  for (const TaskId task : cycle) out += fmt::format(" {} ->", index(task));
  return out + fmt::format(" {}", index(cycle.front()));
}

}  // namespace

CycleError::CycleError(std::vector<TaskId> cycle)
    : std::invalid_argument(cycle_message(cycle)), cycle_(std::move(cycle)) {}

std::vector<TaskId> find_cycle(const TaskGraph& graph) {
  std::vector<std::uint32_t> path;
  std::vector<TaskId> cycle;
  Colours colours(graph.tasks().size());
  boost::depth_first_search(graph, boost::visitor(CycleFinder(path, cycle)).color_map(colours.map()));
  return cycle;
}

std::vector<TaskId> topological_order(const TaskGraph& graph) {
  std::vector<std::uint32_t> reversed;
  reversed.reserve(graph.tasks().size());
  try {
    Colours colours(graph.tasks().size());
    boost::topological_sort(graph, std::back_inserter(reversed), boost::color_map(colours.map()));
  } catch (const boost::not_a_dag&) {
    throw CycleError(find_cycle(graph));
  }
  std::vector<TaskId> order(reversed.size());
  std::transform(reversed.rbegin(), reversed.rend(), order.begin(),
                 [](std::uint32_t vertex) { return TaskId{vertex}; });
  return order;
}

std::vector<TaskId> critical_path(const TaskGraph& graph, const Timeline& timeline) {
  // A task waited for the last end at the instant of its start, among its predecessors and the previous task
  // on its stream. Zero-length tasks can make that ambiguous; visiting tasks in an order in which they can
  // have run (start, end, then topological position) keeps the path finite.
  const std::vector<TaskId> order = topological_order(graph);
  std::vector<std::optional<TaskId>> waited_for(graph.tasks().size());
  for (const TaskId task : order)
    for (const TaskId next : graph.successors(task))
      if (timeline.spans[index(task)].end == timeline.spans[index(next)].start)
        waited_for[index(next)] = task;

  std::vector<std::size_t> position(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) position[index(order[i])] = i;
  std::vector<std::vector<TaskId>> by_stream(graph.streams().size());
  for (const TaskId task : order) by_stream[index(graph.tasks()[index(task)].stream)].push_back(task);
  for (std::vector<TaskId>& tasks : by_stream) {
    std::ranges::sort(tasks, [&](TaskId a, TaskId b) {
      const Span& one = timeline.spans[index(a)];
      const Span& other = timeline.spans[index(b)];
      if (one.start != other.start) return one.start < other.start;
      if (one.end != other.end) return one.end < other.end;
      return position[index(a)] < position[index(b)];
    });
    for (std::size_t i = 1; i < tasks.size(); ++i)
      if (!waited_for[index(tasks[i])] &&
          timeline.spans[index(tasks[i - 1])].end == timeline.spans[index(tasks[i])].start)
        waited_for[index(tasks[i])] = tasks[i - 1];
  }

  std::optional<TaskId> last;
  for (const TaskId task : order)
    if (timeline.spans[index(task)].end == timeline.makespan) last = task;
  std::vector<TaskId> path;
  for (std::optional<TaskId> task = last; task; task = waited_for[index(*task)]) path.push_back(*task);
  std::ranges::reverse(path);
  return path;
}

}  // namespace sim
