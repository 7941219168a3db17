// The messages that decide when a rank leaves a collective.

#include "sim/cluster/deciding.hpp"

#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "sim/cluster/patterns/rings.hpp"
#include "sim/cluster/steps.hpp"
#include "tests/support/random.hpp"

namespace cluster {
namespace {

using sim::Time;
using support::Random;

/// The same messages, asked for one by one.
class OneByOne : public Pattern {
 public:
  explicit OneByOne(const Pattern& pattern) : pattern_(pattern) {}
  std::uint32_t ranks() const override { return pattern_.ranks(); }
  std::uint32_t rounds() const override { return pattern_.rounds(); }
  Exchange exchange(std::uint32_t rank, std::uint32_t round) const override {
    return pattern_.exchange(rank, round);
  }

 private:
  const Pattern& pattern_;
};

Links random_links(Random& random, std::uint32_t ranks) {
  Links out = {
      .levels = {{.ranks = ranks, .link = {.startup_us = 1.0 * random.below(4), .us_per_byte = 0.01}}},
      .sum_us_per_byte = random.one_in(2) ? 0 : 0.003,
      .slowdown = {},
      .sigma = random.one_in(3) ? 0.2 : 0,
      .seed = random.below(100)};
  if (random.one_in(2)) return out;
  const double finest = random.one_in(2) ? 1 : 0.001;  // then no two links are alike
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    out.slowdown.push_back(1 + finest * random.below(static_cast<std::uint32_t>(3 / finest)));
  return out;
}

/// Rows and columns, or one ring whose messages are added, forwarded, or first one and then the other.
std::vector<RingPhase> random_phases(Random& random, std::uint32_t ranks) {
  if (random.one_in(2)) return grid_phases(ranks, 1 + random.below(ranks));
  const bool reduces = random.one_in(2);
  const bool gathers = !reduces || random.one_in(2);
  return {{.size = ranks,
           .reducing = reduces ? ranks - 1 : 0,
           .gathering = gathers ? ranks - 1 : 0,
           .first_part = reduces ? 0U : 1U}};
}

TEST_CASE("deciding messages: those of rings are found as those of any pattern, and fill the time") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ranks = 2 + random.below(11);
    const Rings rings(ranks, random.below(500), random_phases(random, ranks));
    const Links links = random_links(random, ranks);
    std::vector<Time> begins(ranks);
    for (Time& begin : begins) begin = sim::from_us(random.below(20));
    std::vector<Time> ends = begins;
    run_rounds(rings, links, seed, ends);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const std::vector<DecidingMessage> found = deciding_messages(rings, links, seed, begins, rank);
      CHECK(found == deciding_messages(OneByOne(rings), links, seed, begins, rank));
      REQUIRE(found.size() == rings.rounds());
      Time at = begins[found.back().from];
      for (std::size_t i = found.size(); i-- > 0;) {
        // the sums of both neighbours take equally long
        const Exchange sent = rings.exchange(found[i].from, found[i].round);
        at += found[i].duration + (sent.sums ? sum_time(links, sent.bytes_out) : Time::zero());
      }
      CHECK(at == ends[rank]);
    }
  }
}

}  // namespace
}  // namespace cluster
