// The data of a report, and the page that carries them.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/advise/memory_front.hpp"
#include "planner/report/compact_timeline.hpp"
#include "planner/report/knee.hpp"
#include "planner/report/page.hpp"
#include "planner/report/report.hpp"
#include "planner/scenarios/results_text.hpp"
#include "tests/support/program.hpp"

namespace {

using nlohmann::ordered_json;

scenarios::Scenario small_scenario(const std::string& workers, const std::string& schedules,
                                   const std::string& name = "small") {
  return scenarios::read_scenario(core::Field::parse(
      R"({"format": "fusewise.scenario", "version": 1, "name": )" + ordered_json(name).dump() + R"(,
          "profile": {"format": "fusewise.profile", "version": 1, "model": "two layers", "batch_size": 1,
            "dtype": "float32", "device": "test", "origin": {"kind": "estimated", "source": "made up"},
            "layers": [
              {"name": "a", "kind": "linear", "forward_us": 10, "backward_us": 20,
               "tensors": [{"name": "a.w", "elements": 1000}]},
              {"name": "b", "kind": "linear", "forward_us": 10, "backward_us": 20,
               "tensors": [{"name": "b.w", "elements": 1000}]}]},
          "network": {"format": "fusewise.network", "version": 1, "name": "test",
            "origin": {"kind": "estimated", "source": "made up"},
            "link": {"alpha_us": 10, "beta_us_per_byte": 0.001}},
          "workers": )" +
          workers + R"(, "schedules": )" + schedules + "}",
      "small.json"));
}

/// Two stages of a layer each, two micro-batches.
scenarios::Scenario staged_scenario() {
  ordered_json file = ordered_json::parse(R"({"format": "fusewise.scenario", "version": 1, "name": "staged",
    "profile": {"format": "fusewise.profile", "version": 1, "model": "two layers", "batch_size": 1,
      "dtype": "float32", "device": "test", "origin": {"kind": "estimated", "source": "made up"}, "layers": [
        {"name": "a", "kind": "linear", "forward_us": 10, "backward_us": 20, "tensors": [{"name": "a.w", "elements": 1000}]},
        {"name": "b", "kind": "linear", "forward_us": 10, "backward_us": 20, "tensors": [{"name": "b.w", "elements": 1000}]}]},
    "network": {"format": "fusewise.network", "version": 1, "name": "test",
      "origin": {"kind": "estimated", "source": "made up"}, "link": {"alpha_us": 10, "beta_us_per_byte": 0.001}},
    "workers": [4], "schedules": ["wfbp"],
    "parallel": {"pipeline": 2, "stages": {"schedule": "1f1b", "micro_batches": 2}}})");
  return scenarios::read_scenario(core::Field::parse(file.dump(), "staged.json"), true);
}

scenarios::Entry entry(std::int64_t workers, const std::string& schedule, double speedup) {
  scenarios::Entry out = {.schedule = schedule, .pipeline = "wfbp", .fusion = "none"};
  out.metrics.workers = workers;
  out.metrics.speedup = speedup;
  return out;
}

TEST_CASE("knee: the last number of workers up to which each added worker adds half of one") {
  // From 1 to 4 workers 2.6 are added by 3, from 4 to 8 2.4 by 4, from 8 to 16 3.9 by 8.
  const scenarios::Results results = {
      .scenario = "",
      .warnings = {},
      .entries = {entry(4, "a", 3.6), entry(8, "a", 6.0), entry(16, "a", 9.9)},
      .jobs = {}};
  const std::vector<report::Knee> found = report::knees(results);
  REQUIRE(found.size() == 1);
  CHECK(found[0].workers == 8);
  CHECK(found[0].is_passed);
}

