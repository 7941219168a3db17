// Costs of collectives: closed forms against numbers computed by hand, levels, measured curves, warnings.

#include "planner/cost/collectives.hpp"
#include "tests/support/listed.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

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
using support::link_of;
using support::measured_of;

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kReduceScatter = CollectiveKind::reduce_scatter;
constexpr auto kAllGather = CollectiveKind::all_gather;

double us(const Network& network, std::int64_t workers, const Algorithm& algorithm, CollectiveKind kind,
          double bytes) {
  return Costs(network, workers, algorithm).of(kind).curve.us(bytes);
}

double sent(const Network& network, std::int64_t workers, const Algorithm& algorithm, CollectiveKind kind) {
  return Costs(network, workers, algorithm).of(kind).sent_per_byte;
}

/// Equal except for the last bits: the same number from another order of multiplications.
Approx close(double value) { return Approx(value).epsilon(1e-12); }

void check_no_cost(const Network& network, std::int64_t workers, const Algorithm& algorithm,
                   CollectiveKind kind, const std::string& message) {
  const Costs costs(network, workers, algorithm);
  CHECK_THROWS_WITH_AS(costs.of(kind), message.c_str(), Unsupported);
}

TEST_CASE("collectives: every closed form, by hand") {
  const Network network = link_of(10, 0.5, 0.25);
  struct Case {
    Algorithm algorithm;
    std::int64_t workers;
    double bytes;
    double us;
    double sent_per_byte;
  };
  const std::vector<Case> cases = {
      // ring: 2(P-1) alpha + (2(P-1)/P beta + (P-1)/P gamma) M
      {{.name = "ring"}, 2, 600, 20 + (0.5 + 0.125) * 600, 1},
      {{.name = "ring"}, 6, 600, 100 + 500 + 125, 5.0 / 3},
      {{.name = "ring"}, 8, 1000, 140 + 875 + 218.75, 1.75},
      // binary_tree: 2 alpha lg + (2 beta + gamma) lg M
      {{.name = "binary_tree"}, 2, 600, 20 + 1.25 * 600, 1},
      {{.name = "binary_tree"}, 6, 600, 60 + 3.75 * 600, 5.0 / 3},
      {{.name = "binary_tree"}, 8, 1000, 60 + 3.75 * 1000, 1.75},
      // recursive_doubling: alpha lg + (beta + gamma) lg M
      {{.name = "recursive_doubling"}, 2, 600, 10 + 0.75 * 600, 1},
      {{.name = "recursive_doubling"}, 6, 600, 30 + 2.25 * 600, 3},
      {{.name = "recursive_doubling"}, 8, 1000, 30 + 2.25 * 1000, 3},
      // halving_doubling: 2 alpha lg + (2 beta - (2 beta + gamma)/P + gamma) M
      {{.name = "halving_doubling"}, 2, 600, 20 + 600 - 375 + 150, 1},
      {{.name = "halving_doubling"}, 6, 600, 60 + 600 - 125 + 150, 5.0 / 3},
      {{.name = "halving_doubling"}, 8, 1000, 60 + 1000 - 156.25 + 250, 1.75},
      // double_binary_tree: 2 alpha lg + (2 beta + gamma) M
      {{.name = "double_binary_tree"}, 2, 600, 20 + 750, 1},
      {{.name = "double_binary_tree"}, 6, 600, 60 + 750, 5.0 / 3},
      {{.name = "double_binary_tree"}, 8, 1000, 60 + 1250, 1.75},
      // ... with "bandwidth_factor": 1, as in the MG-WFBP paper: beta + gamma
      {{.name = "double_binary_tree", .bandwidth_factor = 1}, 6, 600, 60 + 450, 5.0 / 3},
      {{.name = "double_binary_tree", .bandwidth_factor = 1}, 8, 1000, 60 + 750, 1.75},
  };
  for (const Case& each : cases) {
    CAPTURE(each.algorithm.name);
    CAPTURE(each.workers);
    CHECK(us(network, each.workers, each.algorithm, kAllReduce, each.bytes) == close(each.us));
    CHECK(sent(network, each.workers, each.algorithm, kAllReduce) == close(each.sent_per_byte));
  }
}

