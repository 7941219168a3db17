// Costs derived from measured curves: other numbers of workers, halves, several nodes, and physical bounds.

#include "planner/cost/derived.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/bundled_networks.hpp"
#include "core/errors.hpp"
#include "planner/cost/costs.hpp"
#include "planner/cost/transfers.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::CostCurve;
using core::Network;
using doctest::Approx;

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kReduceScatter = CollectiveKind::reduce_scatter;
constexpr auto kAllGather = CollectiveKind::all_gather;

using Points = std::vector<std::pair<double, double>>;

Network measured_on(const std::vector<std::pair<std::int64_t, Points>>& all_reduces) {
  Network out = {.name = "n"};
  for (const auto& [workers, points] : all_reduces)
    out.measured.push_back({kAllReduce, {}, workers, CostCurve::through(points), {}});
  return out;
}

Network bundled(const std::string& name) { return core::read_network(*core::find_bundled_network(name)); }

double us(const Network& network, std::int64_t workers, CollectiveKind kind, double bytes,
          const Algorithm& algorithm = {}) {
  return Costs(network, workers, algorithm).of(kind).curve.us(bytes);
}

/// A ring on a link of 10 us and 0.001 us per byte.
Points ring(double p) {
  Points out;
  for (double bytes = 64; bytes < 1e7; bytes *= 2)
    out.emplace_back(bytes, 2 * (p - 1) * 10 + 2 * (p - 1) / p * 0.001 * bytes);
  return out;
}

TEST_CASE("derived: from rings on 2 and 4 workers follow the rings on 8, 64 and 3") {
  const Network network = measured_on({{2, ring(2)}, {4, ring(4)}});
  for (const std::int64_t workers : {8, 64, 3})
    for (const auto& point : ring(static_cast<double>(workers))) {
      CAPTURE(workers);
      CAPTURE(point.first);
      const double found = us(network, workers, kAllReduce, point.first);
      CHECK(found == Approx(point.second).epsilon(workers == 3 ? 0.05 : 0.01));
    }
}

TEST_CASE("derived: on many more workers a longer message does not take less than a shorter one") {
  const Network grows = measured_on({{8, {{512, 20}, {1e6, 40}, {1e9, 6000}}}});
  for (const std::int64_t workers : {16, 64, 256, 1024}) {
    CAPTURE(workers);
    double before = 0;
    for (double bytes = 1; bytes < 1e9; bytes *= 1.5) {
      CAPTURE(bytes);
      const double found = us(grows, workers, kAllReduce, bytes);
      CHECK(found >= before * (1 - 1e-9));
      before = found;
    }
  }
}

TEST_CASE("derived: large messages keep the bus bandwidth of the nearest curve") {
  // 1 GB/s of bus bandwidth on 4 workers: 2 x 3/4 x 1e6 bytes in 1500 us; on 8 workers 2 x 7/8.
  const Network network = measured_on({{4, {{1e6, 1500}, {1e9, 1.5e6}}}});
  CHECK(us(network, 8, kAllReduce, 1e9) == Approx(1.75e6));
  CHECK(us(network, 2, kAllReduce, 1e9) == Approx(1e6));
}

TEST_CASE(
    "derived: no message is faster than the nearest curve's bus bandwidth allows, and none takes no time") {
  for (const core::BundledNetwork& each : core::bundled_networks()) {
    CAPTURE(each.name);
    Network network = bundled(std::string(each.name));
    std::erase_if(network.measured, [](const core::Measured& one) { return one.workers > 4; });
    for (const std::int64_t workers : {8, 16, 64}) {
      std::vector<MeasuredOn> known;
      for (const core::Measured& one : network.measured)
        if (one.collective == kAllReduce) known.push_back({one.workers, &one.curve});
      const Extrapolation found = extrapolate(known, workers, {}, kAllReduce);
      const auto p = static_cast<double>(workers);
      for (const auto& [bytes, nearest_us] : known.back().curve->points())
        CHECK(found.curve.us(bytes) >= 0.999 * nearest_us * (p - 1) / p / 0.75);
      CHECK(found.low_factor <= 1);
      CHECK(found.high_factor >= 1);
    }
  }
}

TEST_CASE(
    "derived: from 2 and 4 workers none of the bundled curves on 8 is predicted worse than by the ring's "
    "factor") {
  for (const core::BundledNetwork& each : core::bundled_networks())
    for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather}) {
      const Network network = bundled(std::string(each.name));
      std::vector<MeasuredOn> known;
      const CostCurve* truth = nullptr;
      for (const core::Measured& one : network.measured) {
        if (one.collective != kind) continue;
        if (one.workers == 8) truth = &one.curve;
        if (one.workers < 8) known.push_back({one.workers, &one.curve});
      }
      if (truth == nullptr) continue;
      CAPTURE(each.name);
      const Extrapolation found = extrapolate(known, 8, {}, kind);
      double own = 0;
      double by_factor = 0;
      for (const auto& [bytes, expected] : truth->points()) {
        own += std::abs(found.curve.us(bytes) / expected - 1);
        by_factor += std::abs(known.back().curve->us(bytes) * (7.0 / 8) / (3.0 / 4) / expected - 1);
      }
      CHECK(own <= by_factor * 1.001);
    }
}