TEST_CASE("knee: a curve that has not bent yet, and one that was bent from the beginning") {
  const scenarios::Results results = {.scenario = "",
                                      .warnings = {},
                                      .entries = {entry(2, "straight", 2.0), entry(2, "flat", 1.2),
                                                  entry(8, "straight", 7.5), entry(8, "flat", 1.5)},
                                      .jobs = {}};
  const std::vector<report::Knee> found = report::knees(results);
  REQUIRE(found.size() == 2);
  CHECK(found[0].workers == 8);
  CHECK(!found[0].is_passed);
  CHECK(found[1].workers == 1);
  CHECK(found[1].is_passed);
}

TEST_CASE("report: the waiting of compute is the exposed communication of the results") {
  // 2 workers, ring: a group of M bytes takes 20 us + 0.001 M us; 4,000 bytes 24 us.
  //   compute  | b 20 | a 20 |          | forward 20
  //   channel         | b 24    | a 24     |
  // Backward ends at 40, b's all-reduce at 44, a's at 68: 28 us are exposed.
  const scenarios::Scenario scenario = small_scenario("2", R"(["wfbp"])");
  const scenarios::Results results = scenarios::run(scenario);
  CHECK(results.entries.at(0).metrics.exposed_communication_us == doctest::Approx(28));
  const std::vector<scenarios::WorkerTimeline> timelines = scenarios::timelines(scenario, 2);
  REQUIRE(timelines.size() == 1);
  REQUIRE(timelines[0].marks.size() == 4);
  for (const sim::Span& idle : report::idle_times(timelines[0]))
    CHECK(sim::to_us(idle.end - idle.start) == doctest::Approx(28));
  CHECK(report::idle_times(timelines[0]).size() == 3);
}

TEST_CASE("report: a timeline of too many tasks has fewer slices, and as much time on each lane") {
  const scenarios::Scenario scenario = small_scenario("2", R"(["wfbp"])");
  const scenarios::WorkerTimeline timeline = scenarios::timelines(scenario, 2).at(0);
  report::Texts texts;
  const ordered_json all = report::compact(timeline, std::nullopt, texts);
  const ordered_json few = report::compact(timeline, sim::from_us(20), texts);
  CHECK(all.at("slices").size() == 5 * timeline.slices.size());
  CHECK(all.at("joined_us") == -1.0);
  // The forward tasks of 10 us are joined in each of 3 iterations, and nothing else.
  CHECK(few.at("slices").size() == 5 * (timeline.slices.size() - 3));
  CHECK(few.at("joined_us") == 20.0);
  const auto busy = [](const ordered_json& each) {
    std::int64_t sum = 0;
    for (std::size_t i = 4; i < each.at("slices").size(); i += 5)
      sum += each.at("slices").at(i).get<std::int64_t>();
    return sum;
  };
  CHECK(busy(few) == busy(all));
  CHECK(few.at("idle") == all.at("idle"));
}

TEST_CASE("report: the parts of every iteration add up to it") {
  const scenarios::Scenario scenario = scenarios::read_scenario(
      core::Field::load(support::source_dir() / "scenarios" / "vgg16-v100-sparse.json"));
  const report::Report made =
      report::of_scenario(scenario, {.workers = 0, .schedule = planner::preset_schedule("fusewise")});
  for (const ordered_json& each : made.data.at("results")) {
    double sum = 0;
    for (const char* part : {"forward_us", "backward_us", "encode_us", "decode_us", "update_us",
                             "unoverlapped_input_us", "exposed_communication_us"})
      sum += each.at(part).get<double>();
    CAPTURE(each.at("schedule").get<std::string>());
    CHECK(sum == doctest::Approx(each.at("iteration_us").get<double>()));
  }
}

