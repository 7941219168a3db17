// Chrome traces: the exact text of a small one, and that a run's trace is JSON whose slices do not overlap.

#include "core/chrome_trace.hpp"

#include <map>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "planner/run/slices.hpp"
#include "tests/support/planning.hpp"

namespace core {
namespace {

using nlohmann::json;

TEST_CASE("chrome_trace: processes and threads are named, slices follow in their order") {
  const std::vector<Track> tracks = {{"p", "compute"}, {"p", "communication"}, {"q \"2\"", "compute"}};
  const std::vector<Slice> slices = {{.track = 1,
                                      .name = "a\n",
                                      .category = "c",
                                      .start = sim::Time(1'500'000),
                                      .end = sim::Time(2'000'001)},
                                     {.track = 2,
                                      .name = "b",
                                      .category = "d",
                                      .end = sim::Time(5),
                                      .arguments = {{"bytes", "12"}, {"first", "\"t\""}}}};
  CHECK(chrome_trace(tracks, slices) == R"({"displayTimeUnit": "ms", "traceEvents": [
{"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "p"}},
{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "compute"}},
{"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "communication"}},
{"ph": "M", "name": "process_name", "pid": 2, "tid": 1, "args": {"name": "q \"2\""}},
{"ph": "M", "name": "thread_name", "pid": 2, "tid": 1, "args": {"name": "compute"}},
{"ph": "X", "name": "a\n", "cat": "c", "pid": 1, "tid": 2, "ts": 1.500000, "dur": 0.500001},
{"ph": "X", "name": "b", "cat": "d", "pid": 2, "tid": 1, "ts": 0.000000, "dur": 0.000005, "args": {"bytes": 12, "first": "t"}}
]}
)");
}

TEST_CASE("chrome_trace: nothing is valid JSON too, and text is escaped") {
  CHECK(json::parse(chrome_trace({}, {}))["traceEvents"].empty());
  CHECK(json_string("a\"\\\n\x01") == R"("a\"\\\n\u0001")");
  CHECK(json_string("\xff") == "\"\xef\xbf\xbd\"");
}

TEST_CASE("chrome_trace: a run's slices say what ran, of which group, and when") {
  // two layers as in tests/planner/pipelines_test.cpp: F1 0-2, F2 2-5, B2 5-9, B1 9-14, A1 9-19, A2 19-25
  const support::Scene scene(support::profile_of({{2, 5, {10}}, {3, 4, {20}}}), support::pair_of(2, 0.1), 2,
                             {.iterations = 1});
  std::vector<Track> tracks = {{"other", "compute"}};
  std::vector<Slice> slices;
  const planner::Run run = scene.run(support::schedule_of(R"("wfbp")"));
  planner::add_slices(scene.setting, run, run.timeline, "wfbp: 2", tracks, slices);
  REQUIRE(tracks.size() == 3);
  CHECK(tracks[1].process == "wfbp: 2");
  CHECK(tracks[2].thread == "communication");
  REQUIRE(slices.size() == 6);
  const json events = json::parse(chrome_trace(tracks, slices))["traceEvents"];
  CHECK(events[5] == json::parse(R"({"ph": "X", "name": "forward l1", "cat": "forward", "pid": 2, "tid": 1,
    "ts": 0.0, "dur": 2.0, "args": {"iteration": 1, "critical": true}})"));
  CHECK(events[7] == json::parse(R"({"ph": "X", "name": "backward l2", "cat": "backward", "pid": 2, "tid": 1,
    "ts": 5.0, "dur": 4.0, "args": {"iteration": 1, "critical": true}})"));
  CHECK(events[9] ==
        json::parse(R"({"ph": "X", "name": "all-reduce group 1", "cat": "communication", "pid": 2, "tid": 2,
    "ts": 9.0, "dur": 10.0, "args": {"iteration": 1, "group": 1, "bytes": 80, "tensors": 1, "first": "l2.a", "last": "l2.a", "critical": true}})"));
}

TEST_CASE(
    "chrome_trace: every schedule's trace is JSON, with a name for each slice and no overlap on a track") {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    const support::Scene scene(support::random_profile(random, 6), support::random_link(random),
                               random.between(1, 4), support::random_conditions(random));
    std::vector<Track> tracks;
    std::vector<Slice> slices;
    for (const planner::Preset& preset : planner::presets()) {
      const planner::Run run = scene.run(planner::preset_schedule(preset.name));
      planner::add_slices(scene.setting, run, run.timeline, std::string(preset.name), tracks, slices);
    }
    const json trace = json::parse(chrome_trace(tracks, slices));
    CHECK(trace["traceEvents"].size() >= slices.size() + tracks.size() + planner::presets().size());
    std::map<std::size_t, sim::Time> end;  // of the last slice on each track
    bool in_order = true;
    bool named = true;
    for (const Slice& slice : slices) {
      REQUIRE(slice.track < tracks.size());
      in_order = in_order && slice.start >= end[slice.track] && slice.end >= slice.start;
      end[slice.track] = slice.end;
      named = named && !slice.name.empty() && !slice.category.empty();
    }
    CHECK(in_order);
    CHECK(named);
  }
}

}  // namespace
}  // namespace core
