// Messages: exact small timelines, uncontended ones against the recurrence, shared links against a slow fluid
// simulation. Links of 1e-6 us per byte take one picosecond for a byte.

#include "sim/cluster/messages.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/sim/cluster/fluid_messages.hpp"
#include "tests/support/random.hpp"

namespace cluster {
namespace {

using sim::Time;
using support::Random;

constexpr std::uint32_t kSeeds = 200;
constexpr double kPs = 1e-6;  // in us

struct Sent {
  std::uint32_t round = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t bytes = 0;
  bool sums = false;
};

/// A pattern given as a list of single messages.
class Script : public Pattern {
 public:
  Script(std::uint32_t ranks, std::uint32_t rounds, const std::vector<Sent>& messages)
      : ranks_(ranks), exchanges_(rounds, std::vector<Exchange>(ranks)) {
    for (const Sent& message : messages) {
      Exchange& out = exchanges_.at(message.round).at(message.from);
      Exchange& in = exchanges_.at(message.round).at(message.to);
      out.to = message.to;
      out.bytes_out = message.bytes;
      in.from = message.from;
      in.bytes_in = message.bytes;
      in.sums = message.sums;
    }
  }
  std::uint32_t ranks() const override { return ranks_; }
  std::uint32_t rounds() const override { return static_cast<std::uint32_t>(exchanges_.size()); }
  Exchange exchange(std::uint32_t rank, std::uint32_t round) const override {
    return exchanges_.at(round).at(rank);
  }

 private:
  std::uint32_t ranks_;
  std::vector<std::vector<Exchange>> exchanges_;  // indexed by round and rank
};

std::shared_ptr<const Pattern> script(std::uint32_t ranks, std::uint32_t rounds,
                                      const std::vector<Sent>& messages) {
  return std::make_shared<Script>(ranks, rounds, messages);
}

/// Ring all-reduce with equal chunks.
std::shared_ptr<const Pattern> ring(std::uint32_t ranks, std::int64_t chunk) {
  std::vector<Sent> messages;
  for (std::uint32_t round = 0; round < 2 * (ranks - 1); ++round)
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      messages.push_back({round, rank, (rank + 1) % ranks, chunk, round < ranks - 1});
  return script(ranks, 2 * (ranks - 1), messages);
}

/// One message from one rank to another.
std::shared_ptr<const Pattern> single(std::uint32_t ranks, std::uint32_t from, std::uint32_t to,
                                      std::int64_t bytes) {
  return script(ranks, 1, {{0, from, to, bytes, false}});
}

Links links_of(double startup_ps, double ps_per_byte, double sum_ps_per_byte = 0) {
  return {.levels = {{.ranks = 1U << 20U, .link = {startup_ps * kPs, ps_per_byte * kPs}}},
          .sum_us_per_byte = sum_ps_per_byte * kPs,
          .slowdown = {}};
}

/// Nodes of one GPU with NICs of one byte per picosecond on a switch of unlimited bandwidth.
Topology flat(std::uint32_t ranks) { return make_topology({.nic = {0, kPs}}, ranks); }

void enter_all(Messages& messages, std::uint32_t collective, std::uint32_t ranks, Time at = Time::zero()) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) messages.enter(collective, rank, at);
}

/// Returns all ranks that leave, sorted by time, then by collective and rank.
std::vector<Messages::Departure> run(Messages& messages) {
  std::vector<Messages::Departure> out;
  while (const auto left = messages.next(Time::max())) {
    if (!out.empty()) CHECK(out.back().at <= left->at);
    out.push_back(*left);
  }
  std::sort(out.begin(), out.end(), [](const Messages::Departure& a, const Messages::Departure& b) {
    return std::tie(a.at, a.collective, a.rank) < std::tie(b.at, b.collective, b.rank);
  });
  return out;
}

std::string shown(const Messages::Departure& left) {
  return fmt::format("{}:{}@{}", left.collective, left.rank, left.at.count());
}

/// "rank@ps" or, for several collectives, "collective:rank@ps"
std::string shown(const std::vector<Messages::Departure>& all, bool with_collective = false) {
  std::string out;
  for (const Messages::Departure& left : all) {
    if (!out.empty()) out += ' ';
    if (with_collective) out += fmt::format("{}:", left.collective);
    out += fmt::format("{}@{}", left.rank, left.at.count());
  }
  return out;
}