TEST_CASE("derived: curves that do not predict one another are refused, with the measurement that helps") {
  // On 4 workers ten times as slow as on 2.
  const Network network = measured_on({{2, {{1000, 10}, {1e6, 1000}}}, {4, {{1000, 100}, {1e6, 10000}}}});
  try {
    Costs(network, 8, {}).of(kAllReduce);
    FAIL("expected a refusal");
  } catch (const core::Unsupported& problem) {
    const std::string text = problem.what();
    CHECK(text.find("measured on 2, 4, which predict one another with a mean error of") != std::string::npos);
    CHECK(text.find("measure it on 8") != std::string::npos);
  }
}

TEST_CASE(
    "derived: a link that the network states is preferred to other numbers of workers, and the change "
    "named") {
  Network network = measured_on({{4, ring(4)}});
  network.link = core::Link{.alpha_us = 7, .beta_us_per_byte = 0.002};
  CHECK(us(network, 8, kAllReduce, 1000) == Approx(14 * 7 + 1.75 * 2));
  const std::vector<Warning> warnings = Costs(network, 8, {}).warnings(kAllReduce, {1000});
  REQUIRE(warnings.size() == 1);
  CHECK(
      warnings.front().text ==
      "network 'n', ring all_reduce on 8 workers: the formula of ring on the network's link, where 4 workers "
      "have a measured curve; times of the two do not compare");
}

TEST_CASE("derived: halves of a measured all-reduce are assumed, with a warning that says so") {
  const Network network = measured_on({{8, {{1000, 20}, {2000, 20}, {1e8, 1e5}}}});
  CHECK(us(network, 8, kReduceScatter, 1e8) == Approx(0.57e5).epsilon(0.001));
  CHECK(us(network, 8, kAllGather, 1000) == Approx(15));  // 0.75 of a startup
  const std::vector<Warning> warnings = Costs(network, 8, {}).warnings(kAllGather, {1000});
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().text.find("ASSUMED") != std::string::npos);
}

TEST_CASE("derived: measured halves are used as they are") {
  const Network network = bundled("h100-nvlink-8");
  for (const core::Measured& one : network.measured)
    for (const auto& [bytes, expected] : one.curve.points())
      CHECK(us(network, one.workers, one.collective, bytes) == expected);
}

// ---- several nodes

TEST_CASE("derived: nodes over a port: whichever takes longer, or both in turn with two_level") {
  Network network = measured_on({{2, {{1000, 10}, {1e6, 1000}}}});
  join_nodes(network, {.alpha_us = 5, .beta_us_per_byte = 0.008}, false);  // 1 Gb/s for each worker
  // 4 workers are 2 nodes: 2 x 1/2 of M / 2 over the port, 0.004 us per byte, and 2 x 5 us
  CHECK(us(network, 4, kAllReduce, 1e6) == Approx(10 + 4000));
  CHECK(us(network, 4, kAllReduce, 1000) == Approx(10 + 10));  // the node takes longer
  CHECK(us(network, 4, kAllReduce, 1e6, {.name = "two_level"}) == Approx(10 + 1000 + 4000));
  CHECK(us(network, 2, kAllReduce, 1e6) == 1000);
  Network shared = measured_on({{2, {{1000, 10}, {1e6, 1000}}}});
  join_nodes(shared, {.alpha_us = 5, .beta_us_per_byte = 0.008}, true);
  CHECK(us(shared, 4, kAllReduce, 1e6) == Approx(10 + 8000));
  CHECK_THROWS_AS(us(network, 5, kAllReduce, 1e6), core::Unsupported);
}

TEST_CASE("derived: the cost of nodes lies on or above both curves, and grows with the nodes") {
  Network network = bundled("h100-nvlink-8");
  join_nodes(network, {.alpha_us = 5, .beta_us_per_byte = 8e-3 / 400}, false);
  for (double bytes = 1; bytes < 1e10; bytes *= 1.7) {
    CAPTURE(bytes);
    const double inside = us(network, 8, kAllReduce, bytes);
    double before = inside;
    for (const std::int64_t workers : {16, 32, 128}) {
      const double now = us(network, workers, kAllReduce, bytes);
      CHECK(now >= before * (1 - 1e-9));
      before = now;
    }
  }
}

// ---- physical bounds

