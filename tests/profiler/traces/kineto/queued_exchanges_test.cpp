// When exchanges run or queue: timelines by hand, and the definition itself on random collectives.

#include "profiler/traces/kineto/queued_exchanges.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

namespace kineto {
namespace {

TEST_CASE("queued exchanges: one waits from its launch for a bucket that was launched before it") {
  //  bucket    |=========|              launched at 0, 5 to 20
  //  exchange       .....|======|       launched at 12, 20 to 25
  const std::vector<GroupCollective> both = {
      {.ran = {5, 20}, .launched_ns = 0}, {.ran = {20, 25}, .launched_ns = 12, .is_exchange_of_pass = true}};
  CHECK(queued_exchanges(both) == std::vector<LaunchedSpan>{{.span = {12, 25}, .launched_ns = 12}});
  std::vector<GroupCollective> apart = both;
  apart[0].group = 1;
  CHECK(queued_exchanges(apart) == std::vector<LaunchedSpan>{{.span = {20, 25}, .launched_ns = 12}});
  std::vector<GroupCollective> later = both;
  later[0].launched_ns = 13;
  CHECK(queued_exchanges(later) == std::vector<LaunchedSpan>{{.span = {20, 25}, .launched_ns = 12}});
}

TEST_CASE("queued exchanges: as many spans as there are collectives, however far they are launched ahead") {
  constexpr std::int64_t kMany = 200'000;
  std::vector<GroupCollective> all;
  for (std::int64_t i = 0; i < kMany; ++i)
    all.push_back(
        {.ran = {kMany + 10 * i, kMany + 10 * i + 10}, .launched_ns = i, .is_exchange_of_pass = i % 2 == 1});
  const std::vector<LaunchedSpan> found = queued_exchanges(all);
  CHECK(found.size() == kMany / 2);
  CHECK(found.front() == LaunchedSpan{.span = {kMany, kMany + 20}, .launched_ns = 1});
}

/// Whether at this time an exchange runs or queues that was launched before `launched_ns`, by the definition.
bool is_awaited(const std::vector<GroupCollective>& all, std::int64_t at_ns, std::int64_t launched_ns) {
  const auto runs = [&](const GroupCollective& each) {
    return each.ran.first <= at_ns && at_ns < each.ran.second;
  };
  return std::any_of(all.begin(), all.end(), [&](const GroupCollective& each) {
    if (!each.is_exchange_of_pass || each.launched_ns >= launched_ns) return false;
    const bool queues =
        each.launched_ns <= at_ns && at_ns < each.ran.first &&
        std::any_of(all.begin(), all.end(), [&](const GroupCollective& before) {
          return before.group == each.group && before.launched_ns < each.launched_ns && runs(before);
        });
    return queues || runs(each);
  });
}

TEST_CASE("queued exchanges: at each moment those of the definition, whatever the order") {
  constexpr std::int64_t kEnd = 24;
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    std::vector<GroupCollective> all;
    for (std::int64_t i = random.between(0, 8); i > 0; --i) {
      const std::int64_t start = random.between(0, kEnd - 4);
      all.push_back({.group = random.below(2),
                     .ran = {start, start + random.between(0, 4)},
                     .launched_ns = random.between(0, start),
                     .is_exchange_of_pass = random.one_in(2)});
    }
    const std::vector<LaunchedSpan> found = queued_exchanges(all);
    for (std::size_t i = 1; i < found.size(); ++i) CHECK(found[i - 1].span.second <= found[i].span.first);
    for (std::int64_t at = 0; at < kEnd; ++at)
      for (std::int64_t launched = 0; launched < kEnd; ++launched) {
        const bool covers = std::any_of(found.begin(), found.end(), [&](const LaunchedSpan& each) {
          return each.launched_ns < launched && each.span.first <= at && at < each.span.second;
        });
        REQUIRE(covers == is_awaited(all, at, launched));
      }
  }
}

}  // namespace
}  // namespace kineto
