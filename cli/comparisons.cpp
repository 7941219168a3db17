#include "cli/comparisons.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "cli/bundled.hpp"
#include "cli/chosen_schedule.hpp"
#include "cli/import_ranks.hpp"
#include "cli/input.hpp"
#include "cli/measured_iteration.hpp"
#include "core/chrome_trace.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/printable.hpp"
#include "core/quantities.hpp"
#include "planner/plan/plan_file.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/import.hpp"

namespace cli {
namespace {

/// Throws InputError if the file cannot be read, with the reason.
void check_readable(const std::string& file) {
  try {
    (void)core::open_input(file);
  } catch (const core::ReadError&) {
    (void)read_text(file);
  }
}

/// The traces of one side with their report.
ranks::Report read_side(const std::vector<std::string>& names, const CompareOptions& options) {
  const Recordings recordings = recordings_of(names);
  const std::string& first = recordings.files.front();
  if (recordings.kind == ranks::SourceKind::log) check_readable(first);
  if (recordings.kind != ranks::SourceKind::kineto && recordings.kind != ranks::SourceKind::nsys)
    throw core::InputError(
        fmt::format("{}: /: expected a trace of the PyTorch profiler or an SQLite export of Nsight Systems, "
                    "got another file",
                    core::one_line(first)));
  return ranks::make_report(read_ranks(recordings, options.step));
}

compared::Iteration measured(const ranks::Report& report, const CompareOptions& options) {
  return compared::measured(report, trace_of(report, options.rank), options.group);
}

void add(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  for (const std::string& warning : more)
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
}

/// The profile and the network that a plan does not hold: given, or imported from the traces.
struct Inputs {
  std::string profile;  ///< JSON: an object, or the path of a file
  std::string network;
  double exchange_us = 0;  ///< see compared::predicted(); 0 if the profile was given
};

std::string file_name(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

/// What a scenario holds for an option: the path of a file, or the name of what comes with the program.
std::string path_or_name_json(const std::string& file) {
  std::error_code none;
  if (is_name(file) && !std::filesystem::exists(file, none)) return core::json_string(file);
  return core::json_string(std::filesystem::absolute(file).string());
}

/// The curves of the collectives that sum gradients; none if there are no such collectives.
std::optional<core::Network> curves_of(const ranks::Report& report, const ranks::RankTrace& trace,
                                       const CompareOptions& options, std::vector<std::string>& warnings) {
  const auto rank = static_cast<std::size_t>(&trace - report.job.ranks.data());
  const std::optional<std::size_t> group = ranks::gradient_group(report, rank, options.group);
  const traces::Measurements measured =
      group ? ranks::measurements_of(report, *group) : traces::Measurements{};
  if (measured.series.empty()) return {};
  add(warnings, traces::curve_warnings(measured.series));
  return network_of_group(report, measured, "", 0);
}

core::Network measured_network(const ranks::Report& report, const ranks::RankTrace& trace,
                               const CompareOptions& options, std::vector<std::string>& warnings) {
  auto curves = curves_of(report, trace, options, warnings);
  if (!curves)
    throw core::InputError(fmt::format(
        "{}: /: expected collectives of known sizes, or --network, got neither", core::one_line(trace.path)));
  warnings.emplace_back("the prediction uses the network of the traces themselves; --network names another");
  return *std::move(curves);
}

/// The trace as `import` reads it, with the waiting of its rank, and of transfers behind that, as there.
kineto::Imported imported_with_waiting(const ranks::Report& report, const ranks::RankTrace& trace,
                                       const CompareOptions& options) {
  kineto::Imported out = kineto::import_trace(trace.path, {.batch_size = 1}, options.step);
  const auto rank = static_cast<std::size_t>(&trace - report.job.ranks.data());
  const std::optional<std::size_t> group = ranks::gradient_group(report, rank, options.group);
  if (!out.profile.iteration || !group) return out;
  out.profile.iteration->waiting_us = 0;
  const std::optional<double> waiting_us = ranks::waiting_us(report, rank, *group);
  if (!waiting_us) return out;
  kineto::take_for_waiting(out, ranks::constant_waiting_us(report, rank, *group));
  std::vector<std::string> said_elsewhere;
  scenarios::replay(out.profile, curves_of(report, trace, options, said_elsewhere),
                    measured_iteration(out, kineto::exposed_waiting_us(out, *waiting_us)));
  return out;
}

/// Whether gradients travel in all-gathers, encoded, or in shards that all workers hold together.
bool needs_no_sum(const planner::PlanFile& plan) {
  const auto is_gathered = [](const planner::Compressor& compressor) {
    return compressor.collective == core::CollectiveKind::all_gather;
  };
  return is_gathered(plan.compressor) || plan.options.shard_workers.value_or(0) >= plan.workers ||
         std::ranges::any_of(plan.groups, [&](const planner::PlanGroup& group) {
           return group.transfer.compressor && is_gathered(*group.transfer.compressor);
         });
}

/// Throws InputError if a plan sends all-reduces and the traces have none, from which nothing else is
/// derived.
void check_all_reduces(const planner::PlanFile& plan, const core::Network& network,
                       const std::string& trace) {
  if (needs_no_sum(plan)) return;
  std::string known;
  for (const core::Measured& each : network.measured) {
    if (each.collective == core::CollectiveKind::all_reduce) return;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", core::name(each.collective));
  }
  const planner::Program program = planner::pipeline(plan.pipeline).program(1, plan.options);
  if (std::ranges::none_of(program.ops,
                           [](const planner::Op& op) { return op.kind == core::CollectiveKind::all_reduce; }))
    return;
  throw core::InputError(
      fmt::format("{}: /: expected all-reduces, which a plan with the pipeline {} sends, got {} alone, as of "
                  "FSDP or ZeRO; compare a plan with their pipeline, or give a network that has all-reduces "
                  "(--network)",
                  core::one_line(trace), plan.pipeline, known));
}

Inputs inputs_of(const ranks::Report& report, const planner::PlanFile& plan, const CompareOptions& options,
                 std::vector<std::string>& warnings) {
  Inputs out;
  if (!options.profile.empty()) out.profile = path_or_name_json(options.profile);
  if (!options.network.empty()) out.network = path_or_name_json(options.network);
  if (!out.profile.empty() && !out.network.empty()) return out;
  const ranks::RankTrace& trace = trace_of(report, options.rank);
  if (out.profile.empty()) {
    const kineto::Imported imported = imported_with_waiting(report, trace, options);
    out.profile = core::profile_text(imported.profile);
    out.exchange_us = imported.exchange_us;
    warnings.emplace_back("the prediction uses the profile of the trace itself; --profile names another");
  }
  if (!out.network.empty()) return out;
  const core::Network network = measured_network(report, trace, options, warnings);
  check_all_reduces(plan, network, trace.path);
  out.network = core::network_text(network);
  return out;
}

scenarios::Scenario scenario_of_plan(const core::Field& field, const planner::PlanFile& plan,
                                     const Inputs& inputs, const CompareOptions& options) {
  const std::string text = fmt::format(
      R"({{"format": "fusewise.scenario", "version": 1, "name": {}, "profile": {}, "network": {}, "workers": {}}})",
      core::json_string(file_name(options.plan)), inputs.profile, inputs.network, plan.workers);
  scenarios::Scenario out = scenarios::read_scenario(core::Field::parse(text, options.plan));
  out.schedules = {schedule_of_plan(plan, field, file_name(options.plan))};
  out.conditions.data_types = plan.data_types;
  out.conditions.recompute = plan.recompute;  // of which the profile has the times
  return out;
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

compared::Iteration predicted(const ranks::Report& report, const CompareOptions& options,
                              std::vector<std::string>& warnings) {
  const core::Field field = core::Field::load(options.plan);
  constexpr std::string_view kFormats[] = {"fusewise.plan", "fusewise.scenario"};
  const bool is_plan = format_of(field, kFormats) == "fusewise.plan";
  const planner::PlanFile plan = is_plan ? planner::read_plan_file(field) : planner::PlanFile();
  const Inputs inputs = is_plan ? inputs_of(report, plan, options, warnings) : Inputs();
  const scenarios::Scenario scenario =
      is_plan ? scenario_of_plan(field, plan, inputs, options) : scenarios::read_scenario(field);
  const std::int64_t workers = options.workers > 0 ? options.workers : scenario.workers.front();
  compared::Iteration out =
      compared::predicted(scenario, schedule_of(scenario, options.schedule), workers, inputs.exchange_us);
  add(warnings, scenario.warnings);
  add(warnings, out.warnings);
  if (is_plan)
    out.source = fmt::format("{} on {}", core::printable(scenario.name), core::counted(workers, "worker"));
  return out;
}

/// The iteration that a trace's own profile and collectives predict.
compared::Iteration predicted_from_trace(const ranks::Report& report, const CompareOptions& options,
                                         std::vector<std::string>& warnings) {
  const ranks::RankTrace& trace = trace_of(report, options.rank);
  const kineto::Imported imported = imported_with_waiting(report, trace, options);
  const core::Network network = curves_of(report, trace, options, warnings)
                                    .value_or(core::Network{.name = "none", .link = core::Link{}});
  const scenarios::Scenario scenario =
      scenarios::repeated(imported.profile, network, measured_iteration(imported));
  if (!imported.sharded.warning.empty()) add(warnings, {imported.sharded.warning});
  const planner::Schedule& schedule = scenario.schedules.front();
  const std::int64_t workers = scenario.workers.front();
  compared::Iteration out = compared::predicted(scenario, schedule, workers, imported.exchange_us);
  add(warnings, out.warnings);
  out.source = fmt::format("the profile and the collectives of the trace itself, {} on {}",
                           core::printable(schedule.name), core::counted(workers, "worker"));
  return out;
}

/// Two ranks of one job are no measurement before and after a change.
void check_same_rank(const std::vector<ranks::RankTrace>& before,
                     const std::vector<ranks::RankTrace>& after) {
  if (before.size() != 1 || after.size() != 1) return;
  const ranks::RankTrace& first = before.front();
  const ranks::RankTrace& second = after.front();
  if (first.rank < 0 || second.rank < 0 || first.rank == second.rank) return;
  if (first.world_size != second.world_size) return;
  throw core::InputError(fmt::format(
      "{}: /: expected a trace of rank {}, as {} before the change, got one of rank {} (fusewise compare "
      "FOLDER takes the traces of one job; --plan FILE takes them as several files, too)",
      core::one_line(second.path), first.rank, core::one_line(first.path), second.rank));
}

compared::Comparison before_and_after(const CompareOptions& options, std::vector<std::string>& warnings) {
  const ranks::Report reports[2] = {read_side({options.traces[0]}, options),
                                    read_side({options.traces[1]}, options)};
  check_same_rank(reports[0].job.ranks, reports[1].job.ranks);
  compared::Iteration sides[2];
  for (std::size_t i = 0; i < 2; ++i) {
    const ranks::Report& report = reports[i];
    sides[i] = measured(report, options);
    sides[i].source = file_name(options.traces[i]) + ": " + sides[i].source;
    add(warnings, report.warnings);
  }
  return compared::compare("before", std::move(sides[0]), "after", std::move(sides[1]));
}

}  // namespace

compared::Comparison comparison_of(const CompareOptions& options) {
  std::vector<std::string> warnings;
  compared::Comparison out;
  if (options.plan.empty() && options.traces.size() == 2) {
    out = before_and_after(options, warnings);
  } else {
    if (options.plan.empty() && options.traces.size() != 1)
      throw core::InputError(fmt::format(
          "TRACE: expected --plan, or one trace or folder, or two (before and after), got {} without "
          "--plan",
          options.traces.size()));
    const ranks::Report report = read_side(options.traces, options);
    compared::Iteration first = options.plan.empty() ? predicted_from_trace(report, options, warnings)
                                                     : predicted(report, options, warnings);
    add(warnings, report.warnings);
    out = compared::compare("predicted", std::move(first), "measured", measured(report, options));
  }
  add(out.warnings, warnings);
  return out;
}

bool is_trace(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) return true;
  if (ranks::is_of_fusewise(path)) return false;
  const ranks::SourceKind kind = recordings_of({path}).kind;
  return kind == ranks::SourceKind::kineto || kind == ranks::SourceKind::nsys;
}

}  // namespace cli
