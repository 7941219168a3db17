// Pipeline priority and its partitions: complete timelines computed by hand, and rejected options.

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using support::check_run;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

// Forward 2 and 3 us, backward 5 and 4 us, 40 and 80 bytes. In partitions of 40 bytes, 6 us each, 1 and 2
// belong to layer 2 and 3 to layer 1.
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

std::string priority(int credit, const std::string& members = "", int partition = 40) {
  return fmt::format(R"({{"pipeline": "priority", "partition_bytes": {}, "credit_bytes": {}{}}})", partition,
                     credit, members);
}

TEST_CASE("priority: of what is ready the layer nearest the input goes first, and is waited for alone") {
  // compute: B2 B1               F1'      F2'
  // channel:   [ A1 ][ A3 (l1) ][ A2     ]
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 2});
  check_run(priority(40), scene,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 21-23, F2 27-30, B2 30-34, B1 34-39, F1 46-48, F2 52-55",
             "A1 9-15, A2 21-27, A3 15-21, A1 34-40, A2 46-52, A3 40-46", 25});
}

TEST_CASE("priority: what is in flight, up to the credit, is not overtaken") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1});
  // the second partition is handed over before the first layer's is ready
  check_run(priority(80), scene,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 27-29, F2 29-32", "A1 9-15, A2 15-21, A3 21-27", 27});
  // only whole partitions are handed over; one larger than the credit runs alone
  const support::Expected alone = {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 21-23, F2 27-30",
                                   "A1 9-15, A2 21-27, A3 15-21", 25};
  check_run(priority(79), scene, alone);
  check_run(priority(1), scene, alone);
}

TEST_CASE("priority: the last partition of a tensor is smaller, each pays for its negotiation") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1});
  // 60 and 20 bytes of layer 2, 40 of layer 1
  check_run(priority(60, "", 60), scene,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 23-25, F2 27-30", "A1 9-17, A2 23-27, A3 17-23", 25});
  check_run(priority(40, R"(, "negotiation_us": 1)"), scene,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 23-25, F2 30-33", "A1 9-16, A2 23-30, A3 16-23", 28});
}

TEST_CASE("priority: a partition is updated when it has arrived, before its layer's forward pass") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .optimizer_us = 12});
  check_run(priority(40), scene,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, U3 21-25, F1 25-27, U2 27-31, U1 31-35, F2 35-38",
             "A1 9-15, A2 21-27, A3 15-21", 33});
  // LARS needs whole layers: 4 us / 2 workers and 8 bytes after the channel has drained
  const Scene lars(two_layers(), pair_of(2, 0.1), 2,
                   {.iterations = 1, .lars_us = 4, .parallel_tensor_operator = true});
  check_run(priority(40), lars,
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, L 27-29, F1 30.4-32.4, F2 32.4-35.4",
             "A1 9-15, A2 21-27, A3 15-21, H 29-30.4", 30.4});
}

TEST_CASE("priority: reading and further micro-batches come before, one worker sends nothing") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2,
                    {.iterations = 1, .accumulation_steps = 2, .read_us = 8, .read_is_overlapped = false});
  check_run(priority(40), scene,
            {"F1 8-10, F2 10-13, b1 13-22, f2 22-27, B2 27-31, B1 31-36, F1 44-46, F2 49-52",
             "A1 31-37, A2 43-49, A3 37-43", 39, "", "R 0-8, R 36-44"});
  const Scene one(two_layers(), pair_of(2, 0.1), 1, {.iterations = 1});
  check_run(priority(40), one, {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 14-16, F2 16-19", "", 14});
}

TEST_CASE("priority: partitions cover every tensor, and a prediction counts them and their bytes") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 9), support::random_link(random), random.between(2, 9));
    const auto size = static_cast<int>(random.between(1, 9000));
    const Run run = scene.run(schedule_of(priority(3 * size, "", size)));
    const Workload& workload = scene.setting.workload;
    std::vector<std::int64_t> covered(workload.gradient_count());
    for (const Group& group : run.groups) {
      REQUIRE(group.end == group.begin + 1);
      const std::int64_t bytes = bytes_of(workload, group);
      if (group.part) CHECK(group.part->from == covered[group.begin]);
      CHECK(bytes > 0);
      CHECK(bytes <= size);
      covered[group.begin] += bytes;
      CHECK((bytes == size || covered[group.begin] == workload.gradients[group.begin].bytes));
    }
    for (std::uint32_t i = 0; i < workload.gradient_count(); ++i)
      CHECK(covered[i] == workload.gradients[i].bytes);
    CHECK(run.metrics.groups == static_cast<std::int64_t>(run.groups.size()));
    const auto workers = static_cast<double>(scene.setting.costs.workers());
    CHECK(run.metrics.bytes_sent_per_worker ==
          doctest::Approx(2 * (workers - 1) / workers * static_cast<double>(workload.bytes())));
  }
}

TEST_CASE("priority: ByteScheduler is a name of it, its numbers are the contract's") {
  const Schedule schedule = schedule_of(R"("bytescheduler")");
  CHECK(schedule.pipeline->name == "priority");
  CHECK(schedule.fusion.kind == "partitions");
  CHECK(schedule.options.partition_bytes == 4'000'000);
  CHECK(schedule.options.credit_bytes == 16'000'000);
  CHECK(schedule.options.negotiation_us == 0);
  CHECK(schedule_of(R"({"pipeline": "priority"})").fusion.kind == "partitions");
  CHECK(schedule_of(R"({"name": "bytescheduler", "credit_bytes": 7})").options.credit_bytes == 7);
  CHECK(schedule_of(R"({"name": "bytescheduler", "credit_bytes": 7})").name ==
        "bytescheduler credit_bytes 7");
}

TEST_CASE("priority: takes no other fusion and no compressor, and no other pipeline takes its partitions") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {R"({"pipeline": "priority", "fusion": "all"})",
       R"(/fusion: expected a fusion that pipeline priority takes: partitions, plan, got "all")"},
      {R"({"name": "bytescheduler", "compression": "fp16"})",
       R"(/compression: expected no compressor, as pipeline priority takes none, got "fp16")"},
      {R"({"pipeline": "priority", "credit_bytes": 0})",
       "/credit_bytes: expected an integer from 1 to 8000000000000000, got 0"},
      {R"({"pipeline": "priority", "negotiation_us": -1})",
       "/negotiation_us: expected a number from 0 to 1000000000000, got -1"},
  };
  for (const Case& each : cases)
    CHECK_THROWS_WITH_AS(schedule_of(each.text), ("s.json: " + each.message).c_str(), core::InputError);
  CHECK_THROWS_AS(schedule_of(R"({"fusion": "partitions"})"), core::InputError);
  CHECK_THROWS_AS(schedule_of(R"({"name": "ddp", "pipeline": "priority"})"), core::InputError);
  const Scene scene(two_layers(), pair_of(2, 0.1), 2);
  CHECK_NOTHROW(scene.run(schedule_of(R"({"pipeline": "priority", "partition_bytes": 1})")));
  const Scene large(profile_of({{1, 1, {10'000'000}}}), pair_of(2, 0.1), 2);
  CHECK_THROWS_AS(large.run(schedule_of(R"({"pipeline": "priority", "partition_bytes": 1})")), Unsupported);
}

}  // namespace
}  // namespace planner