TEST_CASE("report: the plan is that of fusewise plan at the knee, in the words of every framework") {
  const scenarios::Scenario scenario = small_scenario("[2, 4, 8]", R"(["wfbp", "fusewise"])");
  const report::Report made =
      report::of_scenario(scenario, {.workers = 0, .schedule = planner::preset_schedule("fusewise")});
  const ordered_json& plan = made.data.at("plan");
  const std::int64_t workers = plan.at("workers");
  const scenarios::Planned planned =
      scenarios::plan(scenario, workers, planner::preset_schedule("fusewise"), {});
  CHECK(plan.at("document") == ordered_json::parse(planner::plan_text(planned.plan)));
  CHECK(plan.at("explanation").at("groups").size() == planned.plan.groups.size());
  CHECK(plan.at("explanation").at("combined").at("best_plan_us").size() == 64);
  CHECK(plan.at("emissions").size() == planner::emitters().size() - 1);
}

TEST_CASE("report: of several schedules with the largest knee the fastest is named") {
  scenarios::Scenario scenario =
      scenarios::read_scenario(core::Field::load(support::source_dir() / "scenarios" / "resnet50-v100.json"));
  scenario.workers = {32, 64, 128};
  const scenarios::Results results = scenarios::run(scenario);
  const report::Report made =
      report::of_results(core::Field::parse(scenarios::results_json(results), "results.json"));
  const std::string line = made.data.at("advice").at(1);
  CHECK(line.starts_with("Knee: under fusewise-dear "));  // dear's knee is there, too
}

TEST_CASE("report: without a knee among the numbers the plan is for one that the advice says to test") {
  const auto made = [](scenarios::Scenario scenario, std::vector<std::int64_t> workers,
                       std::string_view schedule) {
    scenario.workers = std::move(workers);
    return report::of_scenario(scenario, {.workers = 0, .schedule = planner::preset_schedule(schedule)});
  };
  const report::Report beyond = made(
      scenarios::read_scenario(core::Field::load(support::source_dir() / "scenarios/resnet50-v100.json")),
      {1, 2, 4, 8}, "fusewise-dear");
  CHECK(beyond.data.at("plan").at("workers") == 8);
  CHECK(beyond.data.at("advice").at(1).get<std::string>().ends_with(": the knee lies beyond."));
  CHECK(beyond.data.at("advice").at(2) ==
        "Worth a test run: 2 workers, which shows for the least money whether profile and network are right; "
        "and 8 workers, the largest number simulated, which decides how many to use.");
  for (const std::vector<std::int64_t>& workers : {std::vector<std::int64_t>{64, 128, 256}, {1, 64, 128}}) {
    const report::Report below = made(small_scenario("2", R"(["wfbp", "fusewise"])"), workers, "fusewise");
    CHECK(below.data.at("plan").at("workers") == 64);
    CHECK(below.data.at("advice").at(2) ==
          "Worth a test run: 64 workers, which shows for the least money whether profile and network are "
          "right.");
  }
}

TEST_CASE("report: schedules that are as fast as the fastest are named with it") {
  const scenarios::Scenario scenario =
      small_scenario("512", R"(["wfbp", "sync-easgd", "mg-wfbp", "fusewise"])");  // one group is best
  const report::Report made = report::of_results(
      core::Field::parse(scenarios::results_json(scenarios::run(scenario)), "results.json"));
  const std::string line = made.data.at("advice").at(0);
  CHECK(line.starts_with("On 512 workers sync-easgd (like mg-wfbp, fusewise) is the fastest: "));
}

TEST_CASE("report: a schedule that is not told apart from the fastest is named with its time") {
  scenarios::Results results = scenarios::run(small_scenario("4", R"(["wfbp", "fusewise"])"));
  results.entries[0].metrics.iteration_us = 120;
  results.entries[1].metrics.iteration_us = 100;
  const auto advice = [&](double slower_share) -> std::string {
    for (scenarios::Entry& each : results.entries)
      each.interval = planner::Interval{.low_us = 90, .high_us = 130, .samples = 40};
    results.entries[0].interval->slower_share = slower_share;
    const auto file = core::Field::parse(scenarios::results_json(results), "results.json");
    return report::of_results(file).data.at("advice").at(0);
  };
  CHECK(advice(0.9).starts_with("On 4 workers fusewise is predicted to be the fastest: 0.100 ms"));
  CHECK(advice(0.9).ends_with(" As the inputs are known, it is not told apart from wfbp (0.120 ms)."));
  CHECK(advice(0.98).starts_with("On 4 workers fusewise is the fastest: 0.100 ms"));
}

