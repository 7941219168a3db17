// Mistakes of other simulators, each as a test.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/scenarios/run.hpp"
#include "sim/cluster/messages.hpp"
#include "sim/cluster/patterns.hpp"
#include "sim/cluster/topology.hpp"
#include "tests/support/program.hpp"
#include "tests/support/timelines.hpp"

namespace scenarios {
namespace {

using nlohmann::ordered_json;
using sim::Time;

/// A scenario with one layer of 1,000 us backward on a link of 1 us and 0.001 us per byte.
ordered_json base() {
  return ordered_json::parse(R"({
    "format": "fusewise.scenario", "version": 1, "name": "trap",
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
      "device": "d", "origin": {"kind": "estimated", "source": "test"},
      "layers": [{"name": "l", "kind": "k", "forward_us": 10, "backward_us": 1000,
                  "tensors": [{"name": "t", "elements": 16384}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": "test"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.001}},
    "workers": 8, "schedules": ["wfbp"]})");
}

Results results(const ordered_json& patch) {
  ordered_json scenario = base();
  scenario.merge_patch(patch);
  return run(read_scenario(core::Field::parse(scenario.dump(), "s.json")));
}

double iteration_us(const ordered_json& patch) { return results(patch).entries.front().metrics.iteration_us; }

struct Ring {
  std::vector<Time> left;
  std::uint64_t delivered = 0;
};

Ring ring(std::uint32_t ranks, double sigma = 0) {
  cluster::Messages messages({.levels = {{.ranks = ranks, .link = {.startup_us = 1, .us_per_byte = 0.001}}},
                              .sum_us_per_byte = 0,
                              .slowdown = {},
                              .sigma = sigma},
                             std::nullopt);
  auto how = cluster::find_pattern("ring")->make({.ranks = ranks, .bytes = std::int64_t{ranks} * 1000});
  const std::uint32_t id = messages.add(std::shared_ptr<const cluster::Pattern>(std::move(
                                            std::get<std::unique_ptr<const cluster::BytePattern>>(how))),
                                        1);
  Ring out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) messages.enter(id, rank, Time::zero());
  while (const auto left = messages.next(Time::max())) out.left.push_back(left->at);
  CHECK(messages.waiting().empty());
  out.delivered = messages.delivered();
  return out;
}

TEST_CASE("trap 1: a ring of 2, 15, 16, 17 or 64 ranks ends, on every rank") {
  for (const std::uint32_t ranks : {2U, 15U, 16U, 17U, 64U}) {
    CAPTURE(ranks);
    CHECK(ring(ranks).left == std::vector<Time>(ranks, sim::from_us(2.0 * (ranks - 1) * 2)));
  }
}

TEST_CASE("trap 1: a run that cannot end says which tasks wait for whom") {
  CHECK_THROWS_WITH(
      results({{"failures", {{{"worker", 5}, {"at_us", 500}}}}}),
      "worker 5 fails for good at 500 us, in iteration 1: its backward pass of 'l' never ends, and "
      "the 7 other workers wait for it in the next collective of iteration 1");
}

TEST_CASE("trap 2: a message that waits for 1 ms of compute leaves after 1 ms") {
  // 65,536 bytes in a ring of 8: 14 rounds of 1 + 8.192 us after 10 us of forward and 1,000 us of backward
  for (const char* fidelity : {"closed", "steps", "messages"})
    CHECK(iteration_us({{"fidelity", fidelity}}) == doctest::Approx(1010 + 14 * 9.192).epsilon(1e-9));
}

TEST_CASE("trap 3: equal messages match in the order in which they are sent") {
  // two equal layers: their rings have equal messages; the second ends later by its own duration
  ordered_json two = base();
  ordered_json layer = two["profile"]["layers"][0];
  layer["name"] = "l2";
  layer["tensors"][0]["name"] = "t2";
  layer["backward_us"] = 0;
  two["profile"]["layers"].insert(two["profile"]["layers"].begin(), layer);
  for (const char* fidelity : {"steps", "messages"}) {
    two["fidelity"] = fidelity;
    CHECK(iteration_us(two) == doctest::Approx(1020 + 2 * 14 * 9.192).epsilon(1e-9));
  }
}

TEST_CASE("trap 4: 100 Gb/s are 12.5e9 bytes a second") {
  const ordered_json topology = {{"kind", "flat"}, {"startup_us", 1}, {"nic", {{"bandwidth_gbps", 100}}}};
  // 8,192 bytes per round: 0.65536 us
  CHECK(iteration_us({{"fidelity", "messages"}, {"topology", topology}}) ==
        doctest::Approx(1010 + 14 * 1.65536).epsilon(1e-9));
}

TEST_CASE("trap 5: bytes are charged once, however many switches they pass") {
  ordered_json topology = {{"kind", "leaf_spine"},
                           {"startup_us", 1},
                           {"nic", {{"bandwidth_gbps", 8}}},
                           {"nodes_per_leaf", 1},
                           {"spines", 1}};
  CHECK(iteration_us({{"fidelity", "messages"}, {"topology", topology}}) ==
        doctest::Approx(1010 + 14 * 9.192).epsilon(1e-9));
}

TEST_CASE("trap 6: draws add no event") {
  const Ring alike = ring(64);
  const Ring sampled = ring(64, 0.1);
  CHECK(sampled.delivered == alike.delivered);
  CHECK(sampled.delivered == 2 * 63 * 64);
  CHECK(sampled.left != alike.left);
}

TEST_CASE("trap 7: another topology gives another answer") {
  const ordered_json nic = {{"bandwidth_gbps", 8}};
  const std::vector<ordered_json> topologies = {
      {{"kind", "flat"}, {"startup_us", 1}, {"nic", nic}},
      {{"kind", "leaf_spine"},
       {"startup_us", 1},
       {"nic", nic},
       {"nodes_per_leaf", 4},
       {"oversubscription", 4}},
      {{"kind", "ring"}, {"startup_us", 1}, {"nic", nic}, {"cable", nic}},
      {{"kind", "torus2d"}, {"startup_us", 1}, {"nic", nic}, {"cable", nic}, {"torus_columns", 4}}};
  std::vector<double> times;
  for (const ordered_json& topology : topologies)
    times.push_back(iteration_us({{"fidelity", "messages"},
                                  {"topology", topology},
                                  {"collectives", {{"all_reduce", "halving_doubling"}}}}));
  for (std::size_t i = 0; i < times.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(times[i] != doctest::Approx(times[j]).epsilon(1e-3));
  for (std::size_t i = 1; i < times.size(); ++i) CHECK(times[i] > times[0]);
}

TEST_CASE("trap 8: no result of any scenario is not a number or infinite") {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(support::source_dir() / "tests/golden")) {
    if (entry.path().extension() != ".csv" && entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    CAPTURE(entry.path().string());
    CHECK(text.find(",nan") == std::string::npos);
    CHECK(text.find(" nan") == std::string::npos);
    CHECK(text.find("inf,") == std::string::npos);
    CHECK(text.find("inf ") == std::string::npos);
    ++files;
  }
  CHECK(files > 10);
}

TEST_CASE("trap 9: all-gathers under forward, fusion, stragglers and compression in one run") {
  const ordered_json all = {
      {"schedules",
       {{{"pipeline", "dear"},
         {"fusion", "all"},
         {"compression", {{"name", "half"}, {"ratio", 0.5}, {"collective", "all_reduce"}}}}}},
      {"fidelity", "messages"},
      {"jitter", {{"sigma", 0.1}}},
      {"stragglers", {{{"worker", 3}, {"slowdown", 2}}}}};
  const Results got = results(all);
  const planner::WorkerReport& report = *got.entries.front().by_worker;
  CHECK(got.entries.front().metrics.iteration_us > 1800);
  CHECK(report.waited_for.front().worker == 3);
  CHECK(report.waiting.mean_us > 700);
}

}  // namespace
}  // namespace scenarios
