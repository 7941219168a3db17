// The double binary tree message by message: the times of its steps if nothing is shared, and by hand and
// against a fluid simulation if links are shared. Links of 1e-6 us per byte take one picosecond for a byte.

#include "sim/cluster/tree_streams.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/cluster/messages.hpp"
#include "sim/cluster/patterns.hpp"
#include "sim/cluster/steps.hpp"
#include "tests/sim/cluster/fluid.hpp"
#include "tests/support/random.hpp"

namespace cluster {
namespace {

using sim::Time;
using support::Random;
using Times = std::vector<Time>;

constexpr double kPs = 1e-6;  // in us

Collective tree(std::uint32_t ranks, std::int64_t bytes) { return DoubleBinaryTree(ranks, bytes); }

/// Startup 10 ps, NICs of 1 ps/byte on a switch of unlimited bandwidth.
Topology flat(std::uint32_t ranks) { return make_topology({.startup_us = 10 * kPs, .nic = {0, kPs}}, ranks); }

Links summing(double ps_per_byte) {
  return {.levels = {}, .sum_us_per_byte = ps_per_byte * kPs, .slowdown = {}};
}

void enter_all(Messages& messages, std::uint32_t collective, const Times& starts) {
  for (std::uint32_t rank = 0; rank < starts.size(); ++rank) messages.enter(collective, rank, starts[rank]);
}

/// All ranks that leave: "rank@ps" or, for several collectives, "collective:rank@ps", sorted by time.
std::string run(Messages& messages, bool with_collective = false) {
  std::vector<Messages::Departure> all;
  while (const auto left = messages.next(Time::max())) all.push_back(*left);
  CHECK(std::ranges::is_sorted(all, {}, &Messages::Departure::at));
  std::ranges::sort(all, {},
                    [](const auto& left) { return std::tuple(left.at, left.collective, left.rank); });
  std::string out;
  for (const Messages::Departure& left : all) {
    if (!out.empty()) out += ' ';
    if (with_collective) out += fmt::format("{}:", left.collective);
    out += fmt::format("{}@{}", left.rank, left.at.count());
  }
  return out;
}

// ---- without a topology

/// Nodes of 4, with random links and ranks.
Links random_links(Random& random, std::uint32_t ranks) {
  Links out = {.levels = {{.ranks = 4, .link = {0.1 * random.below(50), 1e-4 / 3}},
                          {.ranks = 128, .link = {5.1 + random.below(5), 1e-3 / 7}}},
               .sum_us_per_byte = random.one_in(3) ? 0 : 1e-4 / 11,
               .slowdown = {},
               .sigma = random.one_in(2) ? 0 : 0.3,
               .seed = random.below(1000)};
  if (!random.one_in(4))
    for (std::uint32_t i = 0; i < ranks; ++i) out.slowdown.push_back(1 + 0.01 * random.below(100));
  return out;
}

Times random_starts(Random& random, std::uint32_t ranks) {
  Times out(ranks);
  for (Time& start : out) start = Time(random.below(1U << (5 * random.below(7))));
  return out;
}

Shape random_shape(Random& random, std::uint32_t ranks) {
  const std::int64_t bytes = random.between(0, random.one_in(3) ? 50 : 100'000);
  return {.ranks = ranks, .bytes = bytes, .ranks_per_node = 1 + random.below(6)};
}

TEST_CASE("messages: one collective after the other, each pattern takes its steps to the picosecond") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ranks = 1 + random.below(random.one_in(4) ? 70 : 20);
    const Links links = random_links(random, ranks);
    const Times starts = random_starts(random, ranks);
    Messages messages(links, std::nullopt);
    Times expected = starts;
    for (std::uint32_t i = 0; i < patterns().size(); ++i) {
      const Shape shape = random_shape(random, ranks);
      run_steps(patterns()[i].make(shape), links, i, expected);
      messages.add(patterns()[i].make(shape), i);
    }
    enter_all(messages, 0, starts);
    Times ends(ranks);
    const Time step(1 + random.below(300'000'000));
    for (Time until = step; messages.next_time(); until += step)
      while (const auto left = messages.next(until)) {
        ends[left->rank] = left->at;
        if (left->collective + 1 < patterns().size())
          messages.enter(left->collective + 1, left->rank, left->at);
      }
    CHECK(ends == expected);
    CHECK(messages.waiting().empty());
  }
}

struct Entry {
  Time at{};
  std::uint32_t collective = 0;
  std::uint32_t rank = 0;
};

TEST_CASE("messages: several collectives at once, entered in any order, take their steps to the picosecond") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ranks = 1 + random.below(20);
    const Links links = random_links(random, ranks);
    Messages messages(links, std::nullopt);
    std::vector<Times> expected;
    std::vector<Entry> entries;
    for (std::uint32_t i = 0; i < 2 * patterns().size(); ++i) {
      const PatternEntry& entry = random.one_in(2) ? *find_pattern("double_binary_tree") : patterns()[i / 2];
      const Shape shape = random_shape(random, ranks);
      expected.push_back(random_starts(random, ranks));
      for (std::uint32_t rank = 0; rank < ranks; ++rank) entries.push_back({expected[i][rank], i, rank});
      run_steps(entry.make(shape), links, i, expected[i]);
      messages.add(entry.make(shape), i);
    }
    // each some time before it begins
    for (std::size_t i = entries.size(); i-- > 1;)
      std::swap(entries[i], entries[random.below(static_cast<std::uint32_t>(i + 1))]);
    std::vector<Times> ends(expected.size(), Times(ranks));
    std::size_t left_count = 0;
    const auto advance = [&](Time until) {
      while (const auto left = messages.next(until)) {
        ends[left->collective][left->rank] = left->at;
        ++left_count;
      }
    };
    for (Time now{}; !entries.empty(); now += Time(random.below(1U << 24U))) {
      advance(now);
      std::erase_if(entries, [&](const Entry& entry) {
        if (entry.at > now + Time(1U << 24U) && !random.one_in(4)) return false;
        messages.enter(entry.collective, entry.rank, std::max(entry.at, now));
        return true;
      });
    }
    advance(Time::max());
    CHECK(ends == expected);
    CHECK(left_count == expected.size() * ranks);
  }
}

