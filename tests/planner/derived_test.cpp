// Costs derived from measured curves: other numbers of workers, halves, several nodes, and physical bounds.

#include "planner/cost/derived.hpp"
#include "planner/cost/extrapolate.hpp"
#include "planner/cost/line_rate.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/bundled.hpp"
#include "core/errors.hpp"
#include "planner/cost/costs.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/run/derived_spread.hpp"
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

TEST_CASE("derived: sizes measured as 0 us have no ratio and leave that of the other sizes") {
  // Nothing up to 4096 bytes, then 0.004 us per byte more on 2 workers and 0.006 on 4.
  const auto line = [](double us_per_byte, double bytes) {
    return us_per_byte * std::max(0.0, bytes - 4096);
  };
  const auto curve = [&](double us_per_byte) {
    Points out;
    for (double bytes = 1024; bytes < 1e7; bytes *= 2) out.emplace_back(bytes, line(us_per_byte, bytes));
    return out;
  };
  const Network network = measured_on({{2, curve(0.004)}, {4, curve(0.006)}});
  // On 8 workers times are read at sqrt(2/8) and sqrt(4/8) of a size. At a quarter and at half of 8192 bytes
  // both are 0; of the ratios 0, 0.52 and 0.61 at once, twice and four times, the median is that at twice.
  const auto on_2 = [&](double bytes) { return 2 * line(0.004, bytes / 2); };
  const auto on_4 = [&](double bytes) { return std::sqrt(2.0) * line(0.006, bytes / std::sqrt(2.0)); };
  const double ratio = on_2(2 * 8192) / on_4(2 * 8192);
  CHECK(us(network, 8, kAllReduce, 8192) == Approx(on_4(8192) * (1 + (1 - ratio) / 2)));
}