TEST_CASE("collectives: the table's algorithms are those of the contract") {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : algorithms()) names.emplace_back(entry.name);
  CHECK(names == std::vector<std::string>{"ring", "binary_tree", "recursive_doubling", "halving_doubling",
                                          "double_binary_tree", "two_level", "hierarchical_topk",
                                          "parameter_server"});
}

TEST_CASE("collectives: rounds is the logarithm rounded up") {
  const std::vector<std::pair<std::int64_t, std::int64_t>> cases = {
      {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {8, 3}, {9, 4}, {1024, 10}, {1025, 11}, {1'000'000, 20}};
  for (const auto& [workers, expected] : cases) CHECK(rounds(workers) == expected);
}

TEST_CASE("collectives: ring halves, by hand") {
  const Network network = link_of(10, 0.5, 0.25);
  // reduce-scatter: (P-1) alpha + (P-1)/P (beta + gamma) M; all-gather: (P-1) alpha + (P-1)/P beta M
  CHECK(us(network, 8, {}, kReduceScatter, 1000) == close(70 + 656.25));
  CHECK(us(network, 8, {}, kAllGather, 1000) == close(70 + 437.5));
  CHECK(us(network, 6, {}, kReduceScatter, 600) == close(50 + 375));
  CHECK(us(network, 6, {}, kAllGather, 600) == close(50 + 250));
  CHECK(sent(network, 8, {}, kAllGather) == close(0.875));
}

TEST_CASE("collectives: the halves of every algorithm add up, and the reducing half carries all of gamma") {
  const Network flat = link_of(7, 0.125, 0.5);
  Network levels = {.name = "n"};
  levels.levels = {
      {.name = "a", .size = 4, .link = {.alpha_us = 3, .beta_us_per_byte = 0.25, .gamma_us_per_byte = 2}},
      {.name = "b", .link = {.alpha_us = 9, .beta_us_per_byte = 0.5, .gamma_us_per_byte = 1}}};
  Network without_sum = levels;
  for (core::Level& level : without_sum.levels) level.link.gamma_us_per_byte = 0;
  for (const AlgorithmEntry& entry : algorithms()) {
    if (!entry.has_halves) continue;
    for (const std::int64_t workers : {2, 3, 4, 8, 12, 64}) {
      const Algorithm algorithm = {.name = std::string(entry.name)};
      if (entry.needs_nodes && workers % 4 != 0 && workers > 4) continue;
      const Network& network = entry.needs_nodes ? levels : flat;
      CAPTURE(entry.name);
      CAPTURE(workers);
      for (const double bytes : {0.0, 1.0, 12345.0}) {
        const double whole = us(network, workers, algorithm, kAllReduce, bytes);
        const double reducing = us(network, workers, algorithm, kReduceScatter, bytes);
        const double gathering = us(network, workers, algorithm, kAllGather, bytes);
        CHECK(reducing + gathering == close(whole));
        const Network no_gamma = entry.needs_nodes ? without_sum : link_of(7, 0.125, 0);
        CHECK(gathering == close(us(no_gamma, workers, algorithm, kAllReduce, bytes) / 2));
      }
      CHECK(sent(network, workers, algorithm, kReduceScatter) +
                sent(network, workers, algorithm, kAllGather) ==
            close(sent(network, workers, algorithm, kAllReduce)));
    }
  }
}

TEST_CASE("collectives: one worker sends nothing and waits for nothing, whatever the network has") {
  for (const Network& network : {link_of(10, 1, 1), measured_of({{1, 5}})})
    for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather}) {
      CHECK(us(network, 1, {}, kind, 1e9) == 0);
      CHECK(sent(network, 1, {}, kind) == 0);
    }
  CHECK(us(link_of(1, 1), 1, {.name = "two_level"}, kAllReduce, 5) == 0);
}

TEST_CASE("collectives: times are rounded to picoseconds once") {
  CHECK(Costs(link_of(0.5, 1e-7), 2, {}).of(kAllReduce).time(4) == sim::Time(1'000'000));   // 1.0000004 us
  CHECK(Costs(link_of(0.5, 1e-7), 2, {}).of(kAllReduce).time(16) == sim::Time(1'000'002));  // 1.0000016 us
}

// ---- levels

