#include "sim/cluster/tree_streams.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace cluster {

using sim::Time;

TreeStreams::TreeStreams(std::shared_ptr<const DoubleBinaryTree> trees, const Links& links,
                         std::uint64_t draws_from, const Flows* flows)
    : trees_(std::move(trees)),
      children_(2 * std::size_t{trees_->ranks()}, {Tree::kRoot, Tree::kRoot}),
      points_(slots(trees_->ranks())),
      streams_(slots(trees_->ranks())),
      ranks_(trees_->ranks()) {
  find_children();
  find_costs(links, draws_from, flows);
}

/// On the way up a rank waits for itself and its children, on the way down for its parent; the root waits for
/// itself.
void TreeStreams::find_children() {
  for (Point& each : points_) each.heads_missing = each.tails_missing = 1;
  for (std::uint32_t tree = 0; tree < 2; ++tree)
    for (const std::uint32_t rank : trees_->trees()[tree].order) {
      const std::uint32_t above = parent({.tree = tree, .rank = rank});
      if (above == Tree::kRoot) continue;
      auto& children = children_[std::size_t{tree} * trees_->ranks() + above];
      children[children[0] == Tree::kRoot ? 0 : 1] = rank;
      Point& up = point({.tree = tree, .rank = above, .is_up = true});
      ++up.heads_missing;
      ++up.tails_missing;
      ++ranks_[above].halves_missing;
    }
}

/// With a topology, the links determine the time of the bytes.
void TreeStreams::find_costs(const Links& links, std::uint64_t draws_from, const Flows* flows) {
  const TreeEdges edges(*trees_, links, draws_from);
  for (const bool is_up : {false, true}) {
    std::vector<double> port_us(trees_->ranks());
    if (flows == nullptr) port_us = edges.incoming_us(is_up);
    if (flows != nullptr && is_up) port_us = edges.sums_us();
    for (std::uint32_t i = 0; i < 2 * trees_->ranks(); ++i) {
      const TreePlace place = {.tree = i % 2, .rank = i / 2, .is_up = is_up};
      const bool receives = is_up ? point(place).heads_missing > 1 : parent(place) != Tree::kRoot;
      if (receives) point(place).port_us = port_us[place.rank];
      if (parent(place) == Tree::kRoot) continue;
      Stream& edge = stream(place);
      if (flows == nullptr) {
        edge.first = edges(place).head;
        continue;
      }
      const Topology& topology = flows->topology();
      const double first_us =
          topology.spec.startup_us + topology.route(edges.from(place), edges.to(place)).latency_us;
      edge.factors = edges.factors(place);
      edge.first = sim::from_us(first_us * edge.factors.slowdown * edge.factors.draw);
    }
  }
}

TreePlace TreeStreams::place_of(std::uint32_t index) const {
  const std::uint32_t which = index / trees_->ranks();
  return {.tree = which / 2, .rank = index % trees_->ranks(), .is_up = which % 2 != 0};
}

template <typename Do>
void TreeStreams::each_child(std::uint32_t tree, std::uint32_t rank, const Do& act) const {
  for (const std::uint32_t child : children_[std::size_t{tree} * trees_->ranks() + rank])
    if (child != Tree::kRoot) act(child);
}

/// Returns when the first bytes of a stream are at the rank that sends them.
const TreeStreams::DecidedTime& TreeStreams::sender_head(const TreePlace& stream) const {
  const std::uint32_t sender = stream.is_up ? stream.rank : parent(stream);
  return points_[index({.tree = stream.tree, .rank = sender, .is_up = stream.is_up})].head;
}

TreePlace TreeStreams::receiver(const TreePlace& stream) const {
  return {.tree = stream.tree, .rank = stream.is_up ? parent(stream) : stream.rank, .is_up = stream.is_up};
}

void TreeStreams::enter(const Net& net, std::uint32_t rank, Time at) {
  assert(!ranks_[rank].is_inside);
  ranks_[rank].is_inside = true;
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const TreePlace own = {.tree = tree, .rank = rank, .is_up = true};
    receive_head(net, own, {.at = at, .origin = rank});
    receive_tail(net, own, {.at = at, .origin = rank});
  }
}

TreeStreams::Event TreeStreams::handle_event(const Net& net, std::uint32_t place, Time now) {
  const std::uint32_t slot = net.first_slot + place;
  if (place < ranks_.size() && ranks_[place].halves_missing == 0) return Event::left;
  const TreePlace edge = place_of(place);
  Stream& own = stream(edge);
  switch (own.state) {
    case State::flowing:
      if (!net.flows->handle_event(slot, net.queue)) return Event::none;
      own.state = State::flowed;
      point(receiver(edge)).bodies =
          later(point(receiver(edge)).bodies, {.at = now, .origin = sender_head(edge).origin});
      net.queue.set(slot, own.tail.at);  // kNever until it is known
      if (own.tail.at > now) return Event::none;
      break;
    case State::flowed:
    case State::arrived: break;
  }
  assert(own.state == State::flowed);
  own.state = State::arrived;
  net.queue.set(slot, EventQueue::kNever);
  receive_tail(net, receiver(edge), {.at = now, .origin = own.tail.origin});
  return Event::arrived;
}