TEST_CASE("derived: from rings on 2 and 4 workers follow the rings on 8, 64 and 3") {
  const Network network = measured_on({{2, ring(2)}, {4, ring(4)}});
  for (const std::int64_t workers : {8, 64, 3})
    for (const auto& point : ring(static_cast<double>(workers))) {
      CAPTURE(workers);
      CAPTURE(point.first);
      const double found = us(network, workers, kAllReduce, point.first);
      CHECK(found == Approx(point.second).epsilon(1e-6));
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

TEST_CASE("derived: what a worker copies for itself shrinks with more workers, so the bus bandwidth grows") {
  // 0.002 us for each byte of a worker's own part, 0.004 us for each byte of the others', 5 us + 3 us a hop.
  const auto us_of = [](double p, double bytes) {
    return 5 + 3 * (p - 1) + bytes * (0.002 + 0.004 * (p - 1)) / p;
  };
  std::vector<std::pair<std::int64_t, Points>> curves;
  for (const std::int64_t workers : {2, 4}) {
    Points points;
    for (double bytes = 16; bytes < 1e9; bytes *= 2)
      points.emplace_back(bytes, us_of(static_cast<double>(workers), bytes));
    curves.emplace_back(workers, points);
  }
  Network network = measured_on(curves);
  for (core::Measured& each : network.measured) each.algorithm = "ring";
  for (const std::int64_t workers : {3, 8, 16})
    for (double bytes = 16; bytes < 1e8; bytes *= 3) {
      CAPTURE(workers);
      CAPTURE(bytes);
      CHECK(us(network, workers, kAllReduce, bytes) ==
            Approx(us_of(static_cast<double>(workers), bytes)).epsilon(1e-6));
    }
}

/// `startup_us(workers)` and a ring's bytes at 10 GB/s.
Network network_of(const std::vector<std::int64_t>& workers, double (*startup_us)(double workers)) {
  std::vector<std::pair<std::int64_t, Points>> curves;
  for (const std::int64_t each : workers) {
    const auto p = static_cast<double>(each);
    Points points;
    for (double bytes = 512; bytes < 1e9; bytes *= 2)
      points.emplace_back(bytes, startup_us(p) + 2 * (p - 1) / p * 1e-4 * bytes);
    curves.emplace_back(each, points);
  }
  return measured_on(curves);
}

double tree(double workers) { return 20 + 8 * std::log2(workers); }
double chain(double workers) { return 20 + 3 * (workers - 1); }

TEST_CASE("derived: startups of a library's all-reduce grow with the doublings beyond 8 workers") {
  const Network network = network_of({8, 16}, tree);
  for (const std::int64_t workers : {32, 64, 128}) {
    CAPTURE(workers);
    CHECK(us(network, workers, kAllReduce, 512) == Approx(tree(static_cast<double>(workers))).epsilon(0.01));
  }
  // Up to 8 they grow as a ring's, as on machines of 8 GPUs.
  CHECK(us(network_of({2, 4}, chain), 8, kAllReduce, 512) == Approx(chain(8)).epsilon(0.01));
  // A single number of workers is no reason to pay for hops that a tree does not have.
  CHECK(us(network_of({16}, tree), 128, kAllReduce, 512) < 2 * tree(16));
}

TEST_CASE("derived: a ring that is stated, or that two curves show, keeps all its startups") {
  Network stated = network_of({8, 16}, chain);
  for (core::Measured& each : stated.measured) each.algorithm = "ring";
  CHECK(us(stated, 64, kAllReduce, 512) == Approx(chain(64)).epsilon(0.01));
  const Network link = measured_on({{8, ring(8)}, {16, ring(16)}});
  CHECK(us(link, 64, kAllReduce, 64) == Approx(ring(64).front().second).epsilon(0.01));
}

TEST_CASE("derived: three numbers of workers show whether startups grow with workers or with doublings") {
  CHECK(us(network_of({2, 4, 8}, tree), 16, kAllReduce, 512) == Approx(tree(16)).epsilon(0.01));
  CHECK(us(network_of({4, 8, 16}, chain), 32, kAllReduce, 512) == Approx(chain(32)).epsilon(0.01));
}

TEST_CASE("derived: the bus bandwidth of fewer workers rises no more than it was seen to") {
  // Beyond the startup 8 workers take 28 us and 4 workers 16: 1.5 times the bus bandwidth.
  const auto curve = [](double startup_us, double us) {
    return Points{
        {512, startup_us}, {2048, startup_us}, {1e6, startup_us + us}, {1e9, startup_us + 1e3 * us}};
  };
  const Network network = measured_on({{4, curve(14, 16)}, {8, curve(22, 28)}});
  const double found = us(network, 2, kAllReduce, 1e6);
  CHECK(found >= 10 + 16 * (0.5 / 0.75) / 1.5);
  CHECK(found <= 10 + 16 * (0.5 / 0.75));
}

TEST_CASE(
    "derived: with one number of workers an NVLink machine copies a worker's own part beside the others'") {
  for (const char* name : {"a100-nvlink-8", "b200-nvlink-8", "h100-nvlink-8"})
    for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather}) {
      const Network network = bundled(name);
      const core::Measured* of_two = find_measured(network, 2, {}, kind);
      const core::Measured* truth = find_measured(network, 4, {}, kind);
      REQUIRE(of_two != nullptr);
      REQUIRE(truth != nullptr);
      CAPTURE(name);
      const double bytes = 1 << 28;
      CHECK(extrapolate({{2, &of_two->curve}}, 4, {}, kind).curve.us(bytes) ==
            Approx(truth->curve.us(bytes)).epsilon(0.1));
    }
}

TEST_CASE("derived: the range of one number of workers widens with the distance") {
  const Network network = network_of({8}, tree);
  const std::vector<MeasuredOn> known = {{8, &network.measured.front().curve}};
  const Extrapolation near = extrapolate(known, 16, {}, kAllReduce);
  const Extrapolation far = extrapolate(known, 128, {}, kAllReduce);
  CHECK(near.low_factor == Approx(0.7));
  CHECK(near.high_factor == Approx(1.6));
  CHECK(far.low_factor == Approx(0.49));
  CHECK(far.high_factor == Approx(2.56));
}