/// A network with 8 workers per node on NVLink and nodes on 25 GbE.
Network nodes_of_8(bool shared = false) {
  Network network = {.name = "n"};
  network.link = core::Link{.alpha_us = 1e6, .beta_us_per_byte = 1};  // ignored if there are levels
  network.levels = {
      {.name = "nvlink", .size = 8, .link = {.alpha_us = 5, .beta_us_per_byte = 0.00002}},
      {.name = "25gbe", .link = {.alpha_us = 30, .beta_us_per_byte = 0.00034}, .shared = shared}};
  return network;
}

TEST_CASE("collectives: on levels the flat algorithms run over the slowest level spanned") {
  const double bytes = 8e6;
  CHECK(us(nodes_of_8(), 4, {}, kAllReduce, bytes) == close(6 * 5 + 1.5 * 160));
  CHECK(us(nodes_of_8(), 8, {}, kAllReduce, bytes) == close(14 * 5 + 1.75 * 160));
  CHECK(us(nodes_of_8(), 16, {}, kAllReduce, bytes) == close(30 * 30 + 1.875 * 2720));
  CHECK(us(nodes_of_8(), 12, {}, kAllReduce, bytes) ==
        close(22 * 30 + 2 * 11.0 / 12 * 2720));  // not a multiple of 8
  CHECK(us(nodes_of_8(), 16, {.name = "double_binary_tree"}, kAllReduce, bytes) ==
        close(8 * 30 + 2 * 2720.0));
}

TEST_CASE("collectives: the slowest level has the largest beta, then the largest alpha") {
  Network network = {.name = "n"};
  network.levels = {{.name = "slow inside", .size = 2, .link = {.alpha_us = 1, .beta_us_per_byte = 3}},
                    {.name = "middle", .size = 2, .link = {.alpha_us = 7, .beta_us_per_byte = 2}},
                    {.name = "outside", .link = {.alpha_us = 9, .beta_us_per_byte = 2}}};
  CHECK(us(network, 8, {}, kAllReduce, 8) == close(14 * 1 + 1.75 * 3 * 8));
  network.levels[0].link.beta_us_per_byte = 1;
  CHECK(us(network, 2, {}, kAllReduce, 8) == close(2 * 1 + 1 * 8));        // only the inside level
  CHECK(us(network, 4, {}, kAllReduce, 8) == close(6 * 7 + 1.5 * 2 * 8));  // also the middle level
  CHECK(us(network, 8, {}, kAllReduce, 8) == close(14 * 9 + 1.75 * 2 * 8));
}

TEST_CASE("collectives: two_level, by hand") {
  const double bytes = 8e6;
  const Algorithm two_level = {.name = "two_level"};
  // inside: twice 7 x 5 + 7/8 x 160; between, for an eighth: 2 x 30 + 2/2 x 340
  CHECK(us(nodes_of_8(), 16, two_level, kAllReduce, bytes) == close(2 * (35 + 140) + 60 + 340));
  CHECK(sent(nodes_of_8(), 16, two_level, kAllReduce) == close(1.875));
  // the 8 workers of a node share one link
  CHECK(us(nodes_of_8(true), 16, two_level, kAllReduce, bytes) == close(2 * (35 + 140) + 60 + 8 * 340));
  CHECK(us(nodes_of_8(true), 16, {}, kAllReduce, bytes) ==
        close(30 * 30 + 1.875 * 2720));  // the ring uses the link once
  // 3 nodes
  CHECK(us(nodes_of_8(), 24, two_level, kAllReduce, bytes) == close(2 * (35 + 140) + 4 * 30 + 4.0 / 3 * 340));
  // one node, or a part of one: no traffic between nodes
  CHECK(us(nodes_of_8(), 8, two_level, kAllReduce, bytes) == close(2 * (35 + 140)));
  CHECK(us(nodes_of_8(true), 4, two_level, kAllReduce, bytes) == close(2 * (15 + 120)));
}

