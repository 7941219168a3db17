// Results as JSON, CSV and table: keys, quoting, and no NaN or infinity.

#include "planner/scenarios/results_text.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/support/planning.hpp"

namespace scenarios {
namespace {

using nlohmann::ordered_json;

Results example() {
  Results results = {.scenario = "a \"name\"", .warnings = {"w1", "w2"}};
  results.entries.push_back({.schedule = "wfbp",
                             .pipeline = "wfbp",
                             .fusion = "none",
                             .metrics = {.workers = 4,
                                         .groups = 2,
                                         .iteration_us = 25,
                                         .forward_us = 5,
                                         .backward_us = 9,
                                         .encode_us = 2.5,
                                         .decode_us = 1.5,
                                         .update_us = 0.5,
                                         .read_us = 0.25,
                                         .communication_us = 16,
                                         .exposed_communication_us = 11,
                                         .bytes_sent_per_worker = 180,
                                         .throughput_samples_per_s = 1e6 / 3,
                                         .speedup = 2.24,
                                         .scaling_efficiency = 0.56}});
  results.entries.push_back({.schedule = "a, \"b\"\nc", .pipeline = "dear", .fusion = "layers"});
  results.entries.back().metrics.workers = 4;
  results.entries.back().metrics.iteration_us = 20;
  return results;
}

std::vector<std::string> keys(const ordered_json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

TEST_CASE("results: the JSON has exactly these keys, the contract's among them") {
  const ordered_json json = ordered_json::parse(results_json(example()));
  CHECK(keys(json) == std::vector<std::string>{"format", "version", "scenario", "warnings", "results"});
  CHECK(json["format"] == "fusewise.results");
  CHECK(json["version"] == 1);
  CHECK(json["scenario"] == "a \"name\"");
  CHECK(json["warnings"] == ordered_json{"w1", "w2"});
  REQUIRE(json["results"].size() == 2);
  const std::vector<std::string> contract = {"workers",
                                             "schedule",
                                             "pipeline",
                                             "fusion",
                                             "compression",
                                             "groups",
                                             "iteration_us",
                                             "forward_us",
                                             "backward_us",
                                             "encode_us",
                                             "decode_us",
                                             "update_us",
                                             "unoverlapped_input_us",
                                             "communication_us",
                                             "exposed_communication_us",
                                             "bytes_sent_per_worker",
                                             "throughput_samples_per_s",
                                             "speedup",
                                             "scaling_efficiency"};
  for (const ordered_json& entry : json["results"]) CHECK(keys(entry) == contract);
}

/// The lines of the table of an entry up to the first sentence below it.
std::string table_of(std::size_t width, const std::string& schedule = "wfbp") {
  Results results = example();
  results.entries.resize(1);
  results.entries[0].schedule = schedule;
  const std::string text = results_table(results, width);
  return text.substr(0, text.find("iteration = "));
}

TEST_CASE("results: the table leaves out units, then speedup, then channel, where it is too wide") {
  CHECK(
      table_of(0) ==
      "workers  schedule  groups  iteration ms  exposed ms  channel ms  samples/s  speedup  efficiency\n"
      "      4  wfbp           2         0.025       0.011       0.016   333333.3     2.24      56.0 %  *\n");
  CHECK(table_of(98) == table_of(0));
  CHECK(table_of(97) ==
        "workers  schedule  groups  iteration  exposed  channel  samples/s  speedup  efficiency\n"
        "      4  wfbp           2      0.025    0.011    0.016   333333.3     2.24      56.0 %  *\n"
        "times in ms\n");
  CHECK(table_of(88) ==
        "workers  schedule  groups  iteration  exposed  channel  samples/s  efficiency\n"
        "      4  wfbp           2      0.025    0.011    0.016   333333.3      56.0 %  *\n"
        "times in ms; a wider terminal or --csv shows speedup, too\n");
  CHECK(table_of(79) ==
        "workers  schedule  groups  iteration  exposed  samples/s  efficiency\n"
        "      4  wfbp           2      0.025    0.011   333333.3      56.0 %  *\n"
        "times in ms; a wider terminal or --csv shows speedup and channel, too\n");
  CHECK(table_of(79, "dgc between-nodes of a long name") ==
        "workers  schedule          groups  iteration  exposed  samples/s  efficiency\n"
        "      4  dgc                    2      0.025    0.011   333333.3      56.0 %  *\n"
        "           between-nodes\n"
        "           of a long name\n"
        "times in ms; a wider terminal or --csv shows speedup and channel, too\n");
  CHECK(results_table(example(), 79).find("\nchannel = ") == std::string::npos);
  CHECK(results_table(example(), 200).find("\nchannel = ") != std::string::npos);
}

/// The tables of an entry with stages, memory, what-ifs and a job, without the sentences around them.
std::vector<std::string> other_tables(std::size_t width) {
  Results results = example();
  results.entries.resize(1);
  Entry& entry = results.entries.front();
  planner::MemoryPeak memory;
  memory.bytes.fill(123'456'789'000);
  memory.has_activations = true;
  entry.memory = memory;
  entry.stages = {{.stage = 0,
                   .groups = 12,
                   .forward_us = 1234567,
                   .backward_us = 2345678,
                   .bubble_us = 123456,
                   .communication_us = 34567,
                   .passes_end_us = 3456789,
                   .end_us = 3456789,
                   .memory = memory}};
  entry.what_if = {{.change = "bandwidth=2,startup=3,compute=4", .metrics = entry.metrics}};
  results.jobs = {
      {.workers = 1024,
       .phases = {{.name = "the first phase", .schedule = "wfbp optimal two_level", .epochs = 90}},
       .seconds = 12,
       .cost = 3.5}};
  std::vector<std::string> out;
  std::string text = results_table(results, width);
  for (std::size_t at = 0; (at = text.find("\n\n", at)) != std::string::npos;) {
    at += 2;
    out.push_back(text.substr(at, text.find("\n\n", at) - at));
  }
  REQUIRE(out.size() == 4);
  return out;
}

TEST_CASE("results: the other tables leave out columns, too, and say which") {
  const std::vector<std::string> whole = other_tables(0);
  const std::vector<std::string> narrow = other_tables(80);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(narrow[i]);
    std::size_t longest = 0;
    for (std::size_t at = 0; at < narrow[i].size(); at = narrow[i].find('\n', at) + 1) {
      const std::size_t end = narrow[i].find('\n', at);
      const std::string line = narrow[i].substr(at, end - at);
      if (line.starts_with("workers") || line.starts_with("      4") || line.starts_with("   1024"))
        longest = std::max(longest, line.size());
      if (end == std::string::npos) break;
    }
    CHECK(longest <= 80);
    CHECK(longest >= 60);
  }
  CAPTURE(narrow[0] + narrow[1] + narrow[3]);
  CHECK(whole[0].find("groups  forward ms  backward ms") != std::string::npos);
  CHECK(narrow[0].find("times in ms; a wider terminal or --json shows passes end, too") != std::string::npos);
  CHECK(narrow[1].find(
            "a wider terminal or --json shows master, at ms, buffers, gathered and gradients, too") !=
        std::string::npos);
  CHECK(narrow[3].find(
            "a wider terminal or --json shows first epoch ms, iterations an epoch and epochs, too") !=
        std::string::npos);
}

TEST_CASE("results: schedules are shown without the folders of their files, where the names stay distinct") {
  CHECK(without_folders({"wfbp", "cupcake mstopk /home/me/a.json 0.01"}) ==
        std::vector<std::string>{"wfbp", "cupcake mstopk a.json 0.01"});
  const std::vector<std::string> alike = {"dear fp16 /x/a.json", "dear fp16 y/a.json"};
  CHECK(without_folders(alike) == alike);
  Results results = example();
  results.entries[0].schedule = "wfbp /x/plan.json";
  CHECK(results_table(results).find("  wfbp plan.json  ") != std::string::npos);
  CHECK(results_json(results).find("wfbp /x/plan.json") != std::string::npos);
}

TEST_CASE("results: each number stands under its own key") {
  const ordered_json entry = ordered_json::parse(results_json(example()))["results"][0];
  const ordered_json expected = ordered_json::parse(R"({"workers": 4, "schedule": "wfbp", "pipeline": "wfbp",
    "fusion": "none", "compression": "none", "groups": 2, "iteration_us": 25.0, "forward_us": 5.0, "backward_us": 9.0,
    "encode_us": 2.5, "decode_us": 1.5, "update_us": 0.5, "unoverlapped_input_us": 0.25, "communication_us": 16.0, "exposed_communication_us": 11.0,
    "bytes_sent_per_worker": 180.0, "throughput_samples_per_s": 333333.3333333333, "speedup": 2.24,
    "scaling_efficiency": 0.56})");
  CHECK(entry == expected);
}

TEST_CASE("results: without any entry the JSON still has its lists") {
  const ordered_json json = ordered_json::parse(results_json({.scenario = ""}));
  CHECK(json["warnings"] == ordered_json::array());
  CHECK(json["results"] == ordered_json::array());
}

TEST_CASE("results: the CSV has a header, a line an entry, and quotes what needs quoting") {
  CHECK(results_csv(example()) ==
        "workers,schedule,pipeline,fusion,compression,groups,iteration_us,forward_us,backward_us,encode_us,"
        "decode_us,"
        "update_us,unoverlapped_input_us,communication_us,exposed_communication_us,bytes_sent_per_worker,"
        "throughput_samples_per_s,speedup,scaling_efficiency\n"
        "4,wfbp,wfbp,none,none,2,25,5,9,2.5,1.5,0.5,0.25,16,11,180,333333.3333333333,2.24,0.56\n"
        "4,\"a, \"\"b\"\"\nc\",dear,layers,none,0,20,0,0,0,0,0,0,0,0,0,0,0,0\n");
}

TEST_CASE("results: only what needs quoting is quoted in the CSV") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", "plain"},   {"a,b", R"("a,b")"}, {R"(a"b)", R"("a""b")"},
      {"a\rb", "\"a\rb\""}, {"a b", "a b"},      {"", ""}};
  for (const auto& [text, cell] : cases) {
    Results results;
    results.entries.push_back({.schedule = text, .pipeline = "p", .fusion = "f"});
    CHECK(results_csv(results).find("\n1," + cell + ",p,f,") != std::string::npos);
  }
}

