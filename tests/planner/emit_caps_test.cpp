// Frameworks that form groups by a number: their rules, the best number, and how it is written.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/emit/emitters/caps.hpp"
#include "tests/support/planned.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;

Sizes random_sizes(Random& random) {
  Sizes out;
  for (std::uint32_t i = 1 + random.below(20); i > 0; --i)
    out.push_back(2 * (random.one_in(3) ? random.between(1, 4) : random.between(1, 100)));
  return out;
}

std::int64_t sum(const Sizes& sizes, const Group& group) {
  std::int64_t out = 0;
  for (std::uint32_t i = group.begin; i < group.end; ++i) out += sizes[i];
  return out;
}

TEST_CASE("emit: the rules of caps are those of the fusions that the simulator has") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 20), support::pair_of(5, 0.001));
    Sizes bytes;
    std::vector<sim::Time> ready;
    for (const Gradient& gradient : scene.setting.workload.gradients) {
      bytes.push_back(gradient.bytes);
      ready.push_back(gradient.ready);
    }
    const std::int64_t cap = random.between(1, 20'000);
    const std::int64_t first = random.between(1, 20'000);
    CHECK(close_at(bytes, cap, {first}).groups ==
          support::fuse(
              fmt::format(R"({{"kind": "buckets", "cap_bytes": {}, "first_cap_bytes": {}}})", cap, first),
              scene));
    std::vector<sim::Time> ticks;  // a tick every 64 us
    for (const sim::Time time : ready)
      ticks.push_back(sim::from_us(64) * ((time + sim::from_us(64) - sim::Time(1)) / sim::from_us(64)));
    CHECK(add_within(bytes, cap, ticks).groups ==
          support::fuse(fmt::format(R"({{"kind": "threshold", "cap_bytes": {}, "cycle_us": 64}})", cap),
                        scene));
    CHECK(add_within(bytes, cap).groups ==
          support::fuse(fmt::format(R"({{"kind": "threshold", "cap_bytes": {}}})", cap), scene));
  }
}

TEST_CASE(
    "emit: a rule names the next cap that makes other groups, and the best cap beats every other, by time or "
    "by fewer groups") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Sizes sizes = random_sizes(random);
    const std::int64_t total = sum(sizes, {.begin = 0, .end = static_cast<std::uint32_t>(sizes.size())});
    const Sizes firsts = random.one_in(2) ? Sizes{} : Sizes{random.between(1, 200)};
    const std::int64_t alignment = random.one_in(2) ? 1 : 8;
    const std::uint32_t shift = random.below(1000);
    const auto cost = [&](const Groups& groups) {  // arbitrary, but equal for equal groups
      std::uint32_t hash = shift;
      for (const Group& group : groups) hash = hash * 31 + group.end * 7;
      return static_cast<double>(hash % 50);
    };
    for (const bool closes : {true, false}) {
      CAPTURE(closes);
      const auto rule = [&](std::int64_t cap) {
        return closes ? close_at(sizes, cap, firsts, alignment) : add_within(sizes, cap);
      };
      const BestCap best = best_cap(rule, cost);
      CHECK(best.is_every);
      std::int64_t groupings = 1;
      Capped now = rule(1);
      for (std::int64_t cap = 1; cap <= 8 * total; ++cap) {
        const Capped after = rule(cap + 1);
        const bool changes = now.groups != after.groups;
        const bool is_best = cap >= best.min && (best.max == 0 || cap <= best.max);
        const double us = cost(now.groups);
        const bool is_no_better =  // of equals the fewest groups are best
            best.iteration_us < us || (best.iteration_us == us && best.groups.size() <= now.groups.size());
        const bool holds = changes == (now.next_cap == cap + 1) &&
                           (now.next_cap == 0 || now.next_cap > cap) && is_no_better &&
                           (!is_best || now.groups == best.groups);
        if (!holds) FAIL_CHECK("a cap of ", cap);
        groupings += changes ? 1 : 0;
        now = after;
      }
      CHECK(best.tried == groupings);
    }
  }
}