TEST_CASE("messages: a tree's messages are counted as they arrive, its bytes take both ports") {
  // 2 ranks, 8 bytes, 4 a tree; alpha 10 ps, 1 ps/byte, summing 2 ps/byte
  //   up:    head 10, tail 10 + 4 + 8 = 22, which the last byte reaches at 10
  //   down:  head 32, tail 36, the last byte at 32
  Messages messages(
      {.levels = {{.ranks = 2, .link = {10 * kPs, kPs}}}, .sum_us_per_byte = 2 * kPs, .slowdown = {}},
      std::nullopt);
  messages.add(tree(2, 8), 1);
  enter_all(messages, 0, Times(2));
  const std::vector<std::pair<int, std::uint64_t>> counts = {{9, 0}, {10, 2}, {31, 2}, {32, 4}};
  for (const auto& [until, delivered] : counts) {
    CHECK(messages.next(Time(until)) == std::nullopt);
    CHECK(messages.delivered() == delivered);
  }
  CHECK(run(messages) == "0@36 1@36");
}

TEST_CASE("messages: who is in a tree waits for whom has not entered") {
  //  trees 0-2-{1, 3} and 3-1-{2, 0}; 3 enters late: 1 gets what it sums in the second, not what 3 spreads
  Messages messages({.levels = {{.ranks = 4, .link = {10 * kPs, kPs}}}, .slowdown = {}}, std::nullopt);
  messages.add(tree(4, 8), 1);
  for (const std::uint32_t rank : {0U, 1U, 2U}) messages.enter(0, rank, Time::zero());
  CHECK(messages.next(Time(5)) == std::nullopt);
  CHECK(messages.waiting().empty());  // what they have sent is in flight
  CHECK(messages.next(Time(1000)) == std::nullopt);
  CHECK(messages.next_time() == std::nullopt);
  using Waiting = Messages::Waiting;
  CHECK(messages.waiting() == std::vector<Waiting>{{.collective = 0, .rank = 0, .round = 0, .from = 2},
                                                   {.collective = 0, .rank = 1, .round = 2, .from = 2},
                                                   {.collective = 0, .rank = 2, .round = 0, .from = 3}});
  messages.enter(0, 3, Time(1000));
  (void)run(messages);
  CHECK(messages.waiting().empty());
  CHECK(messages.delivered() == 12);
}

// ---- with one

