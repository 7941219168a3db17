#include "planner/report/report.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/job/registry.hpp"
#include "planner/report/compact_timeline.hpp"
#include "planner/report/knee.hpp"
#include "planner/report/page.hpp"
#include "planner/scenarios/default_schedule.hpp"
#include "planner/scenarios/divided_plan.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/sweep/point.hpp"

namespace report {
namespace {

using nlohmann::ordered_json;
using scenarios::Entry;
using scenarios::Results;
using scenarios::Scenario;

// ---- what holds for every kind of report

ordered_json json_of(const std::vector<Knee>& all) {
  ordered_json out = ordered_json::array();
  for (const Knee& knee : all)
    out.push_back({{"schedule", knee.schedule}, {"workers", knee.workers}, {"is_passed", knee.is_passed}});
  return out;
}

std::vector<std::int64_t> worker_counts(const Results& results) {
  std::vector<std::int64_t> out;
  for (const Entry& entry : results.entries) out.push_back(entry.metrics.workers);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string knee_line(const Knee& knee, std::int64_t min, std::int64_t max) {
  if (!knee.is_passed)
    return fmt::format(
        "Under {} every added worker adds at least half of the throughput of a single worker, up to the {} "
        "workers that were simulated: the knee lies beyond.",
        knee.schedule, max);
  if (knee.workers < min)
    return fmt::format(
        "Under every schedule even the first {} workers add less than half of the throughput of a single "
        "worker each: the knee lies below.",
        min);
  return fmt::format(
      "Knee: under {} every added worker adds at least half of the throughput of a single worker up to {} "
      "workers, and less beyond.",
      knee.schedule, knee.workers);
}

/// The iteration at a knee; 0 if the knee lies below all simulated numbers of workers.
double iteration_us(const Results& results, const Knee& knee) {
  for (const Entry& entry : results.entries)
    if (entry.metrics.workers == knee.workers && entry.schedule == knee.schedule)
      return entry.metrics.iteration_us;
  return 0;
}

/// The knee of most workers; among equal ones that of the fastest schedule there.
const Knee& last_knee(const Results& results, const std::vector<Knee>& all) {
  return *std::ranges::max_element(all, [&](const Knee& a, const Knee& b) {
    return a.workers != b.workers ? a.workers < b.workers
                                  : iteration_us(results, a) > iteration_us(results, b);
  });
}

/// The smallest number of workers that communicate.
std::int64_t first_above_one(const std::vector<std::int64_t>& counts) {
  return counts.front() > 1 || counts.size() == 1 ? counts.front() : counts[1];
}

/// Writes the most important findings as sentences.
std::vector<std::string> advice(const Results& results, const std::vector<Knee>& all) {
  const std::vector<std::int64_t> counts = worker_counts(results);
  const Entry& best = scenarios::fastest(results.entries, counts.back());
  std::vector<std::string> alike, not_told_apart;
  for (const Entry& entry : results.entries) {
    if (entry.metrics.workers != counts.back() || entry.schedule == best.schedule) continue;
    if (scenarios::is_as_fast(entry, best))
      not_told_apart.push_back(
          fmt::format("{} ({:.3f} ms)", entry.schedule, entry.metrics.iteration_us / 1e3));
    else if (entry.metrics.iteration_us <= best.metrics.iteration_us * (1 + 1e-9))
      alike.push_back(entry.schedule);
  }
  std::vector<std::string> out = {fmt::format(
      "On {} workers {}{} is {}: {:.3f} ms per iteration, {:.1f} samples/s, a scaling "
      "efficiency of {:.1f} %.{}",
      counts.back(), best.schedule, alike.empty() ? "" : fmt::format(" (like {})", fmt::join(alike, ", ")),
      not_told_apart.empty() ? "the fastest" : "predicted to be the fastest", best.metrics.iteration_us / 1e3,
      best.metrics.throughput_samples_per_s, 100 * best.metrics.scaling_efficiency,
      not_told_apart.empty() ? ""
                             : fmt::format(" As the inputs are known, it is not told apart from {}.",
                                           fmt::join(not_told_apart, ", ")))};
  if (counts.size() < 2) return out;
  const Knee& knee = last_knee(results, all);
  out.push_back(knee_line(knee, counts.front(), counts.back()));
  const std::int64_t cheapest = first_above_one(counts);
  std::string tests = fmt::format(
      "Worth a test run: {} workers, which shows for the least money whether profile and network are right",
      cheapest);
  if (knee.workers > cheapest)
    tests += fmt::format("; and {} workers, {}, which decides how many to use", knee.workers,
                         knee.is_passed ? "the knee" : "the largest number simulated");
  out.push_back(tests + ".");
  return out;
}

void add_results(const Results& results, Report& out) {
  const std::vector<Knee> all = knees(results);
  out.warnings = results.warnings;
  out.data["warnings"] = results.warnings;
  out.data["advice"] = advice(results, all);
  const ordered_json document = ordered_json::parse(scenarios::results_json(results));
  out.data["results"] = document["results"];
  if (document.contains("jobs")) out.data["jobs"] = document["jobs"];
  out.data["knees"] = json_of(all);
}

// ---- scenarios

std::string about(const Scenario& scenario) {
  std::vector<std::string> collectives;
  for (const planner::Algorithm& each : scenarios::all_reduces(scenario)) collectives.push_back(each.name);
  if (collectives.empty()) collectives.push_back(scenario.all_reduce.name);
  return fmt::format("{} (batch {}, {}) on network {}; {} all-reduce. Profile: {}. Network: {}.",
                     scenario.profile.model, scenario.profile.batch_size, scenario.profile.device,
                     scenario.network.name, fmt::join(collectives, " or "), scenario.profile.origin.source,
                     scenario.network.origin.source);
}

/// The knee of the planned schedule, or the largest number of workers if the knee lies beyond. If it lies
/// below all of them, the last knee of all schedules, and if that lies below too, the smallest number
/// above 1.
std::int64_t chosen_workers(const Results& results, const Options& options) {
  if (options.workers > 0) return options.workers;
  const std::vector<std::int64_t> counts = worker_counts(results);
  const std::vector<Knee> all = knees(results);
  const auto planned = std::ranges::find(all, options.schedule.name, &Knee::schedule);
  const bool is_inside = planned != all.end() && planned->workers >= counts.front();
  return std::max(is_inside ? planned->workers : last_knee(results, all).workers, first_above_one(counts));
}

/// The smallest, the planned and the largest number of workers.
std::vector<std::int64_t> timeline_workers(const Results& results, std::int64_t planned) {
  const std::vector<std::int64_t> counts = worker_counts(results);
  std::vector<std::int64_t> out = {counts.front(), planned, counts.back()};
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// Adds the timelines. Where the page would become too large, the shortest tasks are joined, in all timelines
/// up to the same length.
void add_timelines(const Scenario& scenario, const std::vector<std::int64_t>& workers, Report& out) {
  std::vector<std::pair<std::int64_t, scenarios::WorkerTimeline>> all;
  for (const std::int64_t count : workers)
    for (scenarios::WorkerTimeline& timeline : scenarios::timelines(scenario, count))
      all.emplace_back(count, std::move(timeline));
  const auto write_timelines = [&](int step) {  // returns whether the page is small enough
    std::optional<sim::Time> longest;
    if (step > 0) longest = sim::from_us(std::pow(1.2, step));
    Texts texts;
    ordered_json timelines = ordered_json::array();
    for (const auto& [count, timeline] : all) {
      ordered_json item = {{"workers", count}};
      item.update(compact(timeline, longest, texts));
      timelines.push_back(std::move(item));
    }
    out.data["timelines"] = std::move(timelines);
    out.data["texts"] = texts.all();
    return page(out.title, out.data).size() <= kMaxPageBytes;
  };
  if (write_timelines(0)) return;
  int too_large = 0, small = 120;  // which joins whatever takes less than 50 minutes
  while (small - too_large > 1) {
    const int middle = (too_large + small) / 2;
    (write_timelines(middle) ? small : too_large) = middle;
  }
  write_timelines(small);
}

/// The plan in the words of every framework, or why a framework cannot have it.
ordered_json emissions(const std::function<void(const std::string& what)>& on_step,
                       const std::function<planner::Emission(const std::string& target)>& emission) {
  ordered_json out = ordered_json::array();
  for (const planner::Emitter& emitter : planner::emitters()) {
    on_step(fmt::format("the plan as {} takes it", emitter.name));
    if (emitter.name == "json") continue;
    ordered_json item = {{"target", emitter.name}, {"summary", emitter.summary}};
    try {
      item["text"] = emission(std::string(emitter.name)).text;
    } catch (const core::InputError& error) {
      item["problem"] = error.what();
    }
    out.push_back(std::move(item));
  }
  return out;
}

/// None for jobs that are too large to be explained.
std::optional<scenarios::StageExplanation> stage_explanation_of(
    const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
    const std::function<void(std::size_t total, const std::string& what)>& on_step) {
  try {
    return scenarios::divided_plan(scenario, workers, schedule,
                                   {.explain = true, .combine = true, .progress = on_step})
        .explanation;
  } catch (const core::InputError&) {
    return std::nullopt;
  }
}

ordered_json plan_of(const Scenario& scenario, std::int64_t workers, const Options& options) {
  const planner::Schedule schedule = options.is_default
                                         ? scenarios::default_schedule(scenario, workers, options.schedule)
                                         : options.schedule;
  ordered_json out = {{"workers", workers}, {"schedule", schedule.name}};
  std::size_t total = 0;
  const auto on_step = [&](std::size_t explaining, const std::string& what) {
    total = explaining;
    if (options.steps) options.steps(total + planner::emitters().size(), what);
  };
  try {
    if (scenario.parallel) {
      out["stages"] = ordered_json::parse(
          scenarios::divided_plan_json(scenarios::divided_plan(scenario, workers, schedule)));
      if (const auto explanation = stage_explanation_of(scenario, workers, schedule, on_step))
        out["explanation"] = ordered_json::parse(scenarios::stage_explanation_json(*explanation));
      out["emissions"] =
          emissions([&](const std::string& what) { on_step(total, what); },
                    [&](const std::string& target) {
                      return *scenarios::divided_plan(scenario, workers, schedule, {.emit = target}).emission;
                    });
      return out;
    }
    const bool groups_tensors = !planner::goes_by_layer(schedule);
    const scenarios::Planned planned =
        scenarios::plan(scenario, workers, schedule,
                        {.emit = {}, .explain = groups_tensors, .combine = true, .progress = on_step});
    out["document"] = ordered_json::parse(planner::plan_text(planned.plan));
    if (planned.explanation)
      out["explanation"] = ordered_json::parse(planner::explanation_json(*planned.explanation));
    if (groups_tensors)
      out["emissions"] =
          emissions([&](const std::string& what) { on_step(total, what); },
                    [&](const std::string& target) {
                      return *scenarios::plan(scenario, workers, schedule, {.emit = target}).emission;
                    });
  } catch (const core::InputError& error) {
    out["problem"] = error.what();
  }
  return out;
}

ordered_json sweep_of(const Scenario& scenario) {
  const sweep::Sweep all = sweep::read_sweep(scenario.file);
  ordered_json axes = ordered_json::array();
  for (const sweep::Axis& axis : all.axes) {
    ordered_json values = ordered_json::array();
    for (std::size_t i = 0; i < axis.values.size(); ++i) values.push_back(sweep::text(axis, i));
    axes.push_back({{"name", sweep::name(axis.quantity)}, {"values", std::move(values)}});
  }
  ordered_json schedules = ordered_json::array();
  for (const planner::Schedule& schedule : all.base.schedules) schedules.push_back(schedule.name);
  axes.push_back({{"name", "schedule"}, {"values", std::move(schedules)}});
  ordered_json out = {{"axes", std::move(axes)}};
  if (all.points > kMaxSweepPoints) {
    out["problem"] = fmt::format(
        "The sweep has {} points, and a report computes at most {}: fusewise sweep writes rows, of which a "
        "report shows up to {}.",
        all.points, kMaxSweepPoints, kMaxSweepRows);
    return out;
  }
  sweep::Computer computer(all, sweep::Rows::json_lines);
  for (std::size_t point = 0; point < all.points; ++point) {
    const auto row = nlohmann::json::parse(computer.compute(point).row);
    for (const std::string_view key : kSweepNumbers)
      out[std::string(key)].push_back(row.at(std::string(key)).get<double>());
  }
  return out;
}

// ---- measurements

/// A case of an accuracy file, as far as it was measured.
std::optional<ordered_json> measured_case(const core::Field& field) {
  const std::string verdict = field.at("verdict").one_of({"passed", "failed", "not judged"});
  ordered_json out = {
      {"group", field.at("group").text()}, {"case", field.at("plan").text()}, {"verdict", verdict}};
  if (const auto why = field.find("not_judged_because")) out["not_judged_because"] = why->text();
  constexpr double kMax = std::numeric_limits<double>::max();
  out["predicted_us"] = field.at("predicted_us").number(0, kMax);
  const auto measured = field.find("measured_us");
  if (!measured) return std::nullopt;
  out["measured_us"] = measured->number(0, kMax);
  const std::vector<core::Field> interval = field.at("interval_us").items();
  if (interval.size() != 2) field.at("interval_us").expected("two times");
  out["interval_us"] = {interval[0].number(0, kMax), interval[1].number(0, kMax)};
  return out;
}

constexpr double kMaxNumber = std::numeric_limits<double>::max();

ordered_json collective_of(const core::Field& field) {
  field.allow_only({"collective", "bytes", "start_us", "end_us", "exposed_us", "waiting_us"});
  ordered_json out = {{"collective", field.at("collective").text()}};
  if (const auto bytes = field.find("bytes")) out["bytes"] = bytes->number(0, kMaxNumber);
  for (const char* key : {"start_us", "end_us", "exposed_us", "waiting_us"})
    out[key] = field.at(key).number(0, kMaxNumber);
  return out;
}

ordered_json side_of(const core::Field& field) {
  ordered_json out = {{"name", field.at("name").one_of({"predicted", "measured", "before", "after"})},
                      {"source", field.at("source").text()}};
  for (const char* key : {"iteration_us", "computing_us", "copies_us", "idle_us", "exposed_us", "waiting_us",
                          "other_exposed_us"})
    out[key] = field.at(key).number(0, kMaxNumber);
  if (!(out["iteration_us"] > 0)) field.at("iteration_us").expected("a number above 0", "0");
  out["collectives"] = ordered_json::array();
  for (const core::Field& each : field.at("collectives").items())
    out["collectives"].push_back(collective_of(each));
  out["computing"] = ordered_json::array();
  for (const core::Field& each : field.at("computing").items()) {
    const std::vector<core::Field> ends = each.items();
    if (ends.size() != 2) each.expected("a start and an end");
    out["computing"].push_back({ends[0].number(0, kMaxNumber), ends[1].number(0, kMaxNumber)});
  }
  return out;
}

}  // namespace

Report of_comparison(const core::Field& file) {
  file.check_format("fusewise.comparison");
  file.allow_only({"format", "version", "warnings", "sides", "same_buckets", "differences"});
  const std::vector<core::Field> sides = file.at("sides").items();
  if (sides.size() != 2) file.at("sides").expected("two sides");
  ordered_json comparison = {{"sides", {side_of(sides[0]), side_of(sides[1])}},
                             {"same_buckets", file.at("same_buckets").boolean()},
                             {"differences", ordered_json::array()}};
  for (const core::Field& each : file.at("differences").items()) {
    each.allow_only({"what", "first_us", "second_us", "difference_us"});
    comparison["differences"].push_back(
        {{"what", each.at("what").text()},
         {"first_us", each.at("first_us").number(0, kMaxNumber)},
         {"second_us", each.at("second_us").number(0, kMaxNumber)},
         {"difference_us", each.at("difference_us").number(-kMaxNumber, kMaxNumber)}});
  }
  const std::string first = comparison["sides"][0]["name"], second = comparison["sides"][1]["name"];
  const std::string names = second == "measured" ? fmt::format("{} and {}", second, first)  // as it is drawn
                                                 : fmt::format("{} and {}", first, second);
  Report out = {.title = "An iteration, " + names, .data = {}, .warnings = {}};
  out.data = {{"title", out.title}, {"kind", "comparison"}, {"comparison", std::move(comparison)}};
  for (const core::Field& warning : file.at("warnings").items()) out.warnings.push_back(warning.text());
  if (!out.warnings.empty()) out.data["warnings"] = out.warnings;
  return out;
}

Report of_scenario(const Scenario& scenario, const Options& options) {
  const Results results =
      scenarios::run(scenario, {.progress = options.progress, .changes = {}, .samples = {}});
  Report out = {
      .title = scenario.name.empty() ? "fusewise report" : scenario.name, .data = {}, .warnings = {}};
  out.data = {{"title", out.title}, {"kind", "scenario"}, {"about", about(scenario)}};
  add_results(results, out);
  const std::int64_t workers = chosen_workers(results, options);
  out.data["plan"] = plan_of(scenario, workers, options);
  if (scenario.file.has("sweep")) out.data["sweep"] = sweep_of(scenario);
  add_timelines(scenario, timeline_workers(results, workers), out);
  return out;
}

Report of_results(const core::Field& file) {
  const Results results = read_results(file);
  Report out = {
      .title = results.scenario.empty() ? "fusewise report" : results.scenario, .data = {}, .warnings = {}};
  out.data = {{"title", out.title}, {"kind", "results"}};
  add_results(results, out);
  return out;
}

Report of_sweep(const std::string& file, std::size_t rows, ordered_json sweep) {
  Report out = {.title = "Sweep " + file, .data = {}, .warnings = {}};
  out.data = {{"title", out.title},
              {"kind", "sweep"},
              {"about", fmt::format("{} points that fusewise sweep has computed.", rows)},
              {"sweep", std::move(sweep)}};
  return out;
}

Report of_accuracy(const core::Field& file) {
  file.check_format("fusewise.accuracy");
  ordered_json cases = ordered_json::array();
  for (const core::Field& each : file.at("cases").non_empty_items())
    if (const auto measured = measured_case(each)) cases.push_back(*measured);
  if (cases.empty()) file.at("cases").expected("a case that was measured", "none");
  Report out = {.title = fmt::format("Accuracy of {}", file.at("suite").text()), .data = {}, .warnings = {}};
  out.data = {{"title", out.title},
              {"kind", "accuracy"},
              {"about", fmt::format("Measured {} on {}.", file.at("date").text(), file.at("machine").text())},
              {"accuracy", std::move(cases)}};
  return out;
}

}  // namespace report