TEST_CASE("emit: where caps are too many the best of larger and larger steps is taken") {
  Sizes sizes;
  Random random(7);
  for (int i = 0; i < 1500; ++i) sizes.push_back(random.between(1, 1'000'000'000));
  std::int64_t calls = 0;
  const BestCap best =
      best_cap([&](std::int64_t cap) { return close_at(sizes, cap); },
               [&](const Groups& groups) { return ++calls, static_cast<double>(groups.size()); });
  CHECK_FALSE(best.is_every);
  CHECK(best.tried == calls);
  CHECK(best.tried > 4'000'000 / 1500);
  CHECK(best.tried < 4'000);
  CHECK(best.groups.size() == 1);
}

TEST_CASE("emit: Megatron-LM's distributed optimizer counts from multiples of 64 elements") {
  // 65 reaches 65; the next starts at 128 and ends at 138, which is the cap; without alignment 65 + 10 + 63
  // fits.
  CHECK(support::shown(close_at({65, 10, 63, 1}, 138, {}, 64).groups) == "2 2");
  CHECK(support::shown(close_at({65, 10, 63, 1}, 138).groups) == "3 1");
  CHECK(support::shown(close_at({65, 10, 63, 1}, 139, {}, 64).groups) == "3 1");
  CHECK(close_at({65, 10, 63, 1}, 138, {}, 64).next_cap == 139);
}

TEST_CASE("emit: round numbers are the roundest of their range") {
  CHECK(roundest(1, 1, 10) == 1);
  CHECK(roundest(12'345, 13'999, 10) == 13'000);
  CHECK(roundest(12'345, 12'399, 10) == 12'350);
  CHECK(roundest(26, 36, 10) == 30);
  CHECK(roundest(7, 2'000, 10) == 1'000);
  CHECK(roundest(5, 100, 2) == 64);
  CHECK(roundest(3'600'256, 4'003'999, 2) == 3'670'016);
  CHECK(roundest(1'000'003, 1'000'003, 2) == 1'000'003);
}

TEST_CASE("emit: MiB are as short as they can be and DDP takes them for bytes of the range") {
  CHECK(mib_text(1, 25 << 20) == "25");
  CHECK(mib_text(25 << 20, 25 << 20) == "25");
  CHECK(mib_text((25 << 20) + 1, 26 << 20) == "26");
  CHECK(mib_text((25 << 20) + 1, (26 << 20) - 1) == "25.9");
  CHECK(mib_text(3, 4) == "0.000004");
  CHECK(bytes_of_mib(mib_text(1, 1)) == 1);
  CHECK(bytes_of_mib("0.5") == 524'288);
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::int64_t max = random.between(2, 4'000'000'000);
    if (random.one_in(10)) max *= 1'999'999;  // close to the maximum bytes of a file
    const std::int64_t min =
        max - random.below(static_cast<std::uint32_t>(std::min<std::int64_t>(max, 1 << (1 + seed % 24))));
    const std::string mb = mib_text(min, max);
    CHECK(bytes_of_mib(mb) >= min);
    CHECK(bytes_of_mib(mb) <= max);
    const std::size_t dot = mb.find('.');
    if (dot == std::string::npos || mb.find('e') != std::string::npos || max > (std::int64_t{1} << 40))
      continue;
    std::int64_t scale = 1;  // with one decimal less, the first number that is not too small is too large
    for (std::size_t i = dot + 2; i < mb.size(); ++i) scale *= 10;
    const std::int64_t units = (min * scale + (1 << 20) - 1) >> 20;
    CHECK(bytes_of_mib(fmt::format("{}.{:0{}}", units / scale, units % scale, mb.size() - dot - 2)) > max);
  }
}

}  // namespace
}  // namespace planner