TEST_CASE("messages: a tree on links of its own, by hand") {
  // 4 ranks, 8 bytes, 4 a tree; startup 3, latency 7, 1 ps/byte, summing 2 ps/byte; trees 0-2-{1, 3} and
  // 3-1-{2, 0}; rank 3 enters at 20, the others at 0. Head, last byte, tail at the receiver:
  //   up, tree 0    1 -> 2: 10 14 10    3 -> 2: 30 34 30    2 has all at 34 + 16 = 50
  //                 2 -> 0: 40 44 60    0 has all at 60, not 44 + 8
  //   up, tree 1    2 -> 1, 0 -> 1: 10 14 10    1 has all at 30
  //                 1 -> 3: 20 24 40    3 has all at 40
  //   down, tree 0  0 -> 2: 70 74 70    2 -> 1, 2 -> 3: 80 84 84
  //   down, tree 1  3 -> 1: 50 54 50    1 -> 2, 1 -> 0: 60 64 64
  const Topology direct =
      make_topology({.kind = TopologyKind::direct, .startup_us = 3 * kPs, .nic = {7 * kPs, kPs}}, 4);
  Messages messages(summing(2), direct);
  messages.add(tree(4, 8), 1);
  enter_all(messages, 0, {Time(0), Time(0), Time(0), Time(20)});
  CHECK(run(messages) == "0@74 1@84 2@84 3@84");
}

TEST_CASE("messages: a tree sums up no sooner than it has entered") {
  // 2 ranks, 40 bytes a tree; 1 enters at 500. What 0 sends it is there at 50 already; what it sends 0 at 550
  //   1 has the sum of the second tree at 500 + 40, of which the first bytes are back at 550, all at 590;
  //   0 that of the first at 550 + 40: back at 640
  Messages messages(summing(1), flat(2));
  messages.add(tree(2, 80), 1);
  enter_all(messages, 0, {Time(0), Time(500)});
  CHECK(run(messages) == "0@640 1@640");
}

TEST_CASE("messages: both trees share the ports of a rank") {
  // 3 ranks, 80 bytes, 40 a tree; trees 0-2-1 and 1-0-2. Bytes flow from - to:
  //   up    tree 0  1 -> 2:  10-50            2 -> 0:  20-90    10 of the other's gone, each half until 80
  //         tree 1  2 -> 0:  10-80            0 -> 1:  20-60    1 has all at 80 + 10
  //   down  tree 0  0 -> 2: 100-170           2 -> 1: 110-150   1 has all at 170 + 10
  //         tree 1  1 -> 0: 100-140           0 -> 2: 110-180
  // Steps take 2 x 2 x 10 + 2 x 80 = 200: there no byte comes in before the later of both.
  Messages messages({}, flat(3));
  messages.add(tree(3, 80), 1);
  enter_all(messages, 0, Times(3));
  CHECK(run(messages) == "0@180 1@180 2@180");
}

TEST_CASE("messages: two trees at once share a NIC") {
  const auto two = [](Time second) {
    Messages messages({}, flat(2));
    messages.add(tree(2, 80), 1);
    messages.add(tree(2, 80), 2);
    enter_all(messages, 0, Times(2));
    enter_all(messages, 1, Times(2, second));
    return run(messages, true);
  };
  // alone 10-50 up and 60-100 down; together 10-90 and 100-180
  CHECK(two(Time(100)) == "0:0@100 0:1@100 1:0@200 1:1@200");
  CHECK(two(Time(0)) == "0:0@180 0:1@180 1:0@180 1:1@180");
  // the second 30 later; both directions alike, bytes that have flowed at the end:
  //   first:  up 10-40: 30, 40-60: 40            down 70-110: 20, 110-120: 30, 120-140: 40
  //   second:           40-60: 10, 60-70: 20, 70-110: 40               down 120-140: 10, 140-170: 40
  CHECK(two(Time(30)) == "0:0@140 0:1@140 1:0@170 1:1@170");
}

/// Trees on a topology, each with its own start times.
struct Case {
  Topology topology;
  Links links;
  std::vector<DoubleBinaryTree> trees;
  std::vector<Times> starts;  // indexed by collective and rank
};