TEST_CASE("report: a job is shown as simulate prints it, also of results on file") {
  const scenarios::Scenario scenario = scenarios::read_scenario(
      core::Field::load(support::source_dir() / "scenarios" / "resnet50-v100-job.json"));
  const report::Report made = report::of_scenario(
      scenario, {.workers = 8, .schedule = planner::preset_schedule("fusewise"), .is_default = true});
  const auto results = ordered_json::parse(scenarios::results_json(scenarios::run(scenario)));
  REQUIRE(results.at("jobs").size() == 2);
  CHECK(made.data.at("jobs") == results.at("jobs"));
  CHECK(made.data.at("plan").at("document").at("collectives").at("all_reduce") == "two_level");
  CHECK(made.data.at("about").get<std::string>().find("; two_level all-reduce.") != std::string::npos);
  CHECK(report::of_results(core::Field::parse(results.dump(), "r.json")).data.at("jobs") ==
        results.at("jobs"));
}

TEST_CASE("report: where no plan is possible the page says why") {
  const scenarios::Scenario scenario = small_scenario("2", R"(["wfbp"])");
  const report::Report made =
      report::of_scenario(scenario, {.workers = 2, .schedule = planner::preset_schedule("bytescheduler")});
  CHECK(made.data.at("plan").contains("document"));
  CHECK(!made.data.at("plan").contains("emissions"));
}

TEST_CASE("report: results on file give the same views as the scenario, without timelines and plan") {
  const scenarios::Scenario scenario = small_scenario("[2, 4]", R"(["wfbp", "fusewise"])");
  const scenarios::Results results = scenarios::run(scenario);
  const report::Report made =
      report::of_results(core::Field::parse(scenarios::results_json(results), "results.json"));
  CHECK(made.data.at("results") == ordered_json::parse(scenarios::results_json(results)).at("results"));
  CHECK(made.data.at("advice").size() == 3);
  CHECK(!made.data.contains("timelines"));
}

