// Jobs with phases: total time and cost.

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"
#include "tests/support/temporary_folder.hpp"

namespace scenarios {
namespace {

using nlohmann::json;

/// A scenario with two workers, 30 us of compute for 4 samples, an all-reduce of 2 x (1 + 200 x 0.01) = 6 us.
Scenario with_job(const std::string& job, const std::string& schedules = R"(["wfbp", "s-sgd"])") {
  return read_scenario(core::Field::parse(R"({
    "format": "fusewise.scenario", "version": 1, "name": "two",
    "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 4, "dtype": "float32",
      "device": "d", "origin": {"kind": "estimated", "source": "test"},
      "layers": [{"name": "l", "kind": "k", "forward_us": 10, "backward_us": 20,
                  "tensors": [{"name": "t", "elements": 100}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": "test"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.01}},
    "workers": [1, 2], "schedules": )" + schedules +
                                              R"(, "input": {"read_us": 7, "overlapped": false}, "job": )" +
                                              job + "}",
                                          "s.json"));
}

TEST_CASE("job: a phase is its epochs' iterations, the first epoch with an input of its own") {
  // 100 samples: 25 iterations of 4 on one worker, 13 of 8 on two
  const Results results = run(with_job(R"({"samples": 100, "price_per_worker_hour": 3600, "phases": [
    {"epochs": 3},
    {"name": "large", "epochs": 4, "compute_us": 60, "batch_size": 2, "schedule": "s-sgd",
     "input": {"read_us": 40, "decode_us": 60, "cached_us": 30, "overlapped": true}},
    {"epochs": 2, "input": {"read_us": 1, "decode_us": 2, "overlapped": false}}]})"));
  CHECK(results.entries.size() == 4);
  REQUIRE(results.jobs.size() == 2);
  const JobResult& one = results.jobs[0];
  CHECK(one.workers == 1);
  REQUIRE(one.phases.size() == 3);
  CHECK(one.phases[0].name == "phase 1");
  CHECK(one.phases[0].schedule == "wfbp");
  CHECK(one.phases[0].iterations_per_epoch == 25);
  CHECK(one.phases[0].iteration_us == 37);  // 7 + 30
  CHECK(one.phases[0].seconds == doctest::Approx(3 * 25 * 37e-6));
  CHECK(one.phases[1].name == "large");
  CHECK(one.phases[1].iterations_per_epoch == 50);
  CHECK(one.phases[1].first_epoch_iteration_us == 100);  // reading takes longer than the iteration of 60
  CHECK(one.phases[1].iteration_us == 60);
  CHECK(one.phases[1].seconds == doctest::Approx(50 * (100 + 3 * 60) * 1e-6));

  const JobResult& two = results.jobs[1];
  CHECK(two.phases[0].iterations_per_epoch == 13);
  CHECK(two.phases[0].iteration_us == 43);  // 7 + 30 + 6
  CHECK(two.phases[1].iterations_per_epoch == 25);
  CHECK(two.phases[1].first_epoch_iteration_us == 100);
  CHECK(two.phases[1].iteration_us == 66);
  CHECK(two.phases[2].first_epoch_iteration_us == 39);  // 3 + 30 + 6: decoded again in every epoch
  CHECK(two.phases[2].iteration_us == 39);
  CHECK(two.seconds == doctest::Approx((3 * 13 * 43 + 25 * (100 + 3 * 66) + 2 * 13 * 39) * 1e-6));
  REQUIRE(two.cost);
  CHECK(*two.cost == doctest::Approx(2 * two.seconds));  // price 1 per worker and second

  const json text = json::parse(results_json(results));
  CHECK(text.at("jobs").at(1).at("phases").at(1).at("name") == "large");
  CHECK(results_table(results).find("all of the job") != std::string::npos);
}

TEST_CASE("job: what cannot be is refused with its place") {
  std::string more;
  for (int i = 0; i < 1000; ++i) more += R"(, {"epochs": 1})";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({"phases": [{"epochs": 1}]})", "s.json: /job/samples: expected a value, got nothing"},
      {R"({"samples": 10, "phases": []})", "s.json: /job/phases: expected "},
      {R"({"samples": 10, "phases": [{"epochs": 1})" + more + "]}",
       "s.json: /job/phases: expected at most 1000 phases, got 1001"},
      {R"({"samples": 10, "phases": [{"epochs": 0}]})", "s.json: /job/phases/0/epochs: expected "},
      {R"({"samples": 10, "phases": [{"epochs": 1, "compute_us": 0}]})",
       "s.json: /job/phases/0/compute_us: expected a time above 0"},
      {R"({"samples": 10, "phases": [{"epochs": 1, "schedule": "wfpb"}]})",
       "s.json: /job/phases/0/schedule: expected "},
      {R"({"samples": 10, "phases": [{"epochs": 1, "input": {"cache_us": 1}}]})",
       "s.json: /job/phases/0/input/cache_us: expected a key among"}};
  for (const auto& [job, message] : wrong) {
    const auto& the_job = job;  // clang 14 cannot capture a structured binding
    CAPTURE(the_job);
    try {
      with_job(job);
      FAIL_CHECK("was taken");
    } catch (const core::InputError& error) {
      CHECK(std::string(error.what()).starts_with(message));
    }
  }
}

TEST_CASE("job: plans that schedules and phases name are limited in all, before any is read") {
  const support::TemporaryFolder folder;
  const std::string file = folder.put("plan.json", "");
  std::filesystem::resize_file(file, 25U << 20U);
  const std::string schedule = R"({"fusion": {"kind": "plan", "file": ")" + file + R"("}})";
  const auto refusal = [](const std::string& schedules, const std::string& phases) {
    std::string job = R"({"samples": 10, "phases": [{"epochs": 1)" + phases + "}]}";
    try {
      with_job(job, schedules);
    } catch (const core::InputError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  const std::string too_many = ": expected plans of at most 48 MiB in all, got more";
  CHECK(refusal("[" + schedule + ", " + schedule + "]", "") == "s.json: /schedules/1/fusion/file" + too_many);
  CHECK(refusal("[" + schedule + "]", R"(, "schedule": )" + schedule) ==
        "s.json: /job/phases/0/schedule/fusion/file" + too_many);
  CHECK(refusal("[" + schedule + "]", "").find("48 MiB") == std::string::npos);  // refused as no plan
}

}  // namespace
}  // namespace scenarios