Case random_case(std::uint32_t seed) {
  Random random(seed);
  TopologySpec spec = random_spec(random);
  if (random.one_in(5)) spec.kind = TopologyKind::direct;
  const std::uint32_t ranks = 2 * spec.gpus_per_node * (1 + random.below(3));
  Case out = {.topology = make_topology(spec, ranks), .links = random_links(random, ranks)};
  out.links.levels.clear();
  out.links.sum_us_per_byte *= random.one_in(2) ? 10 : 1;
  for (std::uint32_t i = 0; i < 1 + random.below(3); ++i) {
    out.trees.emplace_back(2 + random.below(ranks - 1), random.between(0, random.one_in(4) ? 3 : 10'000));
    Times& starts = out.starts.emplace_back(out.trees.back().ranks());
    for (Time& start : starts) start = Time(random.one_in(2) ? 0 : random.between(0, 10'000'000));
  }
  return out;
}

void start(Messages& messages, const Case& of) {
  for (std::uint32_t i = 0; i < of.trees.size(); ++i)
    enter_all(messages, messages.add(of.trees[i], i), of.starts[i]);
}

/// Computes heads and tails recursively from the definition of the model, in real numbers; again after each
/// flow.
class Fluid {
 public:
  explicit Fluid(const Case& of) : case_(of) {
    for (std::uint32_t i = 0; i < of.trees.size(); ++i)
      for (std::uint32_t which = 0; which < 4; ++which)
        for (std::uint32_t child = 0; child < of.trees[i].ranks(); ++child) {
          const Edge edge = {.collective = i, .tree = which % 2, .child = child, .is_up = which > 1};
          if (parent(edge) != Tree::kRoot) edges_.push_back(edge);
        }
  }

  /// Returns when each rank leaves each collective, in us.
  std::vector<std::vector<Real>> run() {
    for (Real now = 0; begin_flows() || !flows_.empty();) {
      if (flows_.empty()) continue;
      now = fluid_step(case_.topology, flows_, now);
      for (const Flow& flow : flows_)
        if (flow.has_ended(now)) edges_[flow.edge].flowed = now;
      std::erase_if(flows_, [&](const Flow& flow) { return flow.has_ended(now); });
    }
    std::vector<std::vector<Real>> out;
    for (std::uint32_t i = 0; i < case_.trees.size(); ++i) {
      out.emplace_back();
      for (std::uint32_t rank = 0; rank < case_.trees[i].ranks(); ++rank) out[i].push_back(leaves(i, rank));
    }
    return out;
  }

 private:
  /// An edge named by its child, on the way up or down.
  struct Edge {
    std::uint32_t collective = 0;
    std::uint32_t tree = 0;
    std::uint32_t child = 0;
    bool is_up = false;
    bool has_begun = false;
    std::optional<Real> flowed{};
  };
  struct Flow : FluidFlow {
    std::size_t edge = 0;
  };

  const DoubleBinaryTree& trees(const Edge& of) const { return case_.trees[of.collective]; }
  std::uint32_t parent(const Edge& of) const { return trees(of).trees().at(of.tree).parent[of.child]; }
  std::pair<std::uint32_t, std::uint32_t> ends(const Edge& of) const {
    return of.is_up ? std::pair(of.child, parent(of)) : std::pair(parent(of), of.child);
  }
  Real bytes(const Edge& of) const { return static_cast<Real>(trees(of).half(of.tree).size()); }
  Real factor(const Edge& of) const {
    const Links& links = case_.links;
    const double slowdown = links.slowdown.empty() ? 1 : links.slowdown[ends(of).first];
    if (links.sigma == 0) return slowdown;
    const std::uint64_t bits =
        message_bits(collective_bits(links, of.collective), of.tree + (of.is_up ? 0 : 2), of.child);
    return slowdown * sim::lognormal_mean_one(bits, links.sigma);
  }
  Real first(const Edge& of) const {
    const Route route = case_.topology.route(ends(of).first, ends(of).second);
    return factor(of) * (case_.topology.spec.startup_us + route.latency_us);
  }
  /// The edges through which the rank receives in this direction.
  std::vector<Edge> incoming(const Edge& at) const {
    std::vector<Edge> out;
    for (const Edge& edge : edges_)
      if (edge.collective == at.collective && edge.tree == at.tree && edge.is_up == at.is_up &&
          ends(edge).second == at.child)
        out.push_back(edge);
    return out;
  }
  static Edge moved(Edge edge, std::uint32_t child, bool is_up) {
    edge.child = child;
    edge.is_up = is_up;
    return edge;
  }

  std::optional<Real> head(const Edge& at) const {
    if (!at.is_up && parent(at) == Tree::kRoot) return tail(moved(at, at.child, true));
    Real out = at.is_up ? sim::to_us(case_.starts[at.collective][at.child]) : 0;
    for (const Edge& edge : incoming(at)) {
      const std::optional<Real> sent = head(moved(at, ends(edge).first, at.is_up));
      if (!sent) return std::nullopt;
      out = std::max(out, *sent + first(edge));
    }
    return out;
  }
  std::optional<Real> tail(const Edge& at) const {
    const std::optional<Real> begins = head(at);
    if (!begins || (!at.is_up && parent(at) == Tree::kRoot)) return begins;
    Real tails = 0;
    Real flowed = *begins;
    for (const Edge& edge : incoming(at)) {
      const std::optional<Real> sent = tail(moved(at, ends(edge).first, at.is_up));
      if (!edge.flowed || !sent) return std::nullopt;
      tails = std::max(tails, *sent + first(edge));
      flowed = std::max(flowed, *edge.flowed);
    }
    return std::max(tails, flowed + (incoming(at).empty() ? 0 : sums(at)));
  }
  /// The bytes that the rank receives and sums, in both trees.
  Real sums(const Edge& at) const {
    Real out = 0;
    for (const Edge& edge : edges_)
      if (at.is_up && edge.is_up && edge.collective == at.collective && parent(edge) == at.child)
        out += bytes(edge) * case_.links.sum_us_per_byte;
    return out;
  }
  Real leaves(std::uint32_t collective, std::uint32_t rank) const {
    Real out = 0;
    for (std::uint32_t tree = 0; tree < 2; ++tree)
      for (std::uint32_t i = 0; i < case_.trees[collective].ranks(); ++i) {
        const Edge at = {.collective = collective, .tree = tree, .child = i};
        if (i == rank || parent(at) == rank) out = std::max(out, *tail(at));
      }
    return out;
  }

  /// Returns whether a flow that met no link has already ended, so that more may begin.
  bool begin_flows() {
    bool some = false;
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      Edge& edge = edges_[i];
      if (edge.has_begun) continue;
      const std::optional<Real> sent = head(moved(edge, ends(edge).first, edge.is_up));
      if (!sent) continue;
      edge.has_begun = true;
      const Route route = case_.topology.route(ends(edge).first, ends(edge).second);
      Flow flow;
      flow.edge = i;
      flow.joins = *sent + first(edge);
      flow.bytes = factor(edge) * bytes(edge);
      for (const std::uint32_t link : route.links)
        if (case_.topology.links[link].us_per_byte > 0) flow.links.push_back(link);
      some = some || flow.links.empty() || flow.bytes == 0;
      if (flow.links.empty() || flow.bytes == 0)
        edge.flowed = flow.joins + flow.bytes * route.us_per_byte;
      else
        flows_.push_back(flow);
    }
    return some;
  }

  const Case& case_;
  std::vector<Edge> edges_;
  std::vector<Flow> flows_;
};

TEST_CASE("messages: trees on shared links give the times of a fluid simulation") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    const Case random = random_case(seed);
    Messages messages(random.links, random.topology);
    start(messages, random);
    const std::vector<std::vector<Real>> expected = Fluid(random).run();
    Real worst_ps = 0;
    std::size_t count = 0;
    for (; const auto left = messages.next(Time::max()); ++count)
      worst_ps = std::max(worst_ps, std::abs(static_cast<Real>(left->at.count()) -
                                             expected[left->collective][left->rank] * 1e6L));
    std::size_t ranks = 0;
    for (const DoubleBinaryTree& trees : random.trees) ranks += trees.ranks();
    CHECK(count == ranks);
    CHECK(worst_ps <= 30);  // a few per message, on the longest chain of messages
  }
}

TEST_CASE("messages: no link carries more of trees than it can, and looking in small steps changes nothing") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    const Case random = random_case(seed);
    Messages at_once(random.links, random.topology);
    start(at_once, random);
    std::vector<Messages::Departure> expected;
    while (const auto left = at_once.next(Time::max())) expected.push_back(*left);
    Messages in_steps(random.links, random.topology);
    start(in_steps, random);
    std::vector<Messages::Departure> all;
    double worst_load = 0;
    for (Time until{}; in_steps.next_time(); until += Time(777'777)) {
      while (const auto left = in_steps.next(until)) all.push_back(*left);
      for (std::uint32_t link = 0; link < random.topology.links.size(); ++link)
        worst_load = std::max(worst_load, in_steps.carried(link) * random.topology.links[link].us_per_byte);
    }
    CHECK(all == expected);
    CHECK(worst_load <= 1 + 1e-9);
    CHECK(in_steps.waiting().empty());
    std::uint64_t edges = 0;
    for (const DoubleBinaryTree& trees : random.trees) edges += 4 * (trees.ranks() - 1);
    CHECK(in_steps.delivered() == edges);
  }
}

}  // namespace
}  // namespace cluster
