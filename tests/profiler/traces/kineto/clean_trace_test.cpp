// Traces with events that cannot be used: without times, damaged, twice, and in any order.

#include "profiler/traces/kineto/clean_trace.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "profiler/traces/kineto/read_trace.hpp"
#include "tests/profiler/traces/kineto/marked_job.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

using nlohmann::json;

Imported import_json(const json& trace) {
  const support::TemporaryFolder folder;
  return import_trace(folder.put("t.json", trace.dump()), {.batch_size = 1});
}

/// The kernels in the order of their starts.
std::vector<json*> kernels_of(json& trace) {
  std::vector<json*> out;
  for (json& event : trace["traceEvents"])
    if (event["cat"] == "kernel") out.push_back(&event);
  return out;
}

void lose(json& kernel) { kernel["ts"] = kernel["dur"] = 0; }

bool holds(const std::vector<std::string>& lines, const std::string& words) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

// A step has five kernels: two layers forward, two backward, and the update.
TEST_CASE("clean trace: steps that lost kernels are left out, and nothing is measured by them") {
  json trace = json::parse(MarkedJob({{}, {}, {}, {}}).text());
  const std::vector<json*> kernels = kernels_of(trace);
  REQUIRE(kernels.size() == 20);
  for (std::size_t i = 12; i < 20; ++i) lose(*kernels[i]);
  const Imported imported = import_json(trace);
  CHECK(imported.iteration_us == doctest::Approx(700));
  CHECK(holds(imported.account, "2 of them alike and used"));
  CHECK(holds(imported.warnings, "8 kernels or copies have no time in the trace: "));
}

TEST_CASE("clean trace: a step lasts until the first kernel of the next one, if that was not lost") {
  json trace = json::parse(MarkedJob({{.layer_us = 200}, {}, {}}).text());  // 1100, 700 and 700 us
  lose(*kernels_of(trace)[5]);                                              // the second step's first one
  // the first and the last step last as long as their markers
  CHECK(import_json(trace).iteration_us == doctest::Approx((1100 + 700) / 2.0));
}

TEST_CASE("clean trace: kernels at 0 long before the host began have no time, whatever they last") {
  json trace = json::parse(MarkedJob({{}, {}, {}}).text());
  (*kernels_of(trace)[7])["ts"] = 0;
  const Imported imported = import_json(trace);
  CHECK(imported.iteration_us == doctest::Approx(700));
  CHECK(holds(imported.warnings, "1 kernel or copy has no time in the trace: "));
}

TEST_CASE("clean trace: a trace that holds nothing but kernels without a time is refused") {
  json trace = json::parse(MarkedJob({{}, {}}).text());
  for (json* kernel : kernels_of(trace)) lose(*kernel);
  CHECK_THROWS_AS(import_json(trace), core::InputError);
  // nothing says when the steps began
  trace = json::parse(MarkedJob({{}, {}}).text());
  for (const auto first : {std::size_t{0}, std::size_t{5}}) lose(*kernels_of(trace)[first]);
  CHECK_THROWS_WITH_AS(import_json(trace),
                       doctest::Contains("expected a step that takes longer than 0 us, got none"),
                       core::InputError);
}

TEST_CASE("clean trace: what a trace holds twice counts once") {
  json trace = json::parse(MarkedJob({{}, {.layer_us = 150}, {}}).text());
  const std::string once = profile_text(import_json(trace).profile);
  json events = trace["traceEvents"];
  const std::size_t count = events.size() - 3;  // each of three waits takes no time more often than once
  for (json& event : events) trace["traceEvents"].push_back(event);
  const Imported twice = import_json(trace);
  CHECK(profile_text(twice.profile) == once);
  CHECK(holds(twice.warnings, fmt::format("the trace holds {} events twice, which count once", count)));
}

TEST_CASE(
    "clean trace: of two operators of the same time the one with the lower number is around the other") {
  TraceText text;
  text.range("cpu_op", 1, "aten::addmm", 100, 50, "\"External id\": 8");
  text.range("cpu_op", 1, "aten::linear", 100, 50, "\"External id\": 7");
  text.range("python_function", 1, "nn.Module: Linear_0", 100, 50);
  const support::TemporaryFolder folder;
  const Trace trace = read_trace(folder.put("t.json", text.as_array()));
  REQUIRE(trace.ranges.size() == 3);
  CHECK(trace.texts[trace.ranges[0].name] == "nn.Module: Linear_0");
  CHECK(trace.texts[trace.ranges[1].name] == "aten::linear");
  CHECK(trace.texts[trace.ranges[2].name] == "aten::addmm");
}

TEST_CASE("clean trace: events whose times are damaged are left out, and counted") {
  const json whole = json::parse(MarkedJob({{}, {}, {}}).text());
  const std::string good = profile_text(import_json(whole).profile);
  const json event = {{"ph", "X"}, {"cat", "cpu_op"}, {"name", "aten::mul"}, {"pid", 5}, {"tid", 1}};
  for (const std::pair<json, json>& times : std::vector<std::pair<json, json>>{
           {1.7e12 + 150, -3}, {nullptr, 1}, {1e300, 1}, {"NaN", 1}, {"soon", 1}, {1.7e12 + 150, "inf"}}) {
    CAPTURE(times.first);
    CAPTURE(times.second);
    json trace = whole;
    trace["traceEvents"].push_back(event);
    trace["traceEvents"].back().update({{"ts", times.first}, {"dur", times.second}});
    const Imported imported = import_json(trace);
    CHECK(profile_text(imported.profile) == good);
    CHECK(
        holds(imported.warnings, "1 event has no time, or one that is no number, or lasts less than 0 us: "));
  }
}

TEST_CASE("clean trace: what is no JSON in a single event is repaired, and told") {
  const support::TemporaryFolder folder;
  const std::string whole = MarkedJob({{}, {}, {}}).text();
  const auto imported = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return import_trace(folder.put("t.json", text), {.batch_size = 1});
  };
  for (const std::string to : {"gemm\\x41", "gemm\xff"}) {
    const Imported odd = imported("\"gemm\"", '"' + to + '"');
    CHECK(odd.iteration_us == doctest::Approx(700));
    CHECK(holds(odd.warnings, "1 place of the file is no JSON: "));
  }
  const Imported none = imported("\"stream\": 7", "\"stream\": NaN");
  CHECK(none.iteration_us == doctest::Approx(700));
  CHECK(holds(none.warnings, "1 place of the file is no JSON: "));
}

}  // namespace
}  // namespace kineto