TEST_CASE("report: wrong results are refused at their place") {
  const auto message = [](const std::string& text) -> std::string {
    try {
      report::of_results(core::Field::parse(text, "r.json"));
    } catch (const core::InputError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(
      message(
          R"({"format": "fusewise.results", "version": 1, "scenario": "", "warnings": [], "results": []})") ==
      "r.json: /results: expected an array of at least 1 item, got an array of 0 items");
  CHECK(
      message(
          R"({"format": "fusewise.results", "version": 1, "scenario": "", "warnings": [], "results": [{}]})")
          .rfind("r.json: /results/0/schedule: expected", 0) == 0);
}

TEST_CASE("report: a memory front is read as plan --memory-front writes it, and refused where it is wrong") {
  planner::MemoryFront front = {.workers = 2, .chosen = 1, .looked_at = 9};
  for (const std::int64_t bytes : {1'000'000'000, 2'000'000'000}) {
    planner::ShardedPlan plan = {.groups = {{0, 1}},
                                 .options = {.prefetch = 1, .kept_groups = 0, .backward_prefetch = 1}};
    plan.peak_bytes = bytes;
    plan.iteration_us = 2e12 / static_cast<double>(bytes);
    plan.lower_bound_us = 900;
    front.plans.push_back(plan);
  }
  const std::string written = planner::memory_front_json(front);
  const report::Report made = report::of_memory_front(core::Field::parse(written, "f.json"));
  const ordered_json& data = made.data.at("front");
  CHECK(data.at("chosen") == 1);
  CHECK(data.at("plans").at(1).at("iteration_us") == 1000);
  CHECK(data.at("plans").at(0).at("peak_bytes") == 1'000'000'000);
  ordered_json wrong = ordered_json::parse(written);
  wrong["chosen"] = 2;
  CHECK_THROWS_WITH_AS(report::of_memory_front(core::Field::parse(wrong.dump(), "f.json")),
                       "f.json: /chosen: expected an integer from 0 to 1, got 2", core::InputError);
}

TEST_CASE("report: a case of a suite carries the reason why it is not judged") {
  const report::Report made = report::of_accuracy(core::Field::parse(R"({
      "format": "fusewise.accuracy", "version": 1, "suite": "s", "date": "today", "machine": "m", "cases": [
        {"group": "g", "plan": "a", "verdict": "not judged", "not_judged_because": "a fixed loop spreads by 30 %",
         "predicted_us": 10, "measured_us": 11, "interval_us": [10, 12]},
        {"group": "g", "plan": "b", "verdict": "passed", "predicted_us": 10, "measured_us": 11, "interval_us": [10, 12]}]})",
                                                                     "a.json"));
  const ordered_json& cases = made.data.at("accuracy");
  CHECK(cases.at(0).at("not_judged_because") == "a fixed loop spreads by 30 %");
  CHECK(!cases.at(1).contains("not_judged_because"));
}

TEST_CASE("report: no name can end the script that carries the data") {
  const std::string name = "</script><script>alert(1)</script><!--";
  const scenarios::Scenario scenario = small_scenario("[2, 4]", R"(["wfbp"])", name);
  const report::Report made =
      report::of_scenario(scenario, {.workers = 0, .schedule = planner::preset_schedule("fusewise")});
  const std::string page = report::page(made.title, made.data);
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK(page.find("<script>alert") == std::string::npos);
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t from = page.find(begin) + begin.size();
  const ordered_json read = ordered_json::parse(page.substr(from, page.find("</script>", from) - from));
  CHECK(read.at("title") == name);
  CHECK(page.find("@TITLE@") == std::string::npos);
}

/// The elements of a constant array of the page's scripts.
std::vector<std::string> script_array(const std::string& name) {
  std::vector<std::string> out;
  for (const report::PageFile& file : report::page_files()) {
    const std::string begin = "const " + name + " = [";
    const std::size_t at = file.text.find(begin);
    if (file.name != "draw.js" || at == std::string_view::npos) continue;
    const std::string_view from = file.text.substr(at + begin.size() - 1);
    out = ordered_json::parse(from.substr(0, from.find(']') + 1)).get<std::vector<std::string>>();
  }
  return out;
}

TEST_CASE("report: every named schedule has a colour and a dash of its own, the same on every page") {
  const std::vector<std::string> names = script_array("NAMED");
  for (const planner::Preset& preset : planner::presets()) {
    CAPTURE(preset.name);
    CHECK(std::count(names.begin(), names.end(), preset.name) == 1);
  }
  CHECK(names.size() <= script_array("COLOURS").size() * script_array("DASHES").size());
}

TEST_CASE("report: the page asks the network for nothing") {
  std::string all;
  for (const report::PageFile& file : report::page_files())
    if (file.name.substr(0, 7) != "vendor/") all += file.text;  // D3 can load files, and is not asked to
  CHECK(all.find("default-src 'none'") != std::string::npos);
  for (const char* word : {"src=", "@import", "fetch(", "XMLHttpRequest", "<link", "url(http"}) {
    CAPTURE(word);
    CHECK(all.find(word) == std::string::npos);
  }
}

/// 13 named schedules and others with more and more groups.
scenarios::Scenario large_scenario(int schedules) {
  std::string all = R"(["wfbp", "s-sgd", "sync-easgd", "mg-wfbp", "ddp", "horovod", "dear", "dear-nl",
    "dear-fb", "dear-no-fusion", "bytescheduler", "fusewise", "fusewise-dear")";
  for (int count = 14; count <= schedules; ++count)
    all +=
        fmt::format(R"(, {{"name": "wfbp", "fusion": {{"kind": "groups", "count": {}}}}})", 20 + 2 * count);
  const std::string root = support::source_dir().string();
  return scenarios::read_scenario(core::Field::parse(
      R"({"format": "fusewise.scenario", "version": 1, "name": "large", "profile": ")" + root +
          R"(/traces/resnet50-v100.profile.json", "network": ")" + root +
          R"(/traces/v100-10gbe.network.json", "workers": [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], "schedules": )" +
          all + "]}",
      "large.json"));
}