TEST_CASE("collectives: hierarchical_topk takes what the sparse all-reduce hitopk does, and has no halves") {
  for (const bool shared : {false, true})
    for (const std::int64_t workers : {4, 8, 16, 24})
      for (const bool paper_bytes : {false, true})
        for (const double density : {0.001, 0.25}) {
          CAPTURE(workers);
          const Network network = nodes_of_8(shared);
          Compressor hitopk = sparse_compressor("hitopk", density);
          hitopk.sparse->paper_bytes = paper_bytes;
          const TransferCost sparse(network, workers, {.all_reduce = {}, .compressor = hitopk});
          const Algorithm dense = {
              .name = "hierarchical_topk", .density = density, .paper_bytes = paper_bytes};
          for (const std::int64_t bytes : {0, 800, 1'000'000}) {
            CHECK(us(network, workers, dense, kAllReduce, static_cast<double>(bytes)) ==
                  close(sparse.us(kAllReduce, bytes)));
            CHECK(sent(network, workers, dense, kAllReduce) * static_cast<double>(bytes) ==
                  close(sparse.sent_bytes(kAllReduce, bytes)));
          }
        }
  const Algorithm topk = {.name = "hierarchical_topk"};
  check_no_cost(nodes_of_8(), 16, topk, kReduceScatter,
                "expected an all-reduce that has a reduce_scatter, got hierarchical_topk");
  check_no_cost(nodes_of_8(), 12, topk, kAllReduce,
                "expected for hierarchical_topk a multiple of the 8 workers in a node, got 12");
  CHECK(read_algorithm(core::Field::parse(
            R"({"algorithm": "hierarchical_topk", "density": 0.5, "paper_bytes": true})", "s.json")) ==
        Algorithm{.name = "hierarchical_topk", .density = 0.5, .paper_bytes = true});
  CHECK(read_algorithm(core::Field::parse(
            algorithm_json({.name = "hierarchical_topk", .density = 0.5}).dump(), "s.json")) ==
        Algorithm{.name = "hierarchical_topk", .density = 0.5});
  CHECK_THROWS_WITH_AS(
      read_algorithm(core::Field::parse(R"({"algorithm": "ring", "density": 0.5})", "s.json")),
      "s.json: /density: expected no such key: only hierarchical_topk takes density, got 0.5",
      core::InputError);
}

TEST_CASE("collectives: two_level sums inside and between") {
  Network network = nodes_of_8();
  network.levels[0].link.gamma_us_per_byte = 0.5;
  network.levels[1].link.gamma_us_per_byte = 0.25;
  const Network without = nodes_of_8();
  const Algorithm two_level = {.name = "two_level"};
  const double sums =
      us(network, 16, two_level, kAllReduce, 800) - us(without, 16, two_level, kAllReduce, 800);
  CHECK(sums == Approx(7.0 / 8 * 0.5 * 800 + 1.0 / 2 * 0.25 * 100).epsilon(1e-9));
}

TEST_CASE("collectives: two_level needs levels and whole nodes") {
  const Algorithm two_level = {.name = "two_level"};
  check_no_cost(nodes_of_8(), 12, two_level, kAllReduce,
                "expected for two_level a multiple of the 8 workers in a node, got 12");
  check_no_cost(link_of(1, 1), 4, two_level, kAllReduce,
                "expected a network with levels, as two_level needs, got network 'n' without");
}

// ---- measured curves

TEST_CASE("collectives: the first measurement of that collective, number of workers and algorithm counts") {
  Network network = link_of(10, 0.5);
  const auto measured = [](CollectiveKind kind, std::optional<std::string> algorithm, std::int64_t workers,
                           double value) {
    return core::Measured{kind, std::move(algorithm), workers, CostCurve::through({{1, value}}), {}};
  };
  network.measured = {measured(kAllReduce, "binary_tree", 4, 1), measured(kAllReduce, "ring", 8, 2),
                      measured(kReduceScatter, {}, 4, 3),        measured(kAllReduce, {}, 4, 4),
                      measured(kAllReduce, "ring", 4, 5),        measured(kAllReduce, "ring", 1, 6)};
  CHECK(us(network, 4, {}, kAllReduce, 100) == 4);  // a missing algorithm means the requested one
  CHECK(us(network, 4, {.name = "binary_tree"}, kAllReduce, 100) == 1);
  CHECK(us(network, 8, {}, kAllReduce, 100) == 2);
  CHECK(us(network, 4, {}, kReduceScatter, 100) == 3);
  CHECK(us(network, 4, {}, kAllGather, 100) == close(30 + 37.5));  // closed form, as none is measured
  CHECK(us(network, 8, {.name = "recursive_doubling"}, kAllReduce, 100) == close(30 + 150));
  CHECK(us(network, 2, {}, kAllReduce, 100) == close(20 + 50));
  CHECK(Costs(network, 4, {}).of(kAllReduce).is_measured);
  CHECK_FALSE(Costs(network, 4, {}).of(kAllGather).is_measured);
  CHECK(sent(network, 4, {}, kAllReduce) == close(1.5));
  CHECK(sent(network, 4, {}, kReduceScatter) == close(0.75));
}

