// fusewise compare: what traces of a job measured beside what was predicted, or beside other traces.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/import_ranks.hpp"
#include "cli/output.hpp"
#include "core/chrome_trace.hpp"
#include "core/errors.hpp"
#include "planner/plan/plan_file.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/import.hpp"
#include "validate/compared/comparison.hpp"

namespace cli {
namespace {

struct Options {
  std::vector<std::string> traces;
  std::string plan;
  std::string profile;
  std::string network;
  std::string schedule;
  std::int64_t workers = 0;
  std::string group;
  std::int64_t rank = -1;
  std::string step = "ProfilerStep#";
  bool json = false;
};

/// The traces of one side with their report.
ranks::Report read_side(const std::vector<std::string>& names, const Options& options) {
  const Recordings recordings = recordings_of(names);
  if (recordings.kind != ranks::SourceKind::kineto && recordings.kind != ranks::SourceKind::nsys)
    throw core::InputError(
        fmt::format("{}: /: expected a trace of the PyTorch profiler or an SQLite export of Nsight Systems, "
                    "got another file",
                    core::one_line(recordings.files.front())));
  return ranks::make_report(read_ranks(recordings, options.step));
}

compared::Iteration measured(const ranks::Report& report, const Options& options) {
  return compared::measured(report, trace_of(report, options.rank), options.group);
}

void add(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  for (const std::string& warning : more)
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) warnings.push_back(warning);
}

/// The profile and the network that a plan does not hold: given, or imported from the traces.
struct Inputs {
  std::string profile;  ///< JSON: an object, or the path of a file
  std::string network;
};

std::string file_name(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

std::string path_json(const std::string& file) {
  return core::json_string(std::filesystem::absolute(file).string());
}

Inputs inputs_of(const ranks::Report& report, const Options& options, std::vector<std::string>& warnings) {
  Inputs out;
  if (!options.profile.empty()) out.profile = path_json(options.profile);
  if (!options.network.empty()) out.network = path_json(options.network);
  if (!out.profile.empty() && !out.network.empty()) return out;
  const ranks::RankTrace& trace = trace_of(report, options.rank);
  const kineto::Imported imported = kineto::import_trace(trace.path, {.batch_size = 1}, options.step);
  if (out.profile.empty()) {
    out.profile = core::profile_text(imported.profile);
    warnings.emplace_back("the prediction uses the profile of the trace itself; --profile names another");
  }
  if (!out.network.empty()) return out;
  const auto rank = static_cast<std::size_t>(&trace - report.job.ranks.data());
  const std::optional<std::size_t> group = ranks::gradient_group(report, rank, options.group);
  const traces::Measurements measured =
      group ? ranks::measurements_of(report, *group) : traces::Measurements{};
  if (measured.series.empty())
    throw core::InputError(fmt::format(
        "{}: /: expected collectives of known sizes, or --network, got neither", core::one_line(trace.path)));
  out.network = core::network_text(network_of_group(report, measured, "", 0));
  add(warnings, traces::curve_warnings(measured.series));
  warnings.emplace_back("the prediction uses the network of the traces themselves; --network names another");
  return out;
}

scenarios::Scenario scenario_of_plan(const core::Field& field, const ranks::Report& report,
                                     const Options& options, std::vector<std::string>& warnings) {
  const planner::PlanFile plan = planner::read_plan_file(field);
  const Inputs inputs = inputs_of(report, options, warnings);
  const std::string text = fmt::format(
      R"({{"format": "fusewise.scenario", "version": 1, "name": {}, "profile": {}, "network": {}, "workers": {}, )"
      R"("schedules": [{{"pipeline": "{}", "fusion": {{"kind": "plan", "file": {}}}}}]}})",
      core::json_string(file_name(options.plan)), inputs.profile, inputs.network, plan.workers, plan.pipeline,
      path_json(options.plan));
  return scenarios::read_scenario(core::Field::parse(text, options.plan));
}

const planner::Schedule& schedule_of(const scenarios::Scenario& scenario, const std::string& name) {
  std::string known;
  for (const planner::Schedule& schedule : scenario.schedules) {
    if (name.empty() || schedule.name == name) return schedule;
    known += (known.empty() ? "" : ", ") + core::printable(schedule.name);
  }
  throw core::InputError(
      fmt::format("--schedule: expected one of the scenario's ({}), got '{}'", known, core::printable(name)));
}

compared::Iteration predicted(const ranks::Report& report, const Options& options,
                              std::vector<std::string>& warnings) {
  const core::Field field = core::Field::load(options.plan);
  const bool is_plan = field.at("format").one_of({"fusewise.plan", "fusewise.scenario"}) == "fusewise.plan";
  const scenarios::Scenario scenario =
      is_plan ? scenario_of_plan(field, report, options, warnings) : scenarios::read_scenario(field);
  const std::int64_t workers = options.workers > 0 ? options.workers : scenario.workers.front();
  compared::Iteration out = compared::predicted(scenario, schedule_of(scenario, options.schedule), workers);
  if (is_plan) out.source = fmt::format("{} on {} workers", core::printable(scenario.name), workers);
  return out;
}

void show(compared::Comparison comparison, const std::vector<std::string>& warnings, bool json) {
  add(comparison.warnings, warnings);
  print_warnings(comparison.warnings);
  print(json ? comparison_json(comparison) : comparison_text(comparison));
}

void compare(const Options& options) {
  std::vector<std::string> warnings;
  if (!options.plan.empty()) {
    const ranks::Report report = read_side(options.traces, options);
    compared::Iteration first = predicted(report, options, warnings);
    add(warnings, report.warnings);
    return show(compared::compare("predicted", std::move(first), "measured", measured(report, options)),
                warnings, options.json);
  }
  if (options.traces.size() != 2)
    throw core::InputError(fmt::format(
        "TRACE: expected --plan, or two traces or folders (before and after), got {} without --plan",
        options.traces.size()));
  compared::Iteration sides[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const ranks::Report report = read_side({options.traces[i]}, options);
    sides[i] = measured(report, options);
    sides[i].source = file_name(options.traces[i]) + ": " + sides[i].source;
    add(warnings, report.warnings);
  }
  show(compared::compare("before", std::move(sides[0]), "after", std::move(sides[1])), warnings,
       options.json);
}

}  // namespace

void add_compare(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("compare", "Compare traces of a job with a prediction, or with other traces");
  command.footer(
      "Example: fusewise compare rank0.json rank1.json --plan job.plan.json\n"
      "         fusewise compare before.json after.json");
  command
      .add_option(
          "TRACE", options->traces,
          "traces of the ranks of one job, or a folder with them; without --plan two of either, before and "
          "after a change")
      .required();
  const Option plan = command.add_option("--plan", options->plan,
                                         "what was predicted: a fusewise.plan, or a fusewise.scenario");
  command
      .add_option("--profile", options->profile,
                  "profile for a plan (default: imported from the trace that is compared)")
      .needs(plan);
  command.add_option("--network", options->network, "network for a plan (default: measured by the traces)")
      .needs(plan);
  command
      .add_option("--schedule", options->schedule, "name of the schedule of a scenario (default: its first)")
      .needs(plan);
  command
      .add_option("--workers", options->workers,
                  "number of workers (default: the plan's, or the scenario's first)")
      .needs(plan)
      .check(range<std::int64_t>(1, 1'000'000));
  command.add_option(
      "--group", options->group,
      "process group that sums gradients, by name or description (default: the one that sums most)");
  command.add_option("--rank", options->rank, "rank whose iteration is compared (default: the lowest)")
      .check(range<std::int64_t>(0, 999'999));
  command.add_option("--step", options->step, "prefix of the annotations that mark the iterations of a trace")
      .show_default();
  command.add_flag("--json", options->json, "print the comparison as JSON");
  command.on_run([options] { compare(*options); });
}

}  // namespace cli
