// Parameter servers: the cost of a group, and the pipeline that pushes and pulls.

#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using support::check_run;
using support::link_of;
using support::profile_of;
using support::Scene;
using support::schedule_of;

double us(std::int64_t workers, std::int64_t servers, CollectiveKind kind, std::int64_t bytes) {
  const core::Network network = link_of(8, 0.5, 0.25);
  const Costs costs(network, workers, {.name = "parameter_server", .servers = servers});
  return sim::to_us(costs.of(kind).time(bytes));
}

/// The algorithm that a scenario's run takes from the schedule.
Algorithm servers(std::int64_t count) { return {.name = "parameter_server", .servers = count}; }

TEST_CASE("parameter server: every worker's bytes cross the servers' links, which add all but the first up") {
  // 4 workers, 1 server: 8 + 0.5 x 4 x 100 each way, and 0.25 x 3 x 100
  CHECK(us(4, 1, CollectiveKind::reduce_scatter, 100) == 208 + 75);
  CHECK(us(4, 1, CollectiveKind::all_gather, 100) == 208);
  CHECK(us(4, 1, CollectiveKind::all_reduce, 100) == 416 + 75);
  CHECK(us(4, 2, CollectiveKind::all_reduce, 100) == 2 * (8 + 100) + 37.5);
  // with more servers than workers a worker's own link is the bottleneck
  CHECK(us(4, 4, CollectiveKind::all_reduce, 100) == 2 * (8 + 50) + 18.75);
  CHECK(us(4, 8, CollectiveKind::all_reduce, 100) == 2 * (8 + 50) + 9.375);
  CHECK(us(1, 1, CollectiveKind::all_reduce, 100) == 0);
}

TEST_CASE("parameter server: as wfbp with a push and a pull for each group") {
  // Startup 1 us and 0.05 us a byte, 2 workers: 2 + 0.2 us a byte with one server, 2 + 0.1 with two.
  const Scene scene(profile_of({{2, 5, {10}}, {3, 4, {20}}}), link_of(1, 0.05), 2, {.iterations = 2},
                    servers(1));
  check_run(R"("parameter-server")", scene,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 37-39, F2 39-42, B2 42-46, B1 46-51",
             "A1 9-27, A2 27-37, A1 46-64, A2 64-74", 37});
  const Scene two(profile_of({{2, 5, {10}}, {3, 4, {20}}}), link_of(1, 0.05), 2, {.iterations = 2},
                  servers(2));
  check_run(R"({"pipeline": "parameter_server", "servers": 2})", two,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 25-27, F2 27-30, B2 30-34, B1 34-39",
             "A1 9-19, A2 19-25, A1 34-44, A2 44-50", 25});
  CHECK(scene.run(schedule_of(R"("parameter-server")")).metrics.bytes_sent_per_worker == 120);
}

TEST_CASE("parameter server: the optimal grouping is exact") {
  const Scene scene(profile_of({{2, 5, {10}}, {3, 4, {20}}}), link_of(1, 0.05), 2, {}, servers(1));
  const Run run = scene.run(schedule_of(R"({"pipeline": "parameter_server", "fusion": "optimal"})"));
  REQUIRE(run.proof.has_value());
  CHECK(run.proof->optimality_gap == sim::Time::zero());
  CHECK(run.groups.size() == 2);  // one group takes 14 + 26 us, two groups in sequence 37
}

TEST_CASE("parameter server: any pipeline may use servers, this one nothing else") {
  const Schedule halves = schedule_of(
      R"({"pipeline": "dear", "collectives": {"all_reduce": {"algorithm": "parameter_server", "servers": 3}}})");
  CHECK(halves.all_reduce == Algorithm{.name = "parameter_server", .servers = 3});
  const Schedule own = schedule_of(R"({"pipeline": "parameter_server", "servers": 3})");
  CHECK(own.all_reduce == halves.all_reduce);
  CHECK(own.name == "parameter_server servers 3");
  const auto refused = [](const std::string& text, const std::string& message) {
    CHECK_THROWS_WITH_AS(schedule_of(text), ("s.json: " + message).c_str(), core::InputError);
  };
  refused(R"({"pipeline": "parameter_server", "servers": 0})",
          "/servers: expected an integer from 1 to 1000000, got 0");
  refused(
      R"({"pipeline": "parameter_server", "collectives": {"all_reduce": "ring"}})",
      "/collectives: expected no collectives, as pipeline parameter_server has its own, got an object with 1 "
      "key");
  refused(
      R"({"collectives": {"all_reduce": {"algorithm": "ring", "servers": 2}}})",
      "/collectives/all_reduce/servers: expected no such key: only parameter_server takes servers, got 2");
}

}  // namespace
}  // namespace planner