TEST_CASE("collectives: what is neither measured nor has a link is said to have no cost") {
  Network network = measured_of({{1, 5}});
  network.measured.push_back({kAllReduce, "ring", 16, CostCurve::through({{1, 1}}), {}});
  network.measured.push_back({kAllReduce, "binary_tree", 32, CostCurve::through({{1, 1}}), {}});
  check_no_cost(
      network, 4, {}, kAllReduce,
      "expected a number of workers for which network 'n' has a cost of ring all_reduce (measured on 2, "
      "16), got 4");  // curves of one size are not extrapolated
  network.measured.erase(network.measured.begin(), network.measured.begin() + 2);  // leaves the all-gather
  network.measured.resize(1);
  check_no_cost(
      network, 2, {}, kReduceScatter,
      "expected a number of workers for which network 'n' has a cost of ring reduce_scatter (none is "
      "measured, and it has no link), got 2");
}

// ---- warnings

std::vector<std::string> texts(const std::vector<Warning>& warnings) {
  std::vector<std::string> out;
  out.reserve(warnings.size());
  for (const Warning& warning : warnings) out.push_back(warning.text);
  return out;
}

using Texts = std::vector<std::string>;

TEST_CASE("collectives: a time under the physical bound is doubted, as the authors' 10 GbE slope") {
  Network network = {.name = "n", .line_rate_gbps = 10};
  network.measured = {{kAllReduce, {}, 16, CostCurve::of_segments({{0, 1e9, 908, 0.00074}}), {}}};
  const Costs costs(network, 16, {});
  // 2 x 15/16 x 8e-4 = 0.0015 us per byte: at 1 MB the startup hides it, at 100 MB it is visible
  CHECK(costs.warnings(kAllReduce, {1'000'000}).empty());
  CHECK(costs.warnings(kAllReduce, {}).empty());
  const std::vector<Warning> warnings = costs.warnings(kAllReduce, {1'000'000, 100'000'000, 200'000'000});
  CHECK(texts(warnings) ==
        Texts{"network 'n', ring all_reduce on 16 workers: 100000000 bytes take 74908 us, under the physical "
              "bound of 150000 us at 10 Gb/s, which fidelity 'closed' takes instead: measure larger "
              "messages, or correct line_rate_gbps",
              "network 'n', ring all_reduce on 16 workers: 200000000 bytes take 148908 us, under the "
              "physical bound of 300000 us at 10 Gb/s, which fidelity 'closed' takes instead: measure larger "
              "messages, or correct line_rate_gbps"});
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].subject == warnings[1].subject);
  CHECK(warnings[0].weight == close(150000 - 74908));
  CHECK(warnings[1].weight == close(300000 - 148908));
}