TEST_CASE("derived: a last line that is under the line rate and steeper meets it beyond the last size") {
  // 0.002 us a byte: 2 us at 1000 bytes, where the curve has 1 us; its last line of 0.01 us a byte is higher
  // from 1125 on
  const CostCurve given = CostCurve::through({{500, 1}, {900, 0}, {1000, 1}});
  const CostCurve out = raised(given, 0.002);
  for (const double bytes : {1000.0, 1100.0, 1125.0, 1200.0, 5000.0, 1e6})
    CHECK(out.us(bytes) == Approx(std::max(given.us(bytes), 0.002 * bytes)).epsilon(1e-9));
}

TEST_CASE("derived: costs under the line rate are raised to it, and are untouched above") {
  for (double bytes = 1; bytes < 1e10; bytes *= 3) {
    const CostCurve affine = raised_affine(100, 0.001, 0.002);
    CHECK(affine.us(bytes) == Approx(std::max(100 + 0.001 * bytes, 0.002 * bytes)).epsilon(1e-9));
    const CostCurve given = CostCurve::through({{10, 50}, {1e5, 120}, {1e6, 3000}});
    CHECK(raised(given, 0.002).us(bytes) == Approx(std::max(given.us(bytes), 0.002 * bytes)).epsilon(1e-9));
  }
  CHECK(raised_affine(100, 0.001, 0.002).is_monotone());
  CHECK(raised_affine(100, 0.001, 0.002).saved_by_merging_us() == 0);
  CHECK(raised_affine(100, 0.003, 0.002) == CostCurve::affine(100, 0.003));
}

TEST_CASE("derived: a link beyond its own line rate costs the line rate") {
  Network network = {
      .name = "n", .link = core::Link{.alpha_us = 1, .beta_us_per_byte = 0.0069}, .line_rate_gbps = 1};
  CHECK(us(network, 8, kAllReduce, 1e8) == Approx(1.75 * 0.008 * 1e8));
  const std::vector<Warning> warnings = Costs(network, 8, {}).warnings(kAllReduce, {1e8});
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().text.find("fidelity 'closed' takes instead: measure larger messages") !=
        std::string::npos);
}

TEST_CASE("derived: messages below the first size keep its time up to where the line rate meets it") {
  // us      1 |------.            0.002 us a byte meets the first time, 1 us, at 500 bytes
  //           |       `.  500 bytes, then the line
  const CostCurve given = CostCurve::through({{1000, 1}, {2000, 10}});
  const CostCurve out = raised(given, 0.002);
  for (const double bytes : {1.0, 499.0, 500.0, 750.0, 1000.0, 1500.0, 2000.0, 1e6})
    CHECK(out.us(bytes) == Approx(std::max(given.us(bytes), 0.002 * bytes)).epsilon(1e-9));
  CHECK(out.startup_us() == 1);
  CHECK(raised(given, 0.0001) == given);
  CHECK(raised(CostCurve::affine(100, 0.001), 0.002) == raised_affine(100, 0.001, 0.002));
}

TEST_CASE("derived: the line rate is that of the outermost level, and bounds only workers that span it") {
  Network network = {.name = "n", .line_rate_gbps = 1};
  network.levels = {{.name = "node", .size = 4, .link = {.alpha_us = 1, .beta_us_per_byte = 1e-5}},
                    {.name = "nodes", .size = {}, .link = {.alpha_us = 1, .beta_us_per_byte = 0.0069}}};
  CHECK(us(network, 4, kAllReduce, 1e8) == Approx(6 + 1.5 * 1e-5 * 1e8));
  CHECK(Costs(network, 4, {}).warnings(kAllReduce, {1e8}).empty());
  CHECK(us(network, 8, kAllReduce, 1e8) == Approx(1.75 * 0.008 * 1e8));
}

// ---- all-gathers of encodings

TEST_CASE("derived: an all-gather of encodings is the ring's with a tree, and takes all rounds by doubling") {
  const Network network = support::link_of(10, 0.5);
  Transfer transfer;
  transfer.compressor = {.name = "c", .ratio = 0.1};
  transfer.compressor.collective = kAllGather;
  const auto gather = [&](const char* name) {
    transfer.all_reduce = {.name = name};
    return TransferCost(network, 8, transfer).us(kAllReduce, 1000);
  };
  const double bytes = 7 * 0.1 * 1000;  // what a worker receives
  CHECK(gather("ring") == Approx(70 + 0.5 * bytes));
  CHECK(gather("binary_tree") == Approx(70 + 0.5 * bytes));
  CHECK(gather("double_binary_tree") == Approx(70 + 0.5 * bytes));
  CHECK(gather("recursive_doubling") == Approx(30 + 0.5 * bytes));
  CHECK(gather("halving_doubling") == Approx(30 + 0.5 * bytes));
}

}  // namespace
}  // namespace planner
