// Shares of the processors that this process may run on.

#include <sched.h>

#include <algorithm>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/transport/processors.hpp"

namespace {

std::vector<int> allowed() {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(0, sizeof set, &set) == 0);
  std::vector<int> out;
  for (std::size_t each = 0; each < CPU_SETSIZE; ++each)
    if (CPU_ISSET(each, &set)) out.push_back(static_cast<int>(each));
  return out;
}

TEST_CASE("processors: shares are as large as each other to one, and together all there are") {
  const std::vector<int> all = allowed();
  for (std::uint32_t workers = 1; workers <= all.size() + 3; ++workers) {
    CAPTURE(workers);
    std::vector<int> shared;
    std::size_t min = all.size();
    std::size_t max = 0;
    for (std::uint32_t worker = 0; worker < workers; ++worker) {
      std::vector<int> own;
      std::thread([&] {  // whose affinity goes with it
        transport::keep_to_share(worker, workers);
        own = allowed();
      })
          .join();
      min = std::min(min, own.size());
      max = std::max(max, own.size());
      if (workers <= all.size() || worker < all.size()) shared.insert(shared.end(), own.begin(), own.end());
    }
    CHECK(min >= 1);
    CHECK(max <= min + 1);
    if (workers >= all.size()) CHECK(max == 1);
    std::ranges::sort(shared);
    CHECK(shared == all);
  }
  CHECK(allowed() == all);
}

}  // namespace
