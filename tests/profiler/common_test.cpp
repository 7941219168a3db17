// When a machine counts as noisy.

#include <doctest/doctest.h>

#include "profiler/common/host.hpp"
#include "profiler/common/noise.hpp"

namespace profiler {
namespace {

const std::vector<double> kSteady(20, 100.0);

TEST_CASE("noise: steady times on processors that nobody else uses are quiet") {
  const NoiseVerdict verdict =
      noise_verdict(kSteady, kSteady, ProcessorTimes{.busy_s = 10, .own_s = 1, .all_s = 100},
                    ProcessorTimes{.busy_s = 12, .own_s = 3, .all_s = 104});
  CHECK(!verdict.is_noisy());
  CHECK(verdict.busy_elsewhere == 0.0);
  CHECK(verdict.loop.median == 100);
}

TEST_CASE("noise: a loop that spreads, iterations that spread or drift, and processors used by others") {
  std::vector<double> spread = kSteady;
  for (std::size_t i = 0; i < spread.size(); i += 2) spread[i] = 120;
  CHECK(noise_verdict(spread, kSteady, {}, {}).reasons.size() == 1);
  CHECK(noise_verdict(kSteady, spread, {}, {}).reasons.size() == 1);

  std::vector<double> drifting = kSteady;
  for (std::size_t i = drifting.size() / 2; i < drifting.size(); ++i) drifting[i] = 107;
  const NoiseVerdict drift = noise_verdict(kSteady, drifting, {}, {});
  REQUIRE(drift.reasons.size() == 1);
  CHECK(drift.reasons.front() == "the second half of the iterations differs by 7 %");
  CHECK(!drift.busy_elsewhere);

  const NoiseVerdict shared =
      noise_verdict(kSteady, kSteady, ProcessorTimes{.busy_s = 10, .own_s = 1, .all_s = 100},
                    ProcessorTimes{.busy_s = 14, .own_s = 3, .all_s = 104});
  REQUIRE(shared.reasons.size() == 1);
  CHECK(shared.reasons.front() == "other processes took 50 % of the processors");
}

TEST_CASE("noise: of too short a time nothing is said about others") {
  const NoiseVerdict verdict =
      noise_verdict(kSteady, kSteady, ProcessorTimes{.busy_s = 10, .own_s = 1, .all_s = 100},
                    ProcessorTimes{.busy_s = 10.1, .own_s = 1, .all_s = 100.1});
  CHECK(!verdict.busy_elsewhere);
  CHECK(!verdict.is_noisy());
}

TEST_CASE("host: has a name and a processor, and times that go on") {
  CHECK(!processor_name().empty());
  CHECK(processor_count() >= 1);
  if (const auto bytes = free_memory_bytes()) CHECK(*bytes > 0);
  CHECK(time_fixed_loop_us() > 0);
}

}  // namespace
}  // namespace profiler
