// Jumps between sparse sizes, where NCCL changes protocol.

#include "profiler/traces/protocol_switch.hpp"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/bundled.hpp"
#include "profiler/traces/import.hpp"

namespace {

using Points = std::vector<std::pair<double, double>>;
constexpr auto kAllGather = core::CollectiveKind::all_gather;

double low_latency_us(double bytes) { return 10 + bytes / 80e3; }
double simple_us(double bytes) { return 25 + bytes / 200e3; }

/// An all-gather on two workers that changes protocol at `at`, at every fourth power of two.
Points jumping(double at) {
  Points out;
  for (double bytes = 1024; bytes <= (1 << 28); bytes *= 4)
    out.emplace_back(bytes, bytes < at ? low_latency_us(bytes) : simple_us(bytes));
  return out;
}

traces::Series series(const Points& points) {
  return {.path = "log", .collective = kAllGather, .workers = 2, .points = points};
}

TEST_CASE("protocol switch: both protocols go on to the size at which NCCL's estimates cross") {
  // The bus bandwidth reaches 98 GB/s, of which NCCL counts on 108: 0.5 / 108e3 us a byte. Its startups
  // differ by 8.4 - 6.6 + 3.4 - 0.6 = 4.6 us, the times per byte by a factor of 1 / 0.42 - 1.
  constexpr double kNear = 720e3;
  const auto found = traces::protocol_switch(jumping(kNear), kAllGather, 2);
  REQUIRE(found.has_value());
  const auto [at, us] = found->after_jump;
  CHECK(at == doctest::Approx(kNear).epsilon(0.01));
  CHECK(us == doctest::Approx(simple_us(at)));
  CHECK(found->before_jump.first == at - 1);
  CHECK(found->before_jump.second == doctest::Approx(low_latency_us(at - 1)));

  const core::CostCurve curve = traces::curve_through(series(jumping(kNear)));
  for (const auto& [bytes, measured_us] : jumping(kNear))
    if (bytes < (1 << 28)) CHECK(curve.us(bytes) == doctest::Approx(measured_us));
  CHECK(curve.us(1 << 19) == doctest::Approx(low_latency_us(1 << 19)));
  CHECK(curve.us(900e3) == doctest::Approx(simple_us(900e3)));
}

TEST_CASE("protocol switch: none where nothing jumps, links are slow, or sizes lie close together") {
  const auto none = [](const Points& points, std::int64_t workers) {
    return !traces::protocol_switch(points, kAllGather, workers).has_value();
  };
  Points straight;
  for (double bytes = 1024; bytes <= (1 << 28); bytes *= 4) straight.emplace_back(bytes, simple_us(bytes));
  CHECK(none(straight, 2));
  Points slow = jumping(733e3);
  for (auto& [bytes, us] : slow) us *= 3;
  CHECK(none(slow, 2));
  Points dense;
  for (double bytes = 1024; bytes <= (1 << 28); bytes *= 2)
    dense.emplace_back(bytes, bytes < 733e3 ? low_latency_us(bytes) : simple_us(bytes));
  CHECK(none(dense, 2));
  CHECK(none(jumping(733e3), 1));
  Points machines;  // of which 16 workers are several
  for (double bytes = 1024; bytes <= (1 << 30); bytes *= 4)
    machines.emplace_back(bytes, bytes < 30e6 ? 10 + bytes / 400e3 : 100 + bytes / 1000e3);
  CHECK(none(machines, 16));
  CHECK(none({{1024, 10}}, 2));
  CHECK(none({}, 2));
}

TEST_CASE("protocol switch: every second size of the bundled curves tells the others better than lines do") {
  double by_lines = 0;
  double with_jump = 0;
  for (const core::BundledFile& each : core::bundled_networks()) {
    const core::Network network = core::read_network(*core::find_bundled_network(each.name));
    for (const core::Measured& measured : network.measured) {
      const Points& all = measured.curve.points();
      Points kept;
      for (std::size_t i = 0; i < all.size(); i += 2) kept.push_back(all[i]);
      traces::Series sparse = series(kept);
      sparse.collective = measured.collective;
      sparse.workers = measured.workers;
      const core::CostCurve lines = core::CostCurve::through(kept);
      const core::CostCurve jumps = traces::curve_through(sparse);
      for (std::size_t i = 1; i < all.size(); i += 2) {
        by_lines += std::abs(lines.us(all[i].first) / all[i].second - 1);
        with_jump += std::abs(jumps.us(all[i].first) / all[i].second - 1);
      }
    }
  }
  CHECK(with_jump < 0.9 * by_lines);
}

}  // namespace
