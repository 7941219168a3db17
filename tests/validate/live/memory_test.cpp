// What a live run needs of memory, worked out before it starts.

#include "validate/live/memory.hpp"

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/validate/live/live.hpp"

namespace live {
namespace {

// small_profile() has 974 elements of 4 bytes.
constexpr double kGradients = 4 * (90 + 7 + 130 + 64 + 33 + 250 + 400);

TEST_CASE("memory: a dense run has its gradients twice, whatever the number of workers") {
  for (const std::uint32_t workers : {2U, 8U})
    CHECK(memory_bytes(live_tests::spec_for(R"("wfbp")", workers), false) == 2 * kGradients);
}

TEST_CASE("memory: a worker of a compressed run computes the gradients of all to check the result") {
  const std::string schedule = R"({"fusion": "all", "compression": "dgc"})";
  CHECK(memory_bytes(live_tests::spec_for(schedule, 8), false) == 9 * kGradients);
}

TEST_CASE("memory: where some groups may stay dense, no more is taken for granted") {
  live::RunSpec spec = live_tests::spec_for(R"({"fusion": "none", "compression": "dgc"})", 8);
  spec.schedule.selective = true;
  CHECK(memory_bytes(spec, false) == 2 * kGradients);
}

TEST_CASE("memory: what cannot fit is refused, what is small is not") {
  live::RunSpec spec = live_tests::spec_for(R"("wfbp")", 2);
  CHECK_NOTHROW(check_memory({spec}, 2));
  spec.profile.layers.front().tensors.front().elements = 1'000'000'000'000;
  CHECK_THROWS_AS(check_memory({spec}, 2), core::EnvironmentError);
}

}  // namespace
}  // namespace live