/// The number of slices in the lane of communication.
std::size_t communications(const ordered_json& timeline) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < timeline.at("slices").size(); i += 5)
    if (timeline.at("lanes").at(timeline.at("slices").at(i).get<std::size_t>()) == "communication") ++out;
  return out;
}

TEST_CASE("report: a job with pipeline stages has a timeline and a plan of each, also as results") {
  const scenarios::Scenario scenario = staged_scenario();
  const report::Report made =
      report::of_scenario(scenario, {.workers = 0, .schedule = planner::preset_schedule("wfbp")});
  const ordered_json& timelines = made.data.at("timelines");
  REQUIRE(timelines.size() == 2);
  for (int stage = 0; stage < 2; ++stage)
    CHECK(timelines[static_cast<std::size_t>(stage)].at("stage") == stage);
  // the last of all passes ends after 3 forward and 3 backward passes; an all-reduce of two takes 24 us
  CHECK(timelines[0].at("idle") == ordered_json{90'000, 24'000});
  CHECK(timelines[1].at("idle") == ordered_json{90'000, 4'000});
  const ordered_json& plan = made.data.at("plan");
  CHECK(plan.at("stages").at("parts").size() == 2);
  CHECK(plan.at("explanation").at("groups").size() == 2);
  CHECK(plan.at("explanation").at("stages").size() == 2);
  CHECK(plan.at("explanation").at("combined").at("inputs").size() == 3);
  std::vector<std::string> targets;
  for (const ordered_json& each : plan.at("emissions"))
    if (each.contains("text")) targets.push_back(each.at("target"));
  CHECK(targets == std::vector<std::string>{"fsdp", "megatron"});
  const std::string results = scenarios::results_json(scenarios::run(scenario));
  const report::Report again = report::of_results(core::Field::parse(results, "results.json"));
  CHECK(again.data.at("results").at(0).at("stages") == made.data.at("results").at(0).at("stages"));
}

TEST_CASE("report: 2,048 workers and 20 schedules stay below 3 MB, and no task is joined with another") {
  const report::Report made = report::of_scenario(
      large_scenario(20), {.workers = 0, .schedule = planner::preset_schedule("fusewise")});
  CHECK(made.data.at("timelines").size() >= 40);
  CHECK(report::page(made.title, made.data).size() <= report::kMaxPageBytes);
  for (const ordered_json& timeline : made.data.at("timelines")) CHECK(timeline.at("joined_us") == -1.0);
}

TEST_CASE("report: a page that would be too large loses its shortest tasks, and is then nearly 3 MB large") {
  const report::Report made = report::of_scenario(
      large_scenario(60), {.workers = 0, .schedule = planner::preset_schedule("fusewise")});
  const std::size_t size = report::page(made.title, made.data).size();
  CHECK(size <= report::kMaxPageBytes);
  CHECK(size > report::kMaxPageBytes * 8 / 10);
  double longest_us = -1;
  for (const ordered_json& timeline : made.data.at("timelines")) {
    longest_us = std::max(longest_us, timeline.at("joined_us").get<double>());
    if (timeline.at("schedule") == "sync-easgd") CHECK(communications(timeline) == 3);  // iterations
    if (timeline.at("schedule") == "ddp") CHECK(communications(timeline) == 15);
  }
  CHECK(longest_us > 0);
  CHECK(longest_us < 5000);
}

}  // namespace
