// Adapts TaskGraph to Boost.Graph without a copy: the traits and free functions of the VertexListGraph and
// IncidenceGraph concepts.

#pragma once

#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/iterator_facade.hpp>
#include <boost/property_map/property_map.hpp>
#include <utility>

#include "sim/task_graph.hpp"

namespace sim {

/// The edge from `earlier` to its `row`-th successor `later`.
struct TaskEdge {
  std::uint32_t earlier = 0;
  std::uint32_t later = 0;
  bool operator==(const TaskEdge&) const = default;
};

class TaskEdgeIterator
    : public boost::iterator_facade<TaskEdgeIterator, TaskEdge, boost::forward_traversal_tag, TaskEdge> {
 public:
  TaskEdgeIterator() = default;
  TaskEdgeIterator(std::uint32_t earlier, const TaskId* later) : earlier_(earlier), later_(later) {}

 private:
  friend class boost::iterator_core_access;
  TaskEdge dereference() const { return {earlier_, static_cast<std::uint32_t>(*later_)}; }
  bool equal(const TaskEdgeIterator& other) const { return later_ == other.later_; }
  void increment() { ++later_; }

  std::uint32_t earlier_ = 0;
  const TaskId* later_ = nullptr;
};

struct TaskGraphCategory : boost::vertex_list_graph_tag, boost::incidence_graph_tag {};

using TaskVertexIterator = boost::counting_iterator<std::uint32_t>;

inline std::pair<TaskVertexIterator, TaskVertexIterator> vertices(const TaskGraph& graph) {
  return {TaskVertexIterator(0), TaskVertexIterator(static_cast<std::uint32_t>(graph.tasks().size()))};
}
inline std::size_t num_vertices(const TaskGraph& graph) { return graph.tasks().size(); }

inline std::pair<TaskEdgeIterator, TaskEdgeIterator> out_edges(std::uint32_t vertex, const TaskGraph& graph) {
  const auto row = graph.successors(TaskId{vertex});
  return {TaskEdgeIterator(vertex, row.data()), TaskEdgeIterator(vertex, row.data() + row.size())};
}
inline std::size_t out_degree(std::uint32_t vertex, const TaskGraph& graph) {
  return graph.successors(TaskId{vertex}).size();
}
inline std::uint32_t source(TaskEdge edge, const TaskGraph& /*graph*/) { return edge.earlier; }
inline std::uint32_t target(TaskEdge edge, const TaskGraph& /*graph*/) { return edge.later; }

inline boost::typed_identity_property_map<std::uint32_t> get(boost::vertex_index_t /*tag*/,
                                                             const TaskGraph& /*graph*/) {
  return {};
}

}  // namespace sim

namespace boost {

template <>
struct graph_traits<sim::TaskGraph> {
  using traversal_category = sim::TaskGraphCategory;
  using directed_category = directed_tag;
  using edge_parallel_category = allow_parallel_edge_tag;
  using vertex_descriptor = std::uint32_t;
  using edge_descriptor = sim::TaskEdge;
  using vertex_iterator = sim::TaskVertexIterator;
  using out_edge_iterator = sim::TaskEdgeIterator;
  using vertices_size_type = std::size_t;
  using degree_size_type = std::size_t;
  static vertex_descriptor null_vertex() { return UINT32_MAX; }
};

template <>
struct property_map<sim::TaskGraph, vertex_index_t> {
  using type = typed_identity_property_map<std::uint32_t>;
  using const_type = type;
};

}  // namespace boost