TEST_CASE("derived: that few numbers of workers predict one another exactly leaves a range") {
  const Network network = network_of({8, 16, 32}, chain);
  std::vector<MeasuredOn> known;
  for (const core::Measured& one : network.measured) known.push_back({one.workers, &one.curve, true});
  // a share of 1 / (numbers of workers + 1) of the variance that a single number of workers has
  const Extrapolation of_three = extrapolate(known, 64, {}, kAllReduce);
  CHECK(of_three.low_factor == Approx(std::exp(std::log(0.7) / 2)).epsilon(0.01));
  CHECK(of_three.high_factor == Approx(std::exp(std::log(1.6) / 2)).epsilon(0.01));
  known.pop_back();
  const Extrapolation of_two = extrapolate(known, 64, {}, kAllReduce);
  CHECK(of_two.low_factor < of_three.low_factor);
  CHECK(of_two.high_factor > of_three.high_factor);
}

TEST_CASE("derived: where a curve falls, the shorter time is taken, with a range that holds the longer one") {
  const Network network =
      measured_on({{8, {{1e3, 20}, {1e5, 100}, {1e6, 900}, {2e6, 150}, {1e7, 500}, {1e8, 5000}}}});
  const std::optional<DerivedCost> cost = derived_cost(network, 16, {}, kAllReduce);
  REQUIRE(cost.has_value());
  REQUIRE(cost->peaks.size() == 1);
  CHECK(cost->peaks[0].from_bytes == 1e5);
  CHECK(cost->peaks[0].to_bytes == 2e6);
  CHECK(cost->peaks[0].factor == Approx(6).epsilon(0.1));
  CHECK(cost->curve.us(1e6) == Approx(150).epsilon(0.1));
  // a narrow peak, which lies between the sizes of a curve for more workers
  const Network narrow = measured_on({{2, {{1e3, 10}, {1e6, 883}, {2e6, 130}, {1e8, 5000}}},
                                      {4, {{1e3, 10}, {1e6, 900}, {2e6, 150}, {1e8, 7000}}}});
  for (const std::int64_t workers : {3, 8, 16})
    CHECK(derived_cost(narrow, workers, {}, kAllReduce)->peaks.size() == 1);
  const Costs costs(network, 16, {});
  CHECK(costs.warnings(kAllReduce, {1e4, 1e7}).size() == 1);
  const std::vector<Warning> warnings = costs.warnings(kAllReduce, {1e4, 1e6});
  REQUIRE(warnings.size() == 2);
  CHECK(
      warnings[1].text.find("from 100000 to 2000000 bytes the curves that it is derived from fall by up to a "
                            "factor of ") != std::string::npos);
  const std::vector<DerivedRange> ranges = derived_ranges(network, 16, {});
  REQUIRE(ranges.front().kind == kAllReduce);
  double longest = 0;
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    Network sampled = network;
    add_sampled(sampled, ranges, 16, {}, sample);
    for (const core::Measured& one : sampled.measured)
      if (one.collective == kAllReduce && one.workers == 16) longest = std::max(longest, one.curve.us(1e6));
  }
  CHECK(longest > 900);
}

TEST_CASE("derived: a warning says how startups were taken to grow") {
  const auto text = [](const Network& network, std::int64_t workers, const Algorithm& algorithm) {
    return derived_cost(network, workers, algorithm, kAllReduce)->derivation;
  };
  const auto has = [](const std::string& all, const char* part) {
    return all.find(part) != std::string::npos;
  };
  CHECK(has(text(network_of({4}, tree), 8, {}),
            "extrapolated from 4 workers: bytes sent and startups grow as with ring; "));
  CHECK(has(text(network_of({16}, tree), 32, {}),
            "from 16 workers: bytes sent grow as with ring, startups beyond 8 workers as with trees; "));
  CHECK(has(text(network_of({2, 4, 8}, tree), 16, {}),
            "from 4 and 8 workers: bytes sent grow as with ring, startups as with trees; "));
}