/// Arrival times of messages, each in its own collective: "ps ps ...". All start at 0.
std::string arrivals(const Topology& topology, const std::vector<Sent>& sent) {
  Messages messages({}, topology);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    messages.add(single(topology.ranks, sent[i].from, sent[i].to, sent[i].bytes), i);
    messages.enter(static_cast<std::uint32_t>(i), sent[i].from, Time::zero());
    messages.enter(static_cast<std::uint32_t>(i), sent[i].to, Time::zero());
  }
  std::vector<std::int64_t> at(sent.size());
  for (const Messages::Departure& left : run(messages)) at[left.collective] = left.at.count();
  return fmt::format("{}", fmt::join(at, " "));
}

TEST_CASE("messages: a rank leaves a round when both its messages have arrived and it has summed") {
  //  startup 10, 1 ps/byte, summing 2 ps/byte
  //  0 --5--> 1, summed:   0-15, then 10 more     1 --20--> 0:   0-30
  //  2 --1--> 0:          2 begins round 1 at 0: 0-11, 0 gets to round 1 at 30
  Messages messages(links_of(10, 1, 2), std::nullopt);
  messages.add(script(3, 2, {{0, 0, 1, 5, true}, {0, 1, 0, 20, false}, {1, 2, 0, 1, true}}), 1);
  enter_all(messages, 0, 3);
  CHECK(shown(run(messages)) == "2@11 0@32 1@40");
  CHECK(messages.delivered() == 3);
}

TEST_CASE("messages: a message does not wait for its receiver, nor its sender for the receiver") {
  //  0 enters at 100, 1 at 500
  //  0 --7--> 1, --9--> 1:   100-107 107-116
  Messages messages(links_of(0, 1), std::nullopt);
  messages.add(script(2, 2, {{0, 0, 1, 7, false}, {1, 0, 1, 9, false}}), 1);
  messages.enter(0, 0, Time(100));
  messages.enter(0, 1, Time(500));
  CHECK(shown(run(messages)) == "0@116 1@500");
}

