// fusewise plan: plans which gradients travel together on one number of workers.

#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/bundled.hpp"
#include "cli/chosen_schedule.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/json_text.hpp"
#include "core/quantities.hpp"
#include "planner/job/registry.hpp"
#include "planner/scenarios/default_schedule.hpp"
#include "planner/scenarios/divided_plan.hpp"
#include "planner/scenarios/lacking_costs.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"

namespace cli {
namespace {

struct Options {
  std::string scenario;
  std::int64_t workers = 0;
  std::string schedule = "fusewise";
  bool has_schedule = false;  ///< whether the user chose it
  std::string output;
  bool json = false;
  std::string emit;
  std::string target;
  bool explain = false;
  bool consider = false;
  bool memory_front = false;
  std::vector<double> densities;
  std::vector<std::string> extra_iterations;
};

/// The number of --workers, otherwise the only one of the scenario.
std::int64_t chosen_workers(const Options& options, const scenarios::Scenario& scenario) {
  if (options.workers > 0) return options.workers;
  if (scenario.workers.size() == 1) return scenario.workers.front();
  throw core::InputError(
      fmt::format("--workers: expected a number, as the scenario has {} of them ({}), got nothing",
                  scenario.workers.size(), core::list_text(scenario.workers)));
}

/// The text to print: the plan, or the emission or explanation that was requested instead.
std::string shown(const Options& options, const scenarios::Planned& planned) {
  if (planned.emission)
    return options.json ? core::json_text(planned.emission->json) : planned.emission->text;
  if (planned.explanation && options.json) return planner::explanation_json(*planned.explanation);
  if (planned.explanation)
    return scenarios::plan_table(planned.plan) + '\n' + planner::explanation_text(*planned.explanation);
  return options.json ? planner::plan_text(planned.plan) : scenarios::plan_table(planned.plan);
}

/// A pipeline that partitions tensors can neither be emitted, as no framework takes partitions, nor
/// explained, as it does not group tensors.
void check_whole_tensors(const Options& options, const planner::Schedule& schedule) {
  if (!planner::goes_by_layer(schedule) || !options.target.empty()) return;
  if (!options.emit.empty() && options.emit != "json")
    throw core::InputError(fmt::format("--emit: expected json, as pipeline {} partitions tensors, got '{}'",
                                       schedule.pipeline->name, options.emit));
  if (options.explain)
    throw core::InputError(fmt::format(
        "--explain: expected a schedule that decides how tensors are grouped, got one of pipeline {}",
        schedule.pipeline->name));
}

/// The frameworks that plans can be made for.
std::vector<std::string_view> targets() {
  std::vector<std::string_view> out;
  for (const planner::Emitter& emitter : planner::emitters())
    if (emitter.target != nullptr) out.push_back(emitter.name);
  return out;
}

/// A plan for one framework holds for no other.
void check_same_target(const Options& options) {
  if (options.target.empty() || options.emit.empty() || options.emit == options.target) return;
  if (planner::entry(planner::emitters(), options.emit).target != nullptr)
    throw core::InputError(
        fmt::format("--emit: expected {}, for which --for plans, json or nccl-tuner, got '{}'",
                    options.target, options.emit));
}

/// The compressors of all schedules of the scenario.
std::vector<planner::Compressor> compressors_of(const scenarios::Scenario& scenario) {
  std::vector<planner::Compressor> out;
  for (const planner::Schedule& schedule : scenario.schedules) {
    out.push_back(schedule.compressor);
    for (const planner::TransferChoice& choice : schedule.fusion.choices)
      if (choice.compressor) out.push_back(*choice.compressor);
  }
  return out;
}

planner::ConsiderOptions considered(const Options& options, const scenarios::Scenario& scenario) {
  planner::ConsiderOptions out;
  out.offered = compressors_of(scenario);
  if (!options.densities.empty()) out.densities = options.densities;
  std::ranges::sort(out.densities);
  out.densities.erase(std::unique(out.densities.begin(), out.densities.end()), out.densities.end());
  const std::vector<std::string> known = planner::considered_names(out.offered);
  for (const std::string& text : options.extra_iterations)
    out.extra.push_back(planner::read_extra_iterations(text, known));
  return out;
}

/// Prints the comparison of compressors; --output writes the best plan.
void consider(const Options& options, const scenarios::Scenario& scenario,
              const planner::Schedule& schedule) {
  const std::int64_t workers = chosen_workers(options, scenario);
  planner::ConsiderOptions consider_options = considered(options, scenario);
  StepLine line;
  line.count_seconds();
  consider_options.progress = [&](std::size_t total, const std::string& what) { line.next(total, what); };
  const scenarios::Considered found = scenarios::consider(scenario, workers, schedule, consider_options);
  line.end();
  const planner::Consideration& all = found.consideration;
  const std::string text = options.json ? planner::consideration_json(all)
                                        : planner::consideration_text(all, terminal_width(STDOUT_FILENO));
  if (!options.output.empty()) {
    const scenarios::Planned best = scenarios::plan(scenario, workers, all.candidates[all.best].schedule);
    core::write_file(options.output, planner::plan_text(best.plan));
  }
  print_warnings(found.warnings);
  options.json ? print(text) : print_for_people(text);
}

/// Prints the fastest plans for each amount of memory, or what a framework makes of the chosen one; --output
/// writes that.
void memory_front(const Options& options, const scenarios::Scenario& scenario,
                  const planner::Schedule& schedule) {
  const std::int64_t workers = chosen_workers(options, scenario);
  StepLine line;
  line.count_seconds();
  line.next("the fastest plans for each amount of memory");
  const scenarios::Fronted found = scenarios::memory_front(scenario, workers, schedule);
  line.end();
  const scenarios::Planned chosen = scenarios::plan(scenario, workers, found.chosen, {.emit = options.emit});
  if (!options.output.empty()) core::write_file(options.output, planner::plan_text(chosen.plan));
  print_warnings(chosen.emission ? chosen.warnings : scenario.warnings);
  if (chosen.emission)
    return options.json ? print(core::json_text(chosen.emission->json)) : print_script(chosen.emission->text);
  if (options.json) return print(planner::memory_front_json(found.front));
  print_for_people(planner::memory_front_text(found.front, terminal_width(STDOUT_FILENO)));
}

/// Prints the plans of all parts of a job with the key parallel, also explained, or what a framework makes of
/// them; --output writes the plans.
void plan_parts(const Options& options, const scenarios::Scenario& scenario,
                const planner::Schedule& schedule) {
  StepLine line;
  line.count_seconds();
  line.next("the plans of all parts");
  const scenarios::DividedPlan found = scenarios::divided_plan(
      scenario, chosen_workers(options, scenario), schedule,
      {.emit = options.emit,
       .explain = options.explain,
       .progress = [&](std::size_t total, const std::string& what) { line.next(total, what); }});
  line.end();
  if (!options.output.empty()) core::write_file(options.output, scenarios::divided_plan_json(found));
  print_warnings(found.warnings);
  if (found.emission)
    return options.json ? print(core::json_text(found.emission->json)) : print_script(found.emission->text);
  if (options.json)
    return print(found.explanation ? scenarios::stage_explanation_json(*found.explanation)
                                   : scenarios::divided_plan_json(found));
  const std::size_t width = terminal_width(STDOUT_FILENO);
  const std::string explained =
      found.explanation ? '\n' + scenarios::stage_explanation_text(*found.explanation, width) : "";
  print_for_people(scenarios::divided_plan_text(found, width) + explained);
}

/// The options of a scenario's schedule are easily taken for chosen where only the beginning of its name is
/// given.
void warn_of_longer_names(const std::string& given, const scenarios::Scenario& scenario) {
  std::vector<std::string> longer;
  for (const planner::Schedule& other : scenario.schedules) {
    if (other.name == given) return;
    if (other.name.starts_with(given + ' '))
      longer.push_back(fmt::format("'{}'", core::printable(other.name)));
  }
  if (!longer.empty())
    print_warnings({fmt::format("--schedule {}: the schedule of that name, not the scenario's {}",
                                core::printable(given), fmt::join(longer, ", "))});
}

/// The schedule of --schedule, or the one that plans by default.
planner::Schedule planning_schedule(const Options& options, const scenarios::Scenario& scenario) {
  if (options.memory_front && !options.has_schedule) return only_sharded_schedule(scenario);
  planner::Schedule out = chosen_schedule(options.schedule, scenario);
  if (options.has_schedule) return out;
  const planner::Schedule given =
      scenarios::default_schedule(scenario, chosen_workers(options, scenario), out);
  if (given.name != out.name)
    print_warnings({fmt::format(
        "{}, so the plan is made for '{}' (--schedule names another)",
        scenarios::lacks_all_reduces(scenario.network, out)
            ? fmt::format("network '{}' did not measure all-reduces", core::printable(scenario.network.name))
            : "all schedules of the scenario shard parameters",
        core::printable(given.name))});
  return given;
}

void plan(const Options& options) {
  const bool takes_parallel = options.target.empty() && !options.consider && !options.memory_front;
  const scenarios::Scenario scenario =
      scenarios::read_scenario(load_scenario(options.scenario), takes_parallel);
  const planner::Schedule schedule = planning_schedule(options, scenario);
  if (options.has_schedule) warn_of_longer_names(schedule.name, scenario);
  if (scenario.parallel) return plan_parts(options, scenario, schedule);
  if (options.consider) return consider(options, scenario, schedule);
  if (options.memory_front) return memory_front(options, scenario, schedule);
  check_whole_tensors(options, schedule);
  check_same_target(options);
  StepLine line;
  line.count_seconds();
  if (!options.target.empty()) line.next(fmt::format("the plan for {}", options.target));
  const scenarios::Planned planned = scenarios::plan(
      scenario, chosen_workers(options, scenario), schedule,
      {.emit = options.emit,
       .target = options.target,
       .explain = options.explain,
       .progress = [&](std::size_t total, const std::string& what) { line.next(total, what); }});
  line.end();
  const std::string text = shown(options, planned);
  if (!options.output.empty()) core::write_file(options.output, planner::plan_text(planned.plan));
  print_warnings(planned.warnings);
  if (options.json) return print(text);
  planned.emission ? print_script(text) : print_for_people(text);
}

/// Adds the options of --consider-compression.
void add_considered(const Command& command, Options& options, const Option& considers) {
  constexpr double kMinDensity = 1e-6;
  command
      .add_option(
          "--densities", options.densities,
          "share of the elements that a sparse compressor keeps, several separated by commas (default: "
          "0.001,0.002,0.005,0.01,0.02,0.05,0.1)")
      .delimiter(',')
      .check(range(kMinDensity, 1.0))
      .needs(considers);
  command
      .add_option(
          "--extra-iterations", options.extra_iterations,
          "NAME=FACTOR or NAME@DENSITY=FACTOR: the factor by which a compressor increases the number of "
          "iterations to the same loss (repeatable; default: 1)")
      .repeatable()
      .needs(considers);
}

}  // namespace

void add_plan(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command("plan", "Plan which gradients travel together");
  command.footer("Example: fusewise plan resnet50-v100 --workers 64 -o resnet50.plan.json");
  command
      .add_option("SCENARIO", options->scenario,
                  "a fusewise.scenario file, or a name that 'fusewise show scenarios' lists")
      .required();
  const Option schedule = add_plan_options(command, options->workers,
                                           "that of the scenario, if it has only one", options->schedule);
  command.add_output("-o,--output", options->output, "also write the plan to this file");
  const Option target =
      command
          .add_option("--for", options->target,
                      "plan as this framework behaves, with the groups that it can form, in place of the "
                      "schedule's pipeline and fusion")
          .check(one_of(targets()));
  const Option emit = command
                          .add_option("--emit", options->emit,
                                      "print the plan as code or configuration for a training framework, "
                                      "priced as it behaves (docs/frameworks.md)")
                          .check(one_of(planner::names(planner::emitters())));
  const Option explain = command
                             .add_flag("--explain", options->explain,
                                       "print the reason for each group boundary, the bottleneck of the "
                                       "iteration, the sensitivity to the "
                                       "inputs, and whether compression is worthwhile")
                             .excludes(emit)
                             .excludes(target);
  const Option considers = command
                               .add_flag("--consider-compression", options->consider,
                                         "print whether a compressor is worthwhile: which one, at which "
                                         "density, and below which bandwidth; "
                                         "--output writes the best plan")
                               .excludes(emit)
                               .excludes(target)
                               .excludes(explain);
  add_considered(command, *options, considers);
  command
      .add_flag(
          "--memory-front", options->memory_front,
          "print the fastest plans of a sharded schedule for each amount of memory, by default of the "
          "only one of the scenario; --output writes the fastest within the scenario's memory.cap_bytes, "
          "and --emit prints it for a framework")
      .excludes(target)
      .excludes(explain)
      .excludes(considers);
  command.add_flag("--json", options->json,
                   "print JSON: the plan (also with --output), or the result of --emit, --explain, "
                   "--consider-compression or --memory-front");
  command.has_no("--plot", "fusewise report -o report.html draws charts, also of plan --memory-front --json");
  command.on_run([options, schedule] {
    options->has_schedule = schedule.is_given();
    plan(*options);
  });
}

}  // namespace cli