TEST_CASE(
    "collectives: the bound of half an all-reduce is half as high, and meeting it exactly is no doubt") {
  Network network = link_of(0, 0.0008);
  network.line_rate_gbps = 10;  // 8e-4 us per byte
  for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather}) {
    CHECK(Costs(network, 16, {}).warnings(kind, {1'000'000'000}).empty());
    CHECK(Costs(network, 7, {}).warnings(kind, {1'000'000'007}).empty());
  }
  network.link->beta_us_per_byte = 0.00079;
  for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather})
    CHECK(Costs(network, 16, {}).warnings(kind, {1'000'000'000}).size() == 1);
  CHECK(Costs(network, 1, {}).warnings(kAllReduce, {1'000'000'000}).empty());
}

TEST_CASE("collectives: an extrapolation is doubted, and a closed form never is one") {
  const Network network = measured_of({{1000, 5}, {2000, 6}});
  const Costs costs(network, 2, {});
  CHECK(costs.warnings(kAllReduce, {10, 2000}).empty());
  const std::vector<Warning> warnings = costs.warnings(kAllReduce, {2001, 2003, 2002});
  CHECK(texts(warnings) ==
        Texts{"network 'n', ring all_reduce on 2 workers: measured up to 2000 bytes, the last line "
              "is continued to 2003"});
  CHECK(warnings.front().weight == close(2003.0 / 2000));
  CHECK(Costs(link_of(1, 1), 2, {}).warnings(kAllReduce, {1'000'000'000'000}).empty());
}

TEST_CASE(
    "collectives: a schedule that mixes measurements and closed forms is doubted, as are its collectives") {
  Network network = link_of(1, 1);
  network.measured = {{kReduceScatter, {}, 2, CostCurve::through({{1, 5}, {100, 9}}), {}}};
  const support::Scene scene(support::profile_of({{1, 1, {100}}}), network);
  const auto warnings = [](const support::Scene& of, const char* schedule) {
    return texts(of.run(support::schedule_of(schedule)).warnings);
  };
  CHECK(warnings(scene, R"("dear-no-fusion")") ==
        Texts{"network 'n', ring reduce_scatter on 2 workers: measured up to 100 bytes, the last line is "
              "continued to 400",
              "2 workers: closed forms are mixed with measurements in one schedule"});
  CHECK(warnings(scene, R"("wfbp")").empty());
  const support::Scene all_measured(support::profile_of({{1, 1, {10}}}), measured_of({{1, 5}, {100, 9}}));
  CHECK(warnings(all_measured, R"("dear-no-fusion")").empty());
  const support::Scene alone(support::profile_of({{1, 1, {100}}}), network, 1);
  CHECK(warnings(alone, R"("dear-no-fusion")").empty());
}

TEST_CASE("collectives: the parallel tensor operator's gather is doubted like any other") {
  Network network = measured_of({{1, 5}, {1000, 9}});
  network.measured.pop_back();  // removes the all-gather
  network.link = core::Link{.alpha_us = 1};
  network.line_rate_gbps = 1e-6;
  const support::Scene scene(support::profile_of({{1, 1, {1}}, {1, 1, {}}}), network, 2,
                             {.lars_us = 1, .parallel_tensor_operator = true});
  const Texts all = texts(scene.run(support::schedule_of(R"("wfbp")")).warnings);
  // 8 bytes, each taking 1/2 x 8e-3 / 1e-6 us
  CHECK(std::ranges::find(
            all,
            "network 'n', ring all_gather on 2 workers: 8 bytes take 1 us, under the physical bound of 32000 "
            "us at 1e-06 Gb/s, which fidelity 'closed' takes instead: measure larger messages, or correct "
            "line_rate_gbps") != all.end());
  CHECK(all.back() == "2 workers: closed forms are mixed with measurements in one schedule");
}

// ---- reading

TEST_CASE("collectives: a name, or an object with its bandwidth_factor") {
  const auto read = [](const std::string& text) {
    return read_collectives(core::Field::parse(text, "s.json"));
  };
  CHECK(read("{}") == Algorithm{.name = "ring"});
  CHECK(read(R"({"all_reduce": "binary_tree"})") == Algorithm{.name = "binary_tree"});
  CHECK(read(R"({"all_reduce": {"algorithm": "two_level"}})") == Algorithm{.name = "two_level"});
  CHECK(read(R"({"all_reduce": {"algorithm": "double_binary_tree", "bandwidth_factor": 1}})") ==
        Algorithm{.name = "double_binary_tree", .bandwidth_factor = 1});
  const auto refused = [&](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH_AS(read(text), message.c_str(), core::InputError);
  };
  refused(R"({"allreduce": "ring"})",
          "s.json: /allreduce: expected a key among all_reduce, got 'allreduce', did you mean 'all_reduce'?");
  refused(R"({"all_reduce": "rings"})", "s.json: /all_reduce: expected one of " +
                                            support::listed(planner::algorithms()) +
                                            R"(, got "rings", did you mean 'ring'?)");
  refused(R"({"all_reduce": {}})", "s.json: /all_reduce/algorithm: expected a value, got nothing");
  refused(R"({"all_reduce": {"algorithm": "ring", "bandwidth_factor": 1}})",
          "s.json: /all_reduce/bandwidth_factor: expected no such key: only double_binary_tree takes a "
          "bandwidth_factor, got 1");
  refused(R"({"all_reduce": {"algorithm": "double_binary_tree", "bandwidth_factor": -1}})",
          "s.json: /all_reduce/bandwidth_factor: expected a number from 0 to 1000000000000, got -1");
}

}  // namespace
}  // namespace planner