TEST_CASE("derived: that one number of workers alone says little of another refuses nothing between two") {
  const auto curve = [](double p, double noise) {
    Points points;
    for (double bytes = 512; bytes < 1e9; bytes *= 2, noise = 2 - noise)
      points.emplace_back(bytes, noise * (10 + 5 * (p - 1) + (p - 1) / p * 1e-4 * bytes));
    return CostCurve::through(points);
  };
  const CostCurve on_2 = curve(2, 1.03);
  const CostCurve on_32 = curve(32, 0.97);
  const Extrapolation found = extrapolate({{2, &on_2}, {32, &on_32}}, 8, {}, kReduceScatter);
  REQUIRE(found.left_out_error.has_value());
  CHECK(*found.left_out_error < kMaxLeftOutError);
  CHECK(found.curve.us(512) == Approx(45).epsilon(0.05));
}

TEST_CASE("derived: workers that reach more links are not continued to no time at all") {
  // Large messages take half as long on 4 workers as on 2.
  const Network network = measured_on({{2, {{1e6, 100}, {1e9, 1e5}}}, {4, {{1e6, 60}, {1e9, 6e4}}}});
  std::vector<MeasuredOn> known;
  for (const core::Measured& one : network.measured) known.push_back({one.workers, &one.curve});
  for (const std::int64_t workers : {8, 16, 64})
    for (double bytes = 1e6; bytes < 1e10; bytes *= 2)
      CHECK(extrapolate(known, workers, {}, kAllReduce).curve.us(bytes) >=
            0.999 * network.measured[1].curve.us(bytes));
}

TEST_CASE("derived: larger messages never take less time, nor more workers beyond the jumps of a curve") {
  constexpr double kBeyondJumps = 1 << 26;
  for (const core::BundledFile& each : core::bundled_networks()) {
    CAPTURE(each.name);
    Network network = bundled(std::string(each.name));
    std::erase_if(network.measured, [](const core::Measured& one) { return one.workers > 4; });
    for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather}) {
      std::vector<MeasuredOn> known;
      for (const core::Measured& one : network.measured)
        if (one.collective == kind) known.push_back({one.workers, &one.curve});
      for (const std::int64_t workers : {8, 16, 64}) {
        const Extrapolation found = extrapolate(known, workers, {}, kind);
        double before = 0;
        for (const auto& [bytes, nearest_us] : known.back().curve->points()) {
          const double now = found.curve.us(bytes);
          CHECK(now >= before);
          if (bytes > kBeyondJumps) CHECK(now >= nearest_us * (1 - 1e-9));
          before = now;
        }
        CHECK(found.low_factor <= 1);
        CHECK(found.high_factor >= 1);
      }
    }
  }
}