TEST_CASE("results: the table marks the fastest schedule of each number of workers") {
  Results results = example();
  results.entries[1].schedule = "dear-nl";
  results.entries.push_back({.schedule = "wfbp", .pipeline = "wfbp", .fusion = "none"});
  results.entries.back().metrics = {.workers = 16, .iteration_us = 99};
  const std::string table = results_table(results);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < table.size(); begin = table.find('\n', begin) + 1)
    lines.push_back(table.substr(begin, table.find('\n', begin) - begin));
  REQUIRE(lines.size() == 6);
  const std::vector<char> ends = {lines[1].back(), lines[2].back(), lines[3].back()};
  CHECK(ends == std::vector<char>{'%', '*', '*'});
  for (const std::string& line : lines) CHECK(line.back() != ' ');
  CHECK(lines[1].find("0.025") != std::string::npos);
  CHECK(lines[1].find("56.0 %") != std::string::npos);
}

TEST_CASE("results: extreme inputs give no NaN and no infinity, in any format") {
  struct Case {
    core::Profile profile;
    core::Network network;
    std::int64_t workers;
    planner::Conditions conditions;
  };
  const std::vector<Case> cases = {
      {support::profile_of({{1e-6, 0, {1}}}), support::link_of(0, 0), 1'000'000, {.iterations = 1}},
      {support::profile_of({{0, 1e-6, {1'000'000'000'000}}}), support::link_of(0, 1e-9), 2, {}},
      {support::profile_of({{1e11, 1e11, {1}}}), support::link_of(1e-9, 0), 1'000'000, {}},
      {support::profile_of({{1, 1, {1}}}), support::link_of(1, 0), 2, {.stragglers = {{0, 1e-6}, {1, 1e-6}}}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const support::Scene scene(cases[i].profile, cases[i].network, cases[i].workers, cases[i].conditions);
    for (const planner::Schedule& schedule : planner::lossless_schedules()) {
      CAPTURE(schedule.name);
      Results results;
      results.entries.push_back({.schedule = "s", .pipeline = "p", .fusion = "f"});
      results.entries.back().metrics = scene.run(schedule).metrics;
      for (const std::string& text : {results_csv(results), results_json(results), results_table(results)}) {
        CHECK(text.find("nan") == std::string::npos);
        CHECK(text.find("null") == std::string::npos);
        CHECK(text.find("inf") == std::string::npos);
      }
    }
  }
}

TEST_CASE("results: times that round to no time at all give finite numbers, or are refused") {
  for (const std::int64_t workers : {1, 2}) {
    try {
      const support::Scene scene(support::profile_of({{1e-9, 0, {1}}}), support::link_of(0, 0), workers);
      const planner::Metrics got = scene.run(planner::preset_schedule("wfbp")).metrics;
      CHECK(std::isfinite(got.throughput_samples_per_s));
      CHECK(std::isfinite(got.speedup));
      CHECK(std::isfinite(got.scaling_efficiency));
    } catch (const core::Unsupported& refused) {
      CHECK_FALSE(refused.expected().empty());
    }
  }
}

TEST_CASE("results: a plan's table tells its groups and what it saves") {
  planner::PlanFile plan;
  plan.model = "m";
  plan.workers = 8;
  plan.optimality = planner::Optimality::exact;
  plan.iteration_us = 20'000;
  plan.lower_bound_us = 19'000;
  plan.compared_with = {{"ddp", 25'000}};
  plan.groups = {{.tensors = {"fc.bias", "fc.weight"}, .bytes = 2'052'000},
                 {.tensors = {"conv1"}, .bytes = 37'600}};
  CHECK(plan_table(plan) ==
        "m on 8 workers, pipeline wfbp, ring all-reduce: 2 groups, 20.000 ms per iteration (exact: no other "
        "grouping is faster)\n\n"
        "group  tensors     size  in backward order\n"
        "    1        2   2.1 MB  fc.bias .. fc.weight\n"
        "    2        1  37.6 kB  conv1\n\n"
        "schedule                      iteration ms  this plan saves\n"
        "this plan                           20.000\n"
        "ddp                                 25.000           20.0 %\n"
        "lower bound of pipeline wfbp        19.000\n");
  plan.optimality = planner::Optimality::given;
  CHECK(plan_table(plan).find("20.000 ms per iteration (the schedule's own groups, not optimised)\n") !=
        std::string::npos);
}

TEST_CASE("results: the table of a plan without a prediction has no times") {
  planner::PlanFile plan;  // as fusewise import writes it
  plan.model = "m";
  plan.workers = 2;
  plan.groups = {{.tensors = {"fc.bias", "fc.weight"}, .bytes = 2'052'000}};
  CHECK(plan_table(plan) ==
        "m on 2 workers, pipeline wfbp, ring all-reduce: 1 group\n\n"
        "group  tensors    size  in backward order\n"
        "    1        2  2.1 MB  fc.bias .. fc.weight\n\n"
        "the plan holds no prediction: a scenario with the fusion {\"kind\": \"plan\", \"file\": PLAN} "
        "predicts its iteration time\n");
}

TEST_CASE("results: intervals stand beside the iteration, also in a narrow terminal") {
  Results results = example();
  results.entries[0].interval = planner::Interval{.low_us = 21, .high_us = 1026, .samples = 40};
  results.entries[1].schedule = "dear-nl";
  results.entries.push_back(results.entries[0]);
  results.entries[2].interval->samples = 200;
  const auto table = [&](std::size_t width) {
    const std::string text = results_table(results, width);
    return text.substr(0, text.find("iteration = "));
  };
  CHECK('\n' + table(0) == R"(
workers  schedule  groups  iteration ms  95 % interval ms  exposed ms  channel ms  samples/s  speedup  efficiency
      4  wfbp           2         0.025    0.021 to 1.026       0.011       0.016   333333.3     2.24      56.0 %
      4  dear-nl        0         0.020                 -       0.000       0.000        0.0     0.00       0.0 %  *
      4  wfbp           2         0.025    0.021 to 1.026       0.011       0.016   333333.3     2.24      56.0 %
)");
  CHECK('\n' + table(66) == R"(
workers  schedule  iteration   95 % interval  exposed  efficiency
      4  wfbp          0.025  0.021 to 1.026    0.011      56.0 %
      4  dear-nl       0.020               -    0.000       0.0 %  *
      4  wfbp          0.025  0.021 to 1.026    0.011      56.0 %
times in ms; a wider terminal or --csv shows speedup, channel, samples/s and groups, too
)");
  CHECK(results_table(results).ends_with(
      "* fastest\n95 % interval = of 40 to 200 iterations drawn from the spread of the inputs\n"));
}

TEST_CASE("results: workers that differ have a table of their own") {
  Results results = example();
  results.entries[1].schedule = "dear-nl";
  results.entries[0].by_worker =
      planner::WorkerReport{.iteration = {.p50_us = 20, .p95_us = 30, .p99_us = 40},
                            .waiting = {.mean_us = 10, .max_us = 15},
                            .waited_for = {{.worker = 3, .us = 30}},
                            .utilisation = {.links = {{.link = "rack 0 up", .share = 0.57}}},
                            .critical_path = planner::CriticalShares{.computing_us = 70,
                                                                     .communicating_us = 20,
                                                                     .untraced_us = 10,
                                                                     .senders = {{.worker = 2, .us = 5}}}};
  results.entries[1].by_worker = planner::WorkerReport{};
  const auto table = [&](std::size_t width) {
    const std::string text = results_table(results, width);
    return text.substr(text.find("\n\n") + 1);
  };
  CHECK(table(0) == R"(
workers  schedule  p50 ms  p95 ms  p99 ms  waiting ms  longest ms  for worker  critical path                                                         busiest link
      4  wfbp       0.020   0.030   0.040       0.010       0.015  3 (75 %)    20 % communication, 25 % of it messages of worker 2, 10 % not traced  rack 0 up 57 %
      4  dear-nl    0.000   0.000   0.000       0.000       0.000  -           -                                                                     -
p50, p95, p99 = of iterations; waiting = of a worker for others, in the mean and longest, and for whom most
)");
  CHECK(table(60).ends_with(R"(shows busiest link, critical path and for worker, too
p50, p95, p99 = of iterations; waiting = of a worker for others, in the mean and longest
)"));
  CHECK(table(80) == R"(
workers  schedule    p50    p95    p99  waiting  longest  for worker
      4  wfbp      0.020  0.030  0.040    0.010    0.015  3 (75 %)
      4  dear-nl   0.000  0.000  0.000    0.000    0.000  -
times in ms; a wider terminal or --json shows busiest link and critical path, too
p50, p95, p99 = of iterations; waiting = of a worker for others, in the mean and longest, and for whom most
)");
}

TEST_CASE("results: schedules that are not slower in nearly all samples are not ranked") {
  // a 20 us, b 25 us, c 30 us, whose intervals overlap
  Results results = example();
  results.entries[0].schedule = "b";
  results.entries[0].interval =
      planner::Interval{.low_us = 21, .high_us = 26, .samples = 40, .slower_share = 0.95};
  results.entries[1].schedule = "a";
  results.entries[1].interval = planner::Interval{.low_us = 19, .high_us = 29, .samples = 40};
  results.entries.push_back(results.entries[0]);
  results.entries[2].schedule = "c";
  results.entries[2].metrics.iteration_us = 30;
  results.entries[2].interval =
      planner::Interval{.low_us = 28, .high_us = 31, .samples = 40, .slower_share = 0.975};
  const auto mark = [&](const std::string& schedule) {
    const std::string table = results_table(results);
    const std::size_t begin = table.find("4  " + schedule + " ");
    REQUIRE(begin != std::string::npos);
    const std::size_t end = table.find('\n', begin);
    return table[end - 1];
  };
  CHECK(mark("a") == '=');
  CHECK(mark("b") == '=');
  CHECK(mark("c") == '%');  // the last column is empty
  CHECK(results_table(results).find("= not told apart") != std::string::npos);
  results.entries[0].interval->slower_share = 1;
  CHECK(mark("a") == '*');
  CHECK(mark("b") == '%');
  CHECK(results_table(results).find("= not told apart") == std::string::npos);
}

}  // namespace
}  // namespace scenarios
