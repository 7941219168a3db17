#include "cli/validate_live.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/bundled.hpp"
#include "cli/chosen_schedule.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/measure_ranks.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "collectives/transport/rendezvous.hpp"
#include "collectives/transport/transport.hpp"
#include "core/errors.hpp"
#include "core/file_guard.hpp"
#include "core/files.hpp"
#include "core/quantities.hpp"
#include "planner/cost/costs.hpp"
#include "planner/cost/setting.hpp"
#include "planner/job/registry.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/scenario.hpp"
#include "planner/schedule/choice.hpp"
#include "profiler/measure/backend.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/compare.hpp"
#include "validate/live/execute.hpp"
#include "validate/live/layers.hpp"
#include "validate/live/predict.hpp"
#include "validate/live/prediction_file.hpp"
#include "validate/live/runnable.hpp"
#include "validate/live/worker_group.hpp"
#include "validate/netlab/lab.hpp"

namespace cli {
namespace {

using core::Field;
using core::InputError;

struct Options {
  std::string backend = "tcp";
  bool share_gpu = false;
  std::string profile;
  std::string layers;
  std::int64_t batch = 1;
  std::optional<std::uint32_t> computing;
  std::vector<std::string> schedules;
  std::uint32_t workers = 0;
  std::uint32_t workers_per_node = 1;
  std::string rate;
  std::string between_rate;
  std::string delay;
  std::string netlab;
  bool paced = false;
  bool error_feedback = false;
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 3;
  double tolerance = 0.1;
  double deadline_s = 60;
  double limit_s = 3600;
  std::string prediction;
  std::string timeline;
};

live::Place place_of(const Options& options, std::uint32_t workers) {
  live::Place place = {.workers = workers,
                       .backend = options.backend,
                       .share_gpu = options.share_gpu,
                       .computes = options.backend == "nccl" && !options.layers.empty(),
                       .paced = options.paced,
                       .netlab = options.netlab,
                       .deadline_s = options.deadline_s,
                       .limit_s = options.limit_s};
  const bool is_shaped = !options.rate.empty() || !options.between_rate.empty() || !options.delay.empty();
  if (!options.netlab.empty() && (is_shaped || options.paced))
    throw InputError(
        "--netlab: expected no --rate, --between-rate, --delay or --paced with it, as the netlab has its "
        "own, got one");
  if (!options.rate.empty()) {
    place.bits_per_second = read_rate("--rate", options.rate);
  }
  if (options.paced && options.rate.empty()) throw InputError("--paced: expected --rate with it, got none");
  if (!options.between_rate.empty()) {
    const double between = read_rate("--between-rate", options.between_rate);
    if (options.rate.empty()) throw InputError("--between-rate: expected --rate with it, got none");
    if (options.paced)
      throw InputError("--between-rate: expected no --paced with it, as it needs namespaces, got one");
    place.workers_per_node = options.workers_per_node;
    place.between_bits_per_second = between;
  }
  if (options.delay.empty()) return place;
  const double delay_us = read_delay_us("--delay", options.delay);
  if (options.rate.empty()) throw InputError("--delay: expected --rate with it, got none");
  place.delay_us = delay_us;
  return place;
}

/// The order in which a plan sends tensors.
std::vector<std::string> tensor_order(const planner::PlanFile& plan) {
  std::vector<std::string> out;
  for (const planner::PlanGroup& group : plan.groups)
    out.insert(out.end(), group.tensors.begin(), group.tensors.end());
  return out;
}

/// Replaces the profile by that of --profile or --layers, if given.
void set_profile(const Options& options, live::RunSpec& spec) {
  if (!options.profile.empty()) {
    spec.profile = core::read_profile(Field::load(input_path(Bundled::profile, options.profile)));
    if (spec.conditions.recompute)
      spec.profile = planner::recomputed(std::move(spec.profile), *spec.conditions.recompute);
  }
  if (options.layers.empty()) return;
  if (spec.conditions.recompute)
    throw InputError(
        "--layers: expected a scenario without recompute, as no layer is computed twice here, got one");
  spec.layers =
      live::RealLayers{.model = core::read_model(Field::load(input_path(Bundled::model, options.layers))),
                       .batch_size = options.batch};
  if (options.backend == "nccl") spec.layers->backend = "cuda";  // NCCL exchanges gradients on the GPU
  if (options.computing) spec.layers->computing = *options.computing;
  spec.profile = live::profile_of(*spec.layers);
}

live::RunSpec spec_of(const Options& options) {
  live::RunSpec spec;
  spec.workers_per_node = options.workers_per_node;
  spec.iterations = options.iterations;
  spec.warm_up = options.warm_up;
  spec.error_feedback = options.error_feedback;
  return spec;
}

live::RunSpec spec_of_plan(const Options& options, const Field& file) {
  if (options.profile.empty() && options.layers.empty())
    throw InputError("--profile: expected --profile or --layers with a plan, got neither");
  const planner::PlanFile plan = planner::read_plan_file(file);
  live::RunSpec spec = spec_of(options);
  spec.name = fmt::format("{} ({}, {} groups)", plan.model, plan.pipeline, plan.groups.size());
  spec.schedule = schedule_of_plan(plan, file, spec.name);
  spec.conditions.data_types = plan.data_types;
  spec.workers = options.workers > 0 ? options.workers : static_cast<std::uint32_t>(plan.workers);
  set_profile(options, spec);
  // a profile that is given with a plan has the times of what is computed again; real layers do not do it
  if (!spec.layers) spec.conditions.recompute = plan.recompute;
  if (spec.layers) live::order_tensors(spec.profile, tensor_order(plan));
  return spec;
}

/// One run for each schedule of the scenario, or for each that --schedule names.
std::vector<live::RunSpec> specs_of_scenario(const Options& options, const Field& file) {
  const scenarios::Scenario scenario = scenarios::read_scenario(file);
  std::vector<std::string_view> known;
  for (const planner::Schedule& schedule : scenario.schedules) known.push_back(schedule.name);
  for (const std::string& name : options.schedules)
    if (std::ranges::find(known, name) == known.end())
      reject("--schedule", fmt::format("one of {}", fmt::join(known, ", ")), name);
  if (options.workers == 0 && scenario.workers.size() != 1)
    throw InputError(
        fmt::format("--workers: expected a number, as the scenario has {} of them ({}), got nothing",
                    scenario.workers.size(), core::list_text(scenario.workers)));
  std::vector<live::RunSpec> out;
  for (const planner::Schedule& schedule : scenario.schedules) {
    const bool is_wanted = options.schedules.empty() ||
                           std::ranges::find(options.schedules, schedule.name) != options.schedules.end();
    if (!is_wanted) continue;
    live::RunSpec spec = spec_of(options);
    spec.name = schedule.name;
    spec.profile = scenario.profile;
    spec.schedule = schedule;
    spec.all_reduce = scenario.all_reduce;
    spec.workers =
        options.workers > 0 ? options.workers : static_cast<std::uint32_t>(scenario.workers.front());
    spec.conditions = planner::on_workers(scenario.conditions, spec.workers);
    set_profile(options, spec);
    out.push_back(std::move(spec));
  }
  return out;
}

/// Rejects a plan that does not fit the profile before anything is measured. The groups are formed on a
/// made-up link; what this link does not support may still be supported by the measured network.
void check_groups(const live::RunSpec& spec) {
  if (spec.schedule.fusion.kind != "plan") return;
  core::Network network;
  network.link = core::Link{.alpha_us = 1, .beta_us_per_byte = 1};
  try {
    const planner::Setting setting(spec.profile, network, spec.workers, planner::Algorithm{},
                                   spec.conditions);
    (void)planner::choose(setting, spec.schedule);
  } catch (const planner::Unsupported&) {
  }
}

void check_runnable(const live::RunSpec& spec, const Field& file) {
  try {
    live::check_runnable(spec);
  } catch (const InputError& error) {
    file.expected("a plan that can be run live", fmt::format("one that cannot ({})", error.what()));
  }
}

std::vector<live::RunSpec> all_specs(const Options& options, const Field& file) {
  const measure::CollectiveBackend& backend = collective_backend(options.backend);
  const bool is_plan = file.at("format").text() == "fusewise.plan";
  std::vector<live::RunSpec> all =
      is_plan ? std::vector{spec_of_plan(options, file)} : specs_of_scenario(options, file);
  if (is_plan && !options.schedules.empty())
    throw InputError("--schedule: expected a scenario with it, got a plan");
  for (const live::RunSpec& spec : all) {
    check_runnable(spec, file);
    if (!backend.uses_control) live::check_carried(spec, backend.name);
    check_groups(spec);
    if (spec.workers < 2 || spec.workers > netlab::kMaxWorkers)
      reject("--workers", fmt::format("2 to {}", netlab::kMaxWorkers), std::to_string(spec.workers));
  }
  return all;
}

/// The number of started processes replaces the number of workers of the plan or scenario.
Options with_workers(Options options, const std::optional<transport::Membership>& given) {
  if (!given) return options;
  if (options.workers != 0 && options.workers != given->size)
    reject("--workers", fmt::format("{}, the number of processes", given->size),
           std::to_string(options.workers));
  options.workers = given->size;
  return options;
}

std::unique_ptr<live::WorkerGroup> worker_group_of(const Options& options, std::uint32_t workers,
                                                   const std::optional<transport::Membership>& given) {
  const live::Place place = place_of(options, workers);
  if (given && (!options.delay.empty() || !options.between_rate.empty() || !options.netlab.empty()))
    throw InputError(
        "--delay, --between-rate, --netlab: expected none of them for processes started from outside, got "
        "one");
  return given ? std::make_unique<live::WorkerGroup>(place, *given)
               : std::make_unique<live::WorkerGroup>(place);
}

/// The results of all runs, in the order of their specifications.
struct Outcome {
  std::vector<live::Comparison> comparisons;
  std::vector<live::Prediction> predictions;
  std::vector<live::Record> records;
};

void run_live(const Options& given_options, const Field& file, bool json, const std::string& output) {
  const std::optional<transport::Membership> given = given_membership();
  const Options options = with_workers(given_options, given);
  const std::string prediction_file = prediction_of(options.prediction, output);
  std::vector<live::RunSpec> all = all_specs(options, file);
  const std::unique_ptr<live::WorkerGroup> worker_group =
      worker_group_of(options, all.front().workers, given);
  print_warnings(worker_group->take_warnings());
  StepLine progress(1 + all.size());
  const live::WorkerGroupHooks hooks = {.on_phase = [&](std::uint32_t rank, const std::string& phase) {
    if (rank == 0) progress.detail(phase);
  }};
  if (worker_group->is_first()) progress.next("calibration");
  live::CalibrationOptions calibrating;
  if (!collective_backend(options.backend).uses_control) {  // a GPU's link carries large groups fast enough
    calibrating.max_bytes = 128'000'000;
    calibrating.sizes += 2;
  }
  const live::Calibration calibration = live::calibrate(*worker_group, all, calibrating, hooks);
  Outcome out;
  for (const live::RunSpec& spec : all) out.predictions.push_back(live::predict(spec, calibration));
  if (worker_group->is_first() && !prediction_file.empty()) {
    live::PredictionFile predictions;
    predictions.add(calibration.profile.model, calibration, all, out.predictions);
    core::write_file(prediction_file, predictions.text());
  }
  // Each table is printed when its plan has run, so that a run that is stopped leaves those before it.
  const bool prints_tables = worker_group->is_first() && !json;
  if (prints_tables) print(calibration.where + '\n');
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (worker_group->is_first()) progress.next(all[i].name);
    out.records.push_back(live::execute(*worker_group, all[i], calibration, out.predictions[i], hooks));
    out.comparisons.push_back(
        live::compare(all[i], calibration.profile, out.predictions[i], out.records.back()));
    if (!prints_tables) continue;
    progress.end();
    print('\n' + live::comparison_table(out.comparisons.back()));
  }
  progress.end();
  print_warnings(worker_group->take_warnings());
  if (!worker_group->is_first()) return;
  const std::string report = live::comparisons_json(out.comparisons, calibration.where);
  std::vector<core::FileText> files;
  if (!output.empty()) files.push_back({output, report});
  if (!options.timeline.empty()) {
    std::vector<live::Shown> shown;
    for (std::size_t i = 0; i < all.size(); ++i)
      shown.push_back({all[i].name, &calibration.profile, &out.predictions[i], &out.records[i]});
    files.push_back({options.timeline, live::timeline(shown)});
  }
  core::write_files(files);
  std::vector<std::string> faults;
  for (const live::Comparison& comparison : out.comparisons) {
    if (live::error_of(comparison) > options.tolerance)
      faults.push_back(fmt::format("{}: the prediction is off by {:.1f} %, more than {:g} %", comparison.name,
                                   100 * live::error_of(comparison), 100 * options.tolerance));
  }
  if (json) print(report);
  if (!faults.empty()) throw OutOfTolerance(fmt::format("{}", fmt::join(faults, "; ")));
}

void add_layer_options(const Command& group, Options& options) {
  const Option profile = group.add_option("--profile", options.profile,
                                          "profile of a plan; workers wait for the times of its layers");
  const Option layers =
      group
          .add_option(
              "--layers", options.layers,
              "compute the layers of this model on the CPU (with nccl: on the GPU) instead of waiting")
          .excludes(profile);
  group.add_option("--batch", options.batch, "with --layers: samples per worker")
      .check(range<std::int64_t>(1, 1'000'000))
      .show_default();
  group
      .add_option("--computing", options.computing,
                  "number of workers that compute; the others wait for the same time (default: all)")
      .needs(layers)
      .check(range(1U, netlab::kMaxWorkers));
}

void add_network_options(const Command& group, Options& options) {
  group.add_option("--rate", options.rate,
                   "limit each worker to this rate, such as 1gbit: in network namespaces if possible, "
                   "otherwise by pacing");
  group.add_option(
      "--between-rate", options.between_rate,
      "with --rate: the workers of a node share a link of this rate to the other nodes; needs network "
      "namespaces");
  group.add_option("--delay", options.delay,
                   "delay each packet by this time, such as 100us; needs network namespaces");
  group.add_option("--netlab", options.netlab, "run in the existing netlab of this name");
  group.add_flag("--paced", options.paced, "with --rate: always limit the rate by pacing on loopback");
}

}  // namespace

