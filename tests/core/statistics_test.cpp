#include "core/statistics.hpp"

#include <doctest/doctest.h>

namespace core {
namespace {

TEST_CASE("statistics: median, interquartile range, 99th percentile and minimum, whatever the order") {
  const Statistics odd = statistics({5, 1, 4, 2, 3});
  CHECK(odd.median == 3);
  CHECK(odd.spread == 2);
  CHECK(odd.p99 == 5);
  CHECK(odd.min == 1);
  const Statistics even = statistics({3, 1, 2, 10});
  CHECK(even.median == 2.5);
  CHECK(even.spread == 3);  // 1.75 to 4.75
  CHECK(statistics({7}).median == 7);
  CHECK(statistics({7}).spread == 0);
  std::vector<double> many;
  for (int i = 200; i > 0; --i) many.push_back(i);
  CHECK(statistics(many).p99 == 198);
  CHECK(quantile({10, 20}, 0.25) == 12.5);
}

TEST_CASE("statistics: the nearest rank is the first that enough samples do not exceed") {
  CHECK(nearest_rank(1, 50) == 0);
  CHECK(nearest_rank(4, 50) == 1);
  CHECK(nearest_rank(20, 95) == 18);
  CHECK(nearest_rank(21, 95) == 19);
  CHECK(nearest_rank(100, 99) == 98);
}

}  // namespace
}  // namespace core