TEST_CASE("messages: what waits for later compute leaves no earlier") {
  //  1 enters only at 1 ms: what it sends to 0 arrives 7 ps later
  Messages messages(links_of(0, 1), std::nullopt);
  messages.add(single(2, 1, 0, 7), 1);
  messages.enter(0, 0, Time(0));
  CHECK(messages.next(Time(1'000'000'000)) == std::nullopt);
  CHECK(messages.now() == Time(1'000'000'000));
  CHECK(messages.next_time() == std::nullopt);
  CHECK(messages.waiting() ==
        std::vector<Messages::Waiting>{{.collective = 0, .rank = 0, .round = 0, .from = 1}});
  messages.enter(0, 1, messages.now());
  CHECK(messages.next_time() == Time(1'000'000'007));
  CHECK(messages.waiting().size() == 1);
  CHECK(shown(run(messages)) == "0@1000000007 1@1000000007");
  CHECK(messages.waiting().empty());
}

TEST_CASE("messages: who has nothing to do passes at once, and no bytes take their startup") {
  Messages messages(links_of(10, 1), std::nullopt);
  messages.add(script(3, 3, {{1, 0, 1, 0, true}}), 1);
  messages.add(script(1, 0, {}), 2);
  enter_all(messages, 0, 3, Time(5));
  messages.enter(1, 0, Time(6));
  CHECK(shown(run(messages), true) == "0:2@5 1:0@6 0:0@15 0:1@15");
}

TEST_CASE("messages: equal messages match in the order they were sent") {
  //  0 --5--> 1 in rounds 0 to 39, all there before 1 enters at 1000; 1 sums each, 5 ps
  std::vector<Sent> sent;
  for (std::uint32_t round = 0; round < 40; ++round) sent.push_back({round, 0, 1, 5, true});
  Messages messages(links_of(0, 1, 1), std::nullopt);
  messages.add(script(2, 40, sent), 1);
  messages.enter(0, 0, Time(0));
  messages.enter(0, 1, Time(1000));
  CHECK(shown(run(messages)) == "0@200 1@1200");
}

TEST_CASE("messages: a message of one collective is not taken for that of another") {
  //  0 enters the first at 0 and the second at 100, 1 the second at 0 and the first at 50
  Messages messages(links_of(0, 1), std::nullopt);
  messages.add(single(2, 0, 1, 5), 1);
  messages.add(single(2, 0, 1, 5), 2);
  messages.enter(1, 1, Time(0));
  messages.enter(0, 0, Time(0));
  messages.enter(0, 1, Time(50));
  messages.enter(1, 0, Time(100));
  CHECK(shown(run(messages), true) == "0:0@5 0:1@50 1:0@105 1:1@105");
}

TEST_CASE("messages: collectives that begin when others have ended do not meet each other") {
  Messages messages(links_of(0, 1), std::nullopt);
  for (std::uint32_t i = 0; i < 6; ++i) messages.add(single(2, 0, 1, 10 + i), i);
  for (std::uint32_t i = 0; i < 6; i += 3) {
    enter_all(messages, i, 2, Time(100 * i));
    (void)run(messages);
    // two at once, after one that has ended
    enter_all(messages, i + 1, 2, Time(100 * i + 50));
    messages.enter(i + 2, 0, Time(100 * i + 50));
    messages.enter(i + 2, 1, Time(100 * i + 61));
    CHECK(shown(run(messages), true) == fmt::format("{0}:0@{1} {0}:1@{1} {2}:0@{3} {2}:1@{3}", i + 1,
                                                    100 * i + 61 + i, i + 2, 100 * i + 62 + i));
  }
}

TEST_CASE("messages: a ring finishes on any number of ranks") {
  for (const std::uint32_t ranks : {2U, 3U, 15U, 16U, 17U, 64U, 100U})
    for (const bool on_topology : {false, true}) {
      CAPTURE(ranks);
      CAPTURE(on_topology);
      Messages messages(links_of(3, 1, 2), on_topology ? std::optional(make_topology(
                                                             {.startup_us = 3 * kPs, .nic = {0, kPs}}, ranks))
                                                       : std::nullopt);
      messages.add(ring(ranks, 10), 1);
      enter_all(messages, 0, ranks);
      const std::vector<Messages::Departure> all = run(messages);
      REQUIRE(all.size() == ranks);
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        REQUIRE(shown(all[rank]) == fmt::format("0:{}@{}", rank, (ranks - 1) * (2 * 13 + 20)));
      CHECK(messages.waiting().empty());
      CHECK(messages.delivered() == 2 * ranks * (ranks - 1));
    }
}

TEST_CASE("messages: two that share a link have half each, then one has all") {
  //  0 --100--> 2: 0-200        half of the way in
  //  1 --150--> 2: 0-200 100 of it, 200-250 the other 50
  CHECK(arrivals(flat(3), {{0, 0, 2, 100}, {0, 1, 2, 150}}) == "200 250");
  // out of one NIC likewise, and in the other direction there is room
  CHECK(arrivals(flat(3), {{0, 2, 0, 100}, {0, 2, 1, 150}, {0, 0, 2, 40}}) == "200 250 40");
}

TEST_CASE("messages: one that comes later takes its half from then on") {
  //  0 --100--> 2: 0-30: 30, 30-170: 70
  //  1 --90--> 2:           30-170: 70, 170-190: 20
  Messages messages({}, flat(3));
  messages.add(single(3, 0, 2, 100), 1);
  messages.add(single(3, 1, 2, 90), 2);
  messages.enter(0, 0, Time(0));
  messages.enter(0, 2, Time(0));
  messages.enter(1, 2, Time(0));
  CHECK(messages.next(Time(30)) == std::nullopt);
  messages.enter(1, 1, Time(30));
  CHECK(messages.next(Time(100)) == std::nullopt);
  CHECK(messages.carried(11) == doctest::Approx(1 / kPs));  // into 2
  CHECK(messages.carried(9) == 0);
  CHECK(shown(run(messages), true) == "0:0@170 0:2@170 1:1@190 1:2@190");
}

TEST_CASE("messages: one that begins as another ends shares nothing with it") {
  //  0 --100--> 2: 0-100     1 --90--> 2: 100-190
  Messages messages({}, flat(3));
  messages.add(single(3, 0, 2, 100), 1);
  messages.add(single(3, 1, 2, 90), 2);
  messages.enter(1, 1, Time(100));
  messages.enter(0, 0, Time(0));
  CHECK(shown(run(messages), true) == "0:0@100 1:1@190");
}

TEST_CASE("messages: three through two links get what is fair by the link that is full first") {
  //  node   0 ====== 1 ====== 2    cables of 1 byte/ps
  //  a      ------------------>    100
  //  b      --------->              50     0-100 half each; at 100 b is through,
  //  c               --------->    100     a and c still share
  const Topology line = make_topology({.kind = TopologyKind::ring, .cable = {0, kPs}}, 6);
  CHECK(arrivals(line, {{0, 0, 2, 100}, {0, 0, 1, 50}, {0, 1, 2, 100}}) == "200 100 200");
  //  a, b, d share the first cable: a third each; c has what a leaves on the second: two thirds
  //  c: 0-300 200, 300-400 the other 100
  CHECK(arrivals(line, {{0, 0, 2, 100}, {0, 0, 1, 100}, {0, 1, 2, 300}, {0, 0, 1, 100}}) ==
        "300 300 400 300");
}

TEST_CASE("messages: one that cannot take its share leaves the rest to others") {
  //  NICs of 1 byte/ps, but a bus of half of it in node 0
  //  0 (on the bus) --> 4 and 2 --> 4 by one NIC: half each; 0, 1 share the bus: a quarter each
  //  0 --100--> 4: 0-400     1 --100--> 6: 0-400     2 --300--> 4: 0-400
  const TopologySpec spec = {.gpus_per_node = 2,
                             .inside = {0, 2 * kPs},
                             .inside_is_bus = true,
                             .nic_behind_inside = true,
                             .nic = {0, kPs}};
  Topology topology = make_topology(spec, 8);
  for (std::uint32_t node = 1; node < 4; ++node) topology.links[node].us_per_byte = 0;
  CHECK(arrivals(topology, {{0, 0, 4, 100}, {0, 1, 6, 100}, {0, 2, 4, 300}}) == "400 400 400");
}

TEST_CASE("messages: a hot spot serves all alike") {
  std::vector<Sent> sent;
  for (std::uint32_t rank = 1; rank < 8; ++rank) sent.push_back({0, rank, 0, 10});
  CHECK(arrivals(flat(8), sent) == "70 70 70 70 70 70 70");
}

TEST_CASE("messages: an oversubscribed spine is slower, one that is not is as if it were not there") {
  const auto over = [](double oversubscription) {
    return make_topology({.kind = TopologyKind::leaf_spine,
                          .nic = {0, kPs},
                          .nodes_per_leaf = 4,
                          .spines = 1,
                          .oversubscription = oversubscription},
                         8);
  };
  const std::vector<Sent> across = {{0, 0, 4, 100}, {0, 1, 5, 100}, {0, 2, 6, 100}, {0, 3, 7, 100}};
  CHECK(arrivals(over(1), across) == "100 100 100 100");
  CHECK(arrivals(over(4), across) == "400 400 400 400");
  const std::vector<Sent> inside = {{0, 0, 1, 100}, {0, 1, 2, 100}, {0, 2, 3, 100}, {0, 3, 0, 100}};
  CHECK(arrivals(over(4), inside) == "100 100 100 100");
}

TEST_CASE("messages: bytes are charged once, however many hops, latencies add") {
  //  startup 3, NIC out 5, up 7, down 7, NIC in 5, then 100 bytes
  const Topology topology = make_topology({.kind = TopologyKind::leaf_spine,
                                           .startup_us = 3 * kPs,
                                           .nic = {5 * kPs, kPs},
                                           .nodes_per_leaf = 1,
                                           .uplink_latency_us = 7 * kPs},
                                          2);
  CHECK(arrivals(topology, {{0, 0, 1, 100}}) == "127");
  // two share it only while their bytes flow
  CHECK(arrivals(topology, {{0, 0, 1, 100}, {0, 0, 1, 100}}) == "227 227");
}

TEST_CASE("messages: 12.5 GB/s are 12.5e9 bytes per second") {
  const Topology topology = make_topology({.nic = {0, 1 / 12.5e3}}, 2);
  CHECK(arrivals(topology, {{0, 0, 1, 12'500'000'000}}) == "1000000000000");
}

TEST_CASE("messages: a slowed sender's bytes count as so many more") {
  //  0, twice as slow, --50--> 2 as if 100; 1 --150--> 2
  Links links;
  links.slowdown = {2, 1, 1};
  Messages messages(links, flat(3));
  messages.add(single(3, 0, 2, 50), 1);
  messages.add(single(3, 1, 2, 150), 2);
  messages.enter(0, 0, Time(0));
  messages.enter(1, 1, Time(0));
  CHECK(shown(run(messages), true) == "0:0@200 1:1@250");
}

TEST_CASE("messages: one whose bytes do not flow yet takes nothing from another, and has to share later") {
  //  0, twice as slow, --50--> 2: startup until 20, 20-30 10, 30-50 10 of what counts as 100, 50-130 80
  //  1 --5--> 2: startup until 10, 10-15
  //  1 --10--> 2: enters at 20, startup until 30, 30-50 10
  Links links;
  links.slowdown = {2, 1, 1};
  Messages messages(links, make_topology({.startup_us = 10 * kPs, .nic = {0, kPs}}, 3));
  messages.add(single(3, 0, 2, 50), 1);
  messages.add(single(3, 1, 2, 5), 2);
  messages.add(single(3, 1, 2, 10), 3);
  messages.enter(0, 0, Time(0));
  messages.enter(1, 1, Time(0));
  messages.enter(2, 1, Time(20));
  CHECK(shown(run(messages), true) == "1:1@15 2:1@50 0:0@130");
  const std::vector<double> busy_us = messages.busy_us();
  CHECK(busy_us[6] == doctest::Approx(100 * kPs));   // out of 0
  CHECK(busy_us[8] == doctest::Approx(15 * kPs));    // out of 1
  CHECK(busy_us[11] == doctest::Approx(115 * kPs));  // into 2
}

TEST_CASE("messages: a collective of more ranks than the network has is an error") {
  Messages messages({}, flat(3));
  CHECK_THROWS_WITH_AS(messages.add(ring(4, 1), 1), "a collective of 4 ranks on a network of 3",
                       std::invalid_argument);
}

/// Every rank sends to another rank in every round, or to none.
std::shared_ptr<const Pattern> random_pattern(Random& random, std::uint32_t ranks, std::uint32_t rounds,
                                              std::int64_t max_bytes) {
  std::vector<Sent> sent;
  std::vector<std::uint32_t> to(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) to[rank] = rank;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (std::uint32_t i = ranks - 1; i > 0; --i) std::swap(to[i], to[random.below(i + 1)]);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      if (to[rank] != rank && !random.one_in(4))
        sent.push_back({round, rank, to[rank], random.between(0, max_bytes), random.one_in(2)});
  }
  return script(ranks, rounds, sent);
}

Links random_links(Random& random, std::uint32_t ranks) {
  Links links = {
      .levels = {{.ranks = 4, .link = {1.5, 0.0013}}, {.ranks = 1U << 20U, .link = {7.25, 0.0101}}},
      .sum_us_per_byte = random.one_in(2) ? 0.0007 : 0,
      .slowdown = {},
      .sigma = random.one_in(3) ? 0 : 0.4,
      .seed = random.below(1000)};
  if (random.one_in(2))
    for (std::uint32_t rank = 0; rank < ranks; ++rank) links.slowdown.push_back(1 + random.below(3) / 3.0);
  return links;
}

/// t' = max(own t + d, t of the sender + its d) + sum, round by round.
std::vector<Time> recurrence(const Pattern& pattern, std::uint64_t key, const Links& links,
                             std::vector<Time> t) {
  for (std::uint32_t round = 0; round < pattern.rounds(); ++round) {
    std::vector<Time> next = t;
    const auto end = [&](std::uint32_t rank) {
      const Exchange exchange = pattern.exchange(rank, round);
      return t[rank] + message_time(links, {key, round, rank}, exchange.to, exchange.bytes_out);
    };
    for (std::uint32_t rank = 0; rank < t.size(); ++rank) {
      const Exchange exchange = pattern.exchange(rank, round);
      if (exchange.to != Exchange::kNobody) next[rank] = end(rank);
      if (exchange.from == Exchange::kNobody) continue;
      next[rank] = std::max(next[rank], end(exchange.from));
      if (exchange.sums) next[rank] += sum_time(links, exchange.bytes_in);
    }
    t = next;
  }
  return t;
}

std::vector<Time> random_starts(Random& random, std::uint32_t ranks) {
  std::vector<Time> starts(ranks);
  for (Time& start : starts) start = Time(random.between(0, 50'000'000));
  if (random.one_in(3)) starts[random.below(ranks)] += Time(2'000'000'000);  // a straggler
  return starts;
}

/// Each rank runs `patterns` one after the other, entering the next when it leaves one; advances by at most
/// `step` at a time. Returns when each rank leaves the last.
std::vector<Time> chain(Messages& messages, const std::vector<std::shared_ptr<const Pattern>>& patterns,
                        const std::vector<Time>& starts, Time step) {
  for (std::size_t i = 0; i < patterns.size(); ++i) messages.add(patterns[i], i);
  for (std::uint32_t rank = 0; rank < starts.size(); ++rank) messages.enter(0, rank, starts[rank]);
  std::vector<Time> ends(starts.size(), Time(-1));
  std::size_t done = 0;
  for (Time until = step; done < starts.size();) {
    const std::optional<Messages::Departure> left = messages.next(until);
    if (!left) {
      REQUIRE(messages.next_time());
      until += step;
      continue;
    }
    CHECK(left->at == messages.now());
    if (left->collective + 1 < patterns.size()) {
      messages.enter(left->collective + 1, left->rank, left->at);
    } else {
      ends[left->rank] = left->at;
      ++done;
    }
  }
  return ends;
}

TEST_CASE("messages: without contention every time is the recurrence's, to the picosecond") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ranks = 1 + random.below(12);
    const Links links = random_links(random, ranks);
    std::vector<std::shared_ptr<const Pattern>> patterns;
    for (int i = 0; i < 3; ++i) patterns.push_back(random_pattern(random, ranks, random.below(60), 5000));
    const std::vector<Time> starts = random_starts(random, ranks);
    std::vector<Time> expected = starts;
    for (std::size_t i = 0; i < patterns.size(); ++i) expected = recurrence(*patterns[i], i, links, expected);
    Messages messages(links, std::nullopt);
    CHECK(chain(messages, patterns, starts, Time(30'000'000)) == expected);
    CHECK(messages.waiting().empty());
  }
}

TEST_CASE("messages: on a topology where nothing is shared every time is the recurrence's, too") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ranks = 2 + random.below(40);
    Links links = random_links(random, ranks);
    links.levels = {{.ranks = 1U << 20U, .link = {7.25, 0.0101}}};
    // a ring has each NIC for itself; any pattern has each link of `direct` for itself
    const bool is_ring = random.one_in(2);
    const std::vector<std::shared_ptr<const Pattern>> patterns = {
        is_ring ? ring(ranks, random.between(0, 5000)) : random_pattern(random, ranks, 50, 5000)};
    const TopologySpec spec = {.kind = is_ring ? TopologyKind::flat : TopologyKind::direct,
                               .startup_us = 5.25,
                               .nic = {is_ring ? 1.0 : 2.0, 0.0101}};
    const std::vector<Time> starts = random_starts(random, ranks);
    Messages messages(links, make_topology(spec, ranks));
    CHECK(chain(messages, patterns, starts, Time(30'000'000)) == recurrence(*patterns[0], 0, links, starts));
  }
}

Case random_case(std::uint32_t seed) {
  Random random(seed);
  const TopologySpec spec = random_spec(random);
  const std::uint32_t ranks = 2 * spec.gpus_per_node * (1 + random.below(3));
  Case out = {.topology = make_topology(spec, ranks),
              .links = random_links(random, ranks),
              .patterns = {},
              .starts = {}};
  for (std::uint32_t i = 0; i < 1 + random.below(3); ++i) {
    out.patterns.push_back(random_pattern(random, ranks, 1 + random.below(5), 5000));
    std::vector<Time> starts(ranks);
    for (Time& start : starts) start = Time(random.one_in(2) ? 0 : random.between(0, 10'000'000));
    out.starts.push_back(starts);
  }
  return out;
}

void start(Messages& messages, const Case& of) {
  for (std::size_t i = 0; i < of.patterns.size(); ++i) {
    const std::uint32_t collective = messages.add(of.patterns[i], i);
    for (std::uint32_t rank = 0; rank < of.topology.ranks; ++rank)
      messages.enter(collective, rank, of.starts[i][rank]);
  }
}

TEST_CASE("messages: shared links give the times of a fluid simulation") {
  for (std::uint32_t seed = 0; seed < 2 * kSeeds; ++seed) {
    CAPTURE(seed);
    const Case random = random_case(seed);
    Messages messages(random.links, random.topology);
    start(messages, random);
    const std::vector<Messages::Departure> all = run(messages);
    REQUIRE(all.size() == random.patterns.size() * random.topology.ranks);
    const std::vector<long double> expected = Fluid(random).run();
    long double worst_ps = 0;
    for (const Messages::Departure& left : all) {
      const long double us = expected[left.collective * random.topology.ranks + left.rank];
      worst_ps = std::max(worst_ps, std::abs(static_cast<long double>(left.at.count()) - us * 1e6L));
    }
    CHECK(worst_ps <= 100);  // one a message, on the longest chain of them
  }
}

TEST_CASE("messages: no link carries more than it can, and each is busy with what was sent over it") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Case random = random_case(seed);
    const std::vector<Link>& links = random.topology.links;
    Messages messages(random.links, random.topology);
    start(messages, random);
    double worst_load = 0;
    const auto look = [&] {
      for (std::uint32_t link = 0; link < links.size(); ++link)
        worst_load = std::max(worst_load, messages.carried(link) * links[link].us_per_byte);
    };
    while (const std::optional<Time> at = messages.next_time()) {
      look();
      const Time between = messages.now() + (*at - messages.now()) / 2;  // some flows begin between events
      while (messages.next(between)) {
      }
      look();
      while (messages.next(*at)) {
      }
    }
    CHECK(worst_load <= 1 + 1e-9);
    std::vector<double> sent(links.size());
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < random.patterns.size(); ++i)
      for (std::uint32_t round = 0; round < random.patterns[i]->rounds(); ++round)
        for (std::uint32_t rank = 0; rank < random.topology.ranks; ++rank) {
          const Exchange exchange = random.patterns[i]->exchange(rank, round);
          if (exchange.to == Exchange::kNobody) continue;
          ++count;
          for (const std::uint32_t link : random.topology.route(rank, exchange.to).links)
            if (links[link].us_per_byte > 0)
              sent[link] +=
                  static_cast<double>(exchange.bytes_out) * factor_of(random.links, {i, round, rank});
        }
    CHECK(messages.delivered() == count);
    const std::vector<double> busy_us = messages.busy_us();
    for (std::size_t link = 0; link < links.size(); ++link)
      CHECK(busy_us[link] == doctest::Approx(sent[link] * links[link].us_per_byte));
  }
}

TEST_CASE("messages: looking in small steps, or twice, changes nothing") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    const Case random = random_case(seed);
    Messages at_once(random.links, random.topology);
    start(at_once, random);
    std::vector<Messages::Departure> expected;
    while (const auto left = at_once.next(Time::max())) expected.push_back(*left);
    Messages in_steps(random.links, random.topology);
    start(in_steps, random);
    std::vector<Messages::Departure> all;
    for (Time until{}; in_steps.next_time(); until += Time(777'777)) {
      while (const auto left = in_steps.next(until)) {
        all.push_back(*left);
        (void)in_steps.next_time();
      }
    }
    CHECK(all == expected);
    CHECK(in_steps.waiting().empty());
  }
}

TEST_CASE("messages: the next of many times is the least, of equals the lowest") {
  Random random(1);
  EventQueue queue;
  std::vector<Time> times;
  for (int i = 0; i < 20'000; ++i) {
    if (i % 300 == 0) {
      times.resize(times.size() + 1 + random.below(5), EventQueue::kNever);
      queue.grow(times.size());
    }
    const std::uint32_t slot = random.below(static_cast<std::uint32_t>(times.size()));
    times[slot] = random.one_in(3) ? EventQueue::kNever : Time(random.below(50));
    queue.set(slot, times[slot]);
    const auto min = std::min_element(times.begin(), times.end());
    REQUIRE(queue.first_time() == *min);
    if (*min != EventQueue::kNever) REQUIRE(queue.first() == static_cast<std::uint32_t>(min - times.begin()));
  }
}

}  // namespace
}  // namespace cluster