std::string prediction_of(const std::string& prediction, const std::string& output) {
  if (!prediction.empty() || output.empty()) return prediction;
  core::add_output("--prediction", output + ".prediction");
  return output + ".prediction";
}

bool LiveCommand::takes(const Field& file) {
  if (!file.is_object() || !file.has("format")) return false;
  const std::string format = file.at("format").text();
  return format == "fusewise.plan" || format == "fusewise.scenario";
}

LiveCommand add_live_options(const Command& command) {
  auto options = std::make_shared<Options>();
  const Command group = command.add_group(
      "Live", "options for a plan or a scenario that is run live and compared with its prediction");
  group
      .add_option(
          "--backend", options->backend,
          "backend that exchanges the gradients; nccl is experimental between several GPUs: it has run with "
          "ranks that share one")
      .check(one_of(planner::names(measure::collective_backends())))
      .show_default();
  group.add_flag(
      "--share-gpu", options->share_gpu,
      "with nccl: run several workers on one GPU, which communicate over sockets; only for slow networks");
  group.add_option(
      "--workers", options->workers,
      "number of processes to start on this host (default: the number that mpirun, srun or torchrun has "
      "started, otherwise that of the plan or scenario)");
  group
      .add_option("--schedule", options->schedules,
                  "run only this schedule of a scenario (repeatable; default: all)")
      .repeatable();
  add_layer_options(group, *options);
  group
      .add_option("--workers-per-node", options->workers_per_node,
                  "workers per node for two_level, hitopk and compression between nodes")
      .check(range(1U, netlab::kMaxWorkers))
      .show_default();
  group.add_flag(
      "--error-feedback", options->error_feedback,
      "add what a compressor leaves out to the gradient of the next iteration (efsignsgd: always)");
  add_network_options(group, *options);
  group.add_option("--iterations", options->iterations, "recorded iterations")
      .check(range(1U, 1'000'000U))
      .show_default();
  group.add_option("--warm-up", options->warm_up, "iterations before the recorded ones")
      .check(range(0U, 1'000'000U))
      .show_default();
  const Option tolerance =
      group
          .add_option("--tolerance", options->tolerance,
                      "exit with code 3 if the relative error of the iteration time is larger")
          .check(number_in(0, 1000))
          .show_default();
  group
      .add_option("--deadline", options->deadline_s,
                  "seconds that a worker waits for a message of another worker")
      .check(number_in(0.1, 86400))
      .show_default();
  group
      .add_option("--limit", options->limit_s,
                  "seconds after which the workers of a calibration or a run are killed")
      .check(number_in(1, 1e6))
      .show_default();
  group.add_output(
      "--prediction", options->prediction,
      "write the predictions to this file before the run starts (default: the name of --output with "
      ".prediction appended)");
  group.add_output(
      "--timeline", options->timeline,
      "write a trace of the predicted and measured iterations to this file (for ui.perfetto.dev)");
  return {.run = [options](const Field& file, bool json,
                           const std::string& output) { run_live(*options, file, json, output); },
          .given =
              [group](bool except_shared) {
                for (const Option& option : group.options()) {
                  const std::string name = option.name();
                  const bool is_shared = name == "--paced" || name == "--tolerance" || name == "--prediction";
                  if (option.is_given() && !(except_shared && is_shared)) return name;
                }
                return std::string();
              },
          .shared =
              [options, tolerance] {
                return LiveShared{
                    .paced = options->paced,
                    .tolerance = tolerance.is_given() ? std::optional(options->tolerance) : std::nullopt,
                    .prediction = options->prediction};
              }};
}

}  // namespace cli
