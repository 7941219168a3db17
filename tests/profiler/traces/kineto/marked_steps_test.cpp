// Step markers that make iterations together, and markers that are missing or there twice.

#include "profiler/traces/kineto/marked_steps.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "profiler/traces/kineto/import.hpp"
#include "tests/profiler/traces/kineto/marked_job.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

Imported import_text(const std::string& text) {
  const support::TemporaryFolder folder;
  return import_trace(folder.put("t.json", text), {.batch_size = 1});
}
Imported import_job(const std::vector<MarkedStep>& steps) { return import_text(MarkedJob(steps).text()); }

bool holds(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

const MarkedStep kAccumulates = {.updates = false};  // 600 us

TEST_CASE("marked steps: one for each micro-batch are joined until one holds the update") {
  // 600 and 700 us
  const Imported imported = import_job({kAccumulates, {}, kAccumulates, {}, kAccumulates, {}});
  CHECK(imported.iteration_us == doctest::Approx(1300));
  CHECK(holds(imported.account, "3 steps of 6 markers, 3 with layers, 3 of them alike and used"));
  CHECK(holds(imported.warnings, "gradients are accumulated over 2 micro-batches"));
  CHECK(imported.profile.iteration->optimizer_us == doctest::Approx(100));
}

TEST_CASE(
    "marked steps: micro-batches that the trace holds without the others of their iteration do not count") {
  const Imported imported = import_job({{}, kAccumulates, {}, kAccumulates, {}, kAccumulates});
  CHECK(imported.iteration_us == doctest::Approx(1300));
  CHECK(holds(imported.account, "4 steps of 6 markers, 4 with layers, 2 of them alike and used"));
  CHECK_FALSE(holds(imported.warnings, "steps differ"));
}

TEST_CASE("marked steps: where no annotation names the update, the sum of the gradients ends an iteration") {
  const MarkedStep last = {.names_update = false, .sum_us = 50};  // 750 us
  const Imported imported = import_job({kAccumulates, kAccumulates, last, kAccumulates, kAccumulates, last});
  CHECK(imported.iteration_us == doctest::Approx(2 * 600 + 750));
  CHECK(holds(imported.warnings, "gradients are accumulated over 3 micro-batches"));
}

TEST_CASE("marked steps: ranges of the user that --step names are steps, and ranges within them are not") {
  nlohmann::json trace = nlohmann::json::parse(MarkedJob({{}, {}, {}, {.is_marked = false}}).text());
  const nlohmann::json events = trace["traceEvents"];
  for (nlohmann::json& event : trace["traceEvents"])
    if (event["name"].get<std::string>().starts_with("ProfilerStep#")) event["name"] = "train";
  for (nlohmann::json event : events) {
    if (!event["name"].get<std::string>().starts_with("ProfilerStep#")) continue;
    event["name"] = "train/forward";
    event["ts"] = event["ts"].get<double>() + 20;
    event["dur"] = 100;
    trace["traceEvents"].push_back(event);
  }
  const support::TemporaryFolder folder;
  const std::string file = folder.put("t.json", trace.dump());
  const Imported imported = import_trace(file, {.batch_size = 1}, "train");
  CHECK(imported.iteration_us == doctest::Approx(MarkedStep().length_us()));
  CHECK(holds(imported.account, "3 steps, 3 with layers, 3 of them alike and used"));
  CHECK_THROWS_WITH(
      (void)import_trace(file, {.batch_size = 1}, "epoch"),
      (file + ": /traceEvents: expected ranges whose names begin with \"epoch\" (--step), got \"train\", "
              "\"train/forward\", \"Optimizer.step#SGD.step\"")
          .c_str());
}

TEST_CASE("marked steps: the markers of another thread do not divide steps") {
  nlohmann::json trace = nlohmann::json::parse(MarkedJob({{}, {.layer_us = 200}, {}}).text());
  const std::string once = profile_text(import_text(trace.dump()).profile);
  const nlohmann::json events = trace["traceEvents"];
  for (nlohmann::json event : events)
    if (event["cat"] == "user_annotation" && event["name"].get<std::string>().starts_with("ProfilerStep#")) {
      event["tid"] = 9;
      event["ts"] = event["ts"].get<double>() + 300;
      trace["traceEvents"].push_back(event);
    }
  CHECK(profile_text(import_text(trace.dump()).profile) == once);
}

TEST_CASE("marked steps: the next one has the next number, or begins soon after") {
  const std::vector<Step> steps = {{.start_ns = 0, .end_ns = 100, .label = "3", .last_label = "4"},
                                   {.start_ns = 900, .end_ns = 1000, .label = "5", .last_label = "5"},
                                   {.start_ns = 1050, .end_ns = 1150, .label = "7", .last_label = "7"},
                                   {.start_ns = 1201, .end_ns = 1301, .label = "9", .last_label = "9"}};
  const StepGaps gaps(steps, true);
  CHECK(gaps.has_next(0));
  CHECK(gaps.has_next(1));
  CHECK_FALSE(gaps.has_next(2));
  CHECK_FALSE(gaps.has_next(3));
  CHECK(gaps.usual_ns() == (800 + 50) / 2);
}

TEST_CASE("marked steps: steps are named by their markers, or counted where these have no numbers") {
  const auto step = [](const std::string& first, const std::string& last) {
    return Step{.label = first, .last_label = last};
  };
  const std::vector<Step> numbered = {step("3", "4"), step("5", "6"), step("7", "8"), step("11", "12")};
  CHECK(numbers_text(numbered, {0, 1, 3}) == "3 to 6, 11 to 12");
  CHECK(numbers_text(numbered, {1}) == "5 to 6");
  CHECK(numbers_text(std::vector<Step>(40), {0, 1, 2, 5}) == "1 to 3, 6");
  CHECK(numbers_text(std::vector<Step>(40), {0, 2, 4, 6, 8, 10, 12, 14, 16}) ==
        "1, 3, 5, 7, 9, 11, 13, 15 and others");
}

}  // namespace
}  // namespace kineto