TEST_CASE(
    "derived: from 2 and 4 workers none of the bundled curves on 8 is predicted worse than by the ring's "
    "factor, nor are its sizes from 1 MiB on") {
  for (const core::BundledFile& each : core::bundled_networks())
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
      for (const double from : {0.0, 1024.0 * 1024}) {
        CAPTURE(from);
        double own = 0;
        double by_factor = 0;
        for (const auto& [bytes, expected] : truth->points()) {
          if (bytes < from) continue;
          own += std::abs(found.curve.us(bytes) / expected - 1);
          by_factor += std::abs(known.back().curve->us(bytes) * (7.0 / 8) / (3.0 / 4) / expected - 1);
        }
        CHECK(own <= by_factor * 1.001);
      }
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

TEST_CASE(
    "derived: from one number of workers, startups and copies are those of NVLink or of something slower") {
  const auto on = [](std::int64_t workers, double bus_bytes_per_us, std::int64_t wanted, double bytes) {
    Points points;
    const auto p = static_cast<double>(workers);
    for (double each = 8; each < 1e10; each *= 2)
      points.emplace_back(each, std::max(20.0, 2 * (p - 1) / p * each / bus_bytes_per_us));
    return us(measured_on({{workers, points}}), wanted, kAllReduce, bytes);
  };
  const double large = 1 << 30;
  // beside each of the algorithm's startups, as much as 3 of them is fixed over NVLink, and as 1.25 over PCIe
  CHECK(on(2, 200e3, 4, 8) == Approx(20 * (3.0 + 3) / (3 + 1)));
  CHECK(on(2, 10e3, 4, 8) == Approx(20 * (1.25 + 3) / (1.25 + 1)));
  // over NVLink a worker copies its own part in a quarter of the time of another's, unseen between machines
  CHECK(on(4, 200e3, 8, large) == Approx(2 * 7.25 / 8 * 0.75 / (3.25 / 4) * large / 200e3).epsilon(1e-3));
  CHECK(on(4, 10e3, 8, large) == Approx(2 * 7.0 / 8 * large / 10e3).epsilon(1e-3));
  CHECK(on(8, 200e3, 16, large) == Approx(2 * 15.0 / 16 * large / 200e3).epsilon(1e-3));
}

TEST_CASE("derived: halves of a measured all-reduce are assumed, with a warning that says so") {
  const Network network = measured_on({{8, {{1000, 20}, {2000, 20}, {1e8, 1e5}}}});
  CHECK(us(network, 8, kReduceScatter, 1e8) == Approx(0.57e5).epsilon(0.001));
  CHECK(us(network, 8, kAllGather, 1000) == Approx(15));  // 0.75 of a startup
  const Network machines = measured_on({{16, {{1000, 20}, {2000, 20}, {1e8, 1e5}}}});
  CHECK(us(machines, 16, kReduceScatter, 1e8) == Approx(0.52e5).epsilon(0.001));
  const std::vector<Warning> warnings = Costs(network, 8, {}).warnings(kAllGather, {1000});
  REQUIRE(warnings.size() == 1);
  CHECK(warnings.front().text.find("ASSUMED") != std::string::npos);
}

TEST_CASE("derived: a half that nobody measured takes as long as the other, and an all-reduce both") {
  // The halves of a ring on 16 workers: 150 us and 0.0009375 us per byte each.
  Points half = ring(16);
  for (auto& [bytes, time] : half) time /= 2;
  Network network = {.name = "n", .measured = {{kReduceScatter, {}, 16, CostCurve::through(half), {}}}};
  const auto derived = [&](CollectiveKind kind) { return *derived_cost(network, 16, {}, kind); };
  CHECK(us(network, 16, kAllGather, 1e6) == us(network, 16, kReduceScatter, 1e6));
  CHECK(derived(kAllGather).derivation ==
        "ASSUMED to take as long as reduce_scatter, as on most machines; measure it");
  CHECK(derived(kAllGather).low_factor == 0.9);
  CHECK(derived(kAllGather).high_factor == 1.3);
  // 0.96 of both, down to 0.67 where they are all startup
  const double both_us = 2 * us(network, 16, kReduceScatter, 4e6);
  CHECK(us(network, 16, kAllReduce, 4e6) == Approx((both_us - (1 - 1.04 / 1.5) * 300) / 1.04).epsilon(0.01));
  CHECK(us(network, 16, kAllReduce, 64) == Approx(300 / 1.5).epsilon(0.01));
  CHECK(derived(kAllReduce).derivation.find("0.96 of its halves, down to 0.67 for a small one") !=
        std::string::npos);
  // Halves of an all-reduce make up that all-reduce.
  const Network whole = measured_on({{16, ring(16)}});
  network.measured = {};
  for (const CollectiveKind kind : {kReduceScatter, kAllGather})
    network.measured.push_back({kind, {}, 16, derived_cost(whole, 16, {}, kind)->curve, {}});
  for (const double bytes : {1e3, 1e5, 8e6})
    CHECK(us(network, 16, kAllReduce, bytes) == Approx(us(whole, 16, kAllReduce, bytes)).epsilon(0.001));
}

TEST_CASE("derived: measured halves are used as they are") {
  const Network network = bundled("h100-nvlink-8");
  for (const core::Measured& one : network.measured)
    for (const auto& [bytes, expected] : one.curve.points())
      CHECK(us(network, one.workers, one.collective, bytes) == expected);
}

// ---- several nodes

// Nodes of 2 workers, each with a port of 1 Gb/s of which 85 % are reached, and 5 us for a message between
// nodes.
TEST_CASE("derived: nodes over ports: startups of all hops, then whichever of node and port takes longer") {
  Network network = measured_on({{2, {{1000, 10}, {1e6, 1000}}}});
  join_nodes(network, 2, {.alpha_us = 5, .beta_us_per_byte = 0.008}, false);
  const double startup = 10 - 990.0 / 999;  // of the node's curve, a straight line
  const double port = 0.008 / 0.85;
  const double hop = 3 * 10.0 / 2;  // inside a node, where 2 hops of a short message take 10 us
  // 4 workers are 2 nodes. Trees: a level up and down, each of two hops; 2 x 1/2 of M / 2 over 0.7 of the
  // port
  CHECK(us(network, 4, kAllReduce, 1e6) == Approx(20 + startup + 0.5e6 * port / 0.7));
  CHECK(us(network, 4, kAllReduce, 1000) == Approx(20 + startup + 0.5e3 * port / 0.7));
  // 6 workers of 3 nodes: 2 x 2 hops between and 2 x 2 more inside; 2 x 5/6 of M / 2 over the port. Trees
  // would have 2 levels, and send 2 x 2/3 of M / 2
  CHECK(us(network, 6, kAllReduce, 1e6) == Approx(20 + 4 * hop + startup + 2 * 5.0 / 6 / 2 * 1e6 * port));
  CHECK(us(network, 4, kReduceScatter, 1e6) ==
        Approx(5 + hop + us(network, 2, kReduceScatter, 1) + 3.0 / 4 / 2 * 1e6 * port).epsilon(1e-3));
  CHECK(derived_cost(network, 4, {}, kAllReduce)->low_factor == Approx(0.7));
  CHECK(derived_cost(network, 4, {}, kAllReduce)->high_factor == Approx(2));
  CHECK(us(network, 4, kAllReduce, 1e6, {.name = "two_level"}) == Approx(10 + 1000 + 0.5e6 * port));
  CHECK(us(network, 2, kAllReduce, 1e6) == 1000);
  // With ten times the rate the node takes longer: 2 x 3/4 of the message pass a worker instead of 2 x 1/2.
  Network fast = measured_on({{2, {{1000, 10}, {1e6, 1000}}}});
  join_nodes(fast, 2, {.alpha_us = 5, .beta_us_per_byte = 0.0008}, false);
  CHECK(us(fast, 4, kAllReduce, 1e6) == Approx(20 + 1.5 * 1000));  // along trees
  Network shared = measured_on({{2, {{1000, 10}, {1e6, 1000}}}});
  join_nodes(shared, 2, {.alpha_us = 5, .beta_us_per_byte = 0.008}, true);
  CHECK(us(shared, 4, kAllReduce, 1e6) == Approx(20 + startup + 1e6 * port / 0.7));
  CHECK_THROWS_AS(us(network, 5, kAllReduce, 1e6), core::Unsupported);
  network.measured[0].algorithm = "ring";
  // A ring has 2 hops between nodes and 4 inside, of which 2 are in the node's curve.
  CHECK(us(network, 4, kAllReduce, 1e6) == Approx(10 + 2 * hop + startup + 2 * 3.0 / 4 / 2 * 1e6 * port));
}

TEST_CASE(
    "derived: on many nodes an all-reduce of a short message goes along trees, and an all-gather waits") {
  Network network = bundled("h100-nvlink-8");
  join_nodes(network, 8, {.alpha_us = 15, .beta_us_per_byte = 8e-3 / 400}, false);
  const double inside = us(network, 8, kAllReduce, 512);
  // 128 nodes: 7 levels up and down, each of two hops, where a ring has 254 hops between nodes
  CHECK(us(network, 1024, kAllReduce, 512) == Approx(inside + 2 * 7 * 2 * 15).epsilon(0.02));
  const double gather = us(network, 8, kAllGather, 512);
  CHECK(us(network, 1024, kAllGather, 512) ==
        Approx(gather + 127 * 15 + (1016 - 127) * 3 * inside / 14).epsilon(0.02));
}

TEST_CASE("derived: the cost of nodes lies on or above both curves, and grows with the nodes") {
  Network network = bundled("h100-nvlink-8");
  join_nodes(network, 8, {.alpha_us = 5, .beta_us_per_byte = 8e-3 / 400}, false);
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