void TreeStreams::receive_head(const Net& net, const TreePlace& place, const DecidedTime& when) {
  Point& own = point(place);
  own.head = later(own.head, when);
  if (--own.heads_missing == 0) pass_head(net, place);
}

void TreeStreams::pass_head(const Net& net, const TreePlace& place) {
  const DecidedTime when = point(place).head;
  if (place.is_up) {
    if (parent(place) != Tree::kRoot) send_head(net, place, when);
    return;
  }
  each_child(place.tree, place.rank, [&](std::uint32_t child) {
    send_head(net, {.tree = place.tree, .rank = child, .is_up = false}, when);
  });
}

void TreeStreams::send_head(const Net& net, const TreePlace& edge, const DecidedTime& when) {
  Stream& own = stream(edge);
  if (net.flows != nullptr) {
    const std::uint32_t slot = net.first_slot + index(edge);
    const std::uint32_t above = parent(edge);
    const auto ranks = edge.is_up ? std::pair(edge.rank, above) : std::pair(above, edge.rank);
    own.state = State::flowing;
    net.queue.set(slot, net.flows->begin(slot, ranks, trees_->half(edge.tree).size(), own.factors, when.at));
  }
  receive_head(net, receiver(edge), when + own.first);
}

/// Receiving takes its time at the rank, starting when a part of every stream has arrived.
void TreeStreams::receive_tail(const Net& net, const TreePlace& place, const DecidedTime& when) {
  Point& own = point(place);
  own.tail = later(own.tail, when);
  if (--own.tails_missing != 0) return;
  own.tail = later(own.tail, later(own.head, own.bodies) + sim::from_us(own.port_us));
  pass_tail(net, place);
}

/// A root spreads a sum only when all of it is complete.
void TreeStreams::pass_tail(const Net& net, const TreePlace& place) {
  const DecidedTime when = point(place).tail;
  const std::uint32_t above = parent(place);
  if (place.is_up && above == Tree::kRoot) {
    const TreePlace down = {.tree = place.tree, .rank = place.rank, .is_up = false};
    receive_head(net, down, when);
    receive_tail(net, down, when);
    return;
  }
  if (place.is_up) return send_tail(net, place, when);
  each_child(place.tree, place.rank, [&](std::uint32_t child) {
    send_tail(net, {.tree = place.tree, .rank = child, .is_up = false}, when);
  });
  finish_half(net, place.rank, when);
  if (above != Tree::kRoot) finish_half(net, above, when);
}

void TreeStreams::send_tail(const Net& net, const TreePlace& edge, const DecidedTime& when) {
  Stream& own = stream(edge);
  own.tail = when + own.first;
  if (own.state == State::flowed) net.queue.set(net.first_slot + index(edge), own.tail.at);
}

void TreeStreams::finish_half(const Net& net, std::uint32_t rank, const DecidedTime& when) {
  Rank& own = ranks_[rank];
  own.leaves = later(own.leaves, when);
  if (--own.halves_missing == 0) net.queue.set(net.first_slot + rank, own.leaves.at);
}

std::optional<TreeStreams::Wait> TreeStreams::waits(std::uint32_t rank) const {
  if (!ranks_[rank].is_inside || ranks_[rank].halves_missing == 0) return std::nullopt;
  std::optional<Wait> out;
  bool in_flight = false;
  const auto look = [&](const TreePlace& edge, bool comes_in) {
    const bool has_arrived = streams_[index(edge)].state == State::arrived;
    in_flight = in_flight || (has_begun(edge) && !has_arrived);
    if (!comes_in || has_arrived || out) return;
    out = {.round = edge.tree + (edge.is_up ? 0 : 2), .from = edge.is_up ? edge.rank : parent(edge)};
  };
  for (const bool is_up : {true, false})
    for (std::uint32_t tree = 0; tree < 2; ++tree) {
      each_child(tree, rank,
                 [&](std::uint32_t child) { look({.tree = tree, .rank = child, .is_up = is_up}, is_up); });
      const TreePlace own = {.tree = tree, .rank = rank, .is_up = is_up};
      if (parent(own) != Tree::kRoot) look(own, !is_up);
    }
  return in_flight ? std::nullopt : out;
}

}  // namespace cluster
