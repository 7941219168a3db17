#include "planner/scenarios/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/bundled.hpp"
#include "core/estimate/estimated_profile.hpp"
#include "core/limits.hpp"
#include "core/profile.hpp"
#include "planner/cost/derived.hpp"
#include "planner/scenarios/lacking_costs.hpp"
#include "planner/scenarios/limits.hpp"
#include "planner/scenarios/links.hpp"
#include "planner/scenarios/stragglers.hpp"
#include "sim/cluster/graph.hpp"

namespace scenarios {
namespace {

using core::Field;
using core::kMaxTimeUs;
using core::kMaxWorkers;
using planner::Conditions;

constexpr std::int64_t kMaxIterations = 10'000;
constexpr std::int64_t kMaxSteps = 10'000;
/// Limit of schedules, and of numbers of workers.
constexpr std::size_t kMaxListed = 10'000;
/// Limit of their product: at 2 kB for a result, 1 GB.
constexpr std::size_t kMaxResults = 500'000;
/// Approximate limit of the tasks of all iterations: at 60 bytes each, less than 2 GiB for a schedule.
constexpr double kMaxTasks = 3e7;
/// Approximate limit of task times over individually simulated workers: minutes.
constexpr double kMaxTimes = 1e10;
/// Limits of an upper bound of the messages; those that are simulated one by one are counted when they are
/// known.
constexpr double kMaxMessages = 1e11;
constexpr double kMaxRounds = 1e12;  // of `steps` with random factors: hours
/// Limit of the times that are kept at once where collectives end at a time of its own on each worker: 1 GiB.
constexpr double kMaxKeptTimes = 1U << 27U;

double time_at(const Field& field, std::string_view key) {
  const std::optional<Field> found = field.find(key);
  return found ? found->number(0, kMaxTimeUs) : 0;
}

bool flag_at(const Field& field, std::string_view key, bool otherwise) {
  const std::optional<Field> found = field.find(key);
  return found ? found->boolean() : otherwise;
}

planner::Overlap read_overlap(const Field& field) {
  field.allow_only({"compute_slowdown", "communication_slowdown"});
  const auto slowdown = [&](std::string_view key) {
    const std::optional<Field> found = field.find(key);
    return found ? found->number(0, kMaxSlowdown) : 0;
  };
  return {.compute_slowdown = slowdown("compute_slowdown"),
          .communication_slowdown = slowdown("communication_slowdown")};
}

planner::Jitter read_jitter(const Field& field) {
  field.allow_only({"distribution", "sigma", "seed"});
  planner::Jitter jitter;
  if (const auto distribution = field.find("distribution")) {
    const std::string name = distribution->one_of({"lognormal", "normal", "measured"});
    jitter.distribution = name == "lognormal" ? planner::Jitter::Distribution::lognormal
                          : name == "normal"  ? planner::Jitter::Distribution::normal
                                              : planner::Jitter::Distribution::measured;
  }
  if (const auto sigma = field.find("sigma")) jitter.sigma = sigma->number(0, max_sigma(jitter.distribution));
  if (const auto seed = field.find("seed"))
    jitter.seed = static_cast<std::uint64_t>(seed->integer(0, INT64_MAX));
  return jitter;
}

std::vector<planner::Failure> read_failures(const Field& field) {
  std::vector<planner::Failure> out;
  for (const Field& item : field.items()) {
    item.allow_only({"worker", "at_us", "down_us"});
    out.push_back({.worker = item.at("worker").integer(0, kMaxWorkers - 1),
                   .at_us = item.at("at_us").number(0, kMaxTimeUs),
                   .down_us = {}});
    if (const auto down = item.find("down_us")) out.back().down_us = down->number(0, kMaxTimeUs);
  }
  return out;
}

planner::MemoryOptions read_memory(const Field& field) {
  field.allow_only({"optimizer", "gradients_in_buffers", "cap_bytes"});
  const std::string optimizer = field.at("optimizer").one_of({"sgd", "momentum", "adam"});
  planner::MemoryOptions out = {.optimizer_states = optimizer == "adam"       ? 2
                                                    : optimizer == "momentum" ? 1
                                                                              : 0,
                                .gradients_in_buffers = flag_at(field, "gradients_in_buffers", false),
                                .cap_bytes = {}};
  if (const auto cap = field.find("cap_bytes")) out.cap_bytes = cap->integer(1, core::kMaxBytes);
  return out;
}

Conditions read_conditions(const Field& field) {
  Conditions conditions;
  if (const auto n = field.find("iterations")) conditions.iterations = n->integer(1, kMaxIterations);
  if (const auto n = field.find("accumulation_steps"))
    conditions.accumulation_steps = n->integer(1, kMaxSteps);
  if (const auto input = field.find("input")) {
    input->allow_only({"read_us", "overlapped"});
    conditions.read_us = time_at(*input, "read_us");
    conditions.read_is_overlapped = flag_at(*input, "overlapped", true);
  }
  if (const auto update = field.find("update")) {
    update->allow_only({"optimizer_us", "lars_us", "lamb_us", "parallel_tensor_operator"});
    conditions.optimizer_us = time_at(*update, "optimizer_us");
    conditions.lars_us = time_at(*update, "lars_us");
    conditions.lamb_us = time_at(*update, "lamb_us");
    if (const auto lamb = update->find("lamb_us"); lamb && update->has("lars_us"))
      lamb->expected("either lars_us or lamb_us", "both");
    conditions.parallel_tensor_operator = flag_at(*update, "parallel_tensor_operator", false);
  }
  if (const auto overlap = field.find("overlap")) conditions.overlap = read_overlap(*overlap);
  if (const auto jitter = field.find("jitter")) conditions.jitter = read_jitter(*jitter);
  if (const auto stragglers = field.find("stragglers")) conditions.stragglers = read_stragglers(*stragglers);
  if (const auto spread = field.find("worker_spread")) {
    if (field.has("stragglers")) spread->expected("either stragglers or worker_spread", "both");
    conditions.worker_spread = spread->number(0, kMaxWorkerSpread);
  }
  if (const auto failures = field.find("failures")) conditions.failures = read_failures(*failures);
  if (const auto types = field.find("data_types")) conditions.data_types = planner::read_data_types(*types);
  if (const auto memory = field.find("memory")) conditions.memory = read_memory(*memory);
  if (const auto recompute = field.find("recompute"))
    conditions.recompute = planner::read_recompute(*recompute);
  read_fidelity(field, conditions);
  return conditions;
}

/// A measured iteration has an update and other work; a scenario with keys of its own for these replaces
/// them.
void add_iteration_of_profile(const Field& field, Scenario& scenario) {
  if (!scenario.profile.iteration) return;
  scenario.conditions.waiting_us = scenario.profile.iteration->waiting_us;
  if (!field.has("update")) scenario.conditions.optimizer_us = scenario.profile.iteration->optimizer_us;
  if (field.has("input")) return;
  scenario.conditions.read_us = scenario.profile.iteration->other_us;
  scenario.conditions.read_is_overlapped = false;
}

bool has_spread(const core::Profile& profile) {
  return std::ranges::any_of(profile.layers, [](const core::ProfileLayer& layer) {
    return layer.forward_spread_us.value_or(0) > 0 || layer.backward_spread_us.value_or(0) > 0;
  });
}

void check_places(const Field& field, const Scenario& scenario) {
  const std::int64_t workers = *std::ranges::max_element(scenario.workers);
  if (workers > placed_workers(scenario.conditions))
    field.at("topology").at("workers_at").expected(fmt::format("a vertex for each of {} workers", workers));
}

/// Rejects conditions that cannot be simulated together.
void check_conditions(const Field& field, const Scenario& scenario) {
  const Conditions& conditions = scenario.conditions;
  check_places(field, scenario);
  const planner::Jitter::Distribution distribution = conditions.jitter.distribution;
  if (distribution == planner::Jitter::Distribution::measured && !has_spread(scenario.profile))
    field.at("jitter").at("distribution").expected("a profile with forward_spread_us or backward_spread_us");
  if (!conditions.overlap.slows()) return;
  if (distribution != planner::Jitter::Distribution::lognormal)
    field.at("jitter").at("distribution").expected("lognormal where compute and channel slow each other");
  if (!conditions.failures.empty())
    field.at("failures").expected("none where compute and channel slow each other");
}

std::vector<std::int64_t> read_workers(const Field& field) {
  if (!field.is_array()) return {field.integer(1, kMaxWorkers)};
  std::vector<std::int64_t> workers;
  const std::vector<Field> items = field.non_empty_items();
  if (items.size() > kMaxListed) field.expected(fmt::format("at most {} numbers of workers", kMaxListed));
  for (const Field& item : items) workers.push_back(item.integer(1, kMaxWorkers));
  return workers;
}

/// Each schedule keeps the plan that it names, which takes much more memory than its file.
void check_plan_sizes(const Field& scenario) {
  constexpr std::uintmax_t kMaxBytes = 48U << 20U;
  std::uintmax_t bytes = 0;
  std::vector<Field> schedules;
  if (const auto all = scenario.find("schedules"); all && all->is_array()) schedules = all->items();
  const auto job = scenario.find("job");
  const auto phases = job && job->is_object() ? job->find("phases") : std::nullopt;
  if (phases && phases->is_array())
    for (const Field& phase : phases->items())
      if (const auto schedule = phase.is_object() ? phase.find("schedule") : std::nullopt)
        schedules.push_back(*schedule);
  for (const Field& schedule : schedules) {
    const std::optional<Field> fusion = schedule.is_object() ? schedule.find("fusion") : std::nullopt;
    const std::optional<Field> file = fusion && fusion->is_object() ? fusion->find("file") : std::nullopt;
    if (!file || !file->is_text()) continue;
    std::error_code unreadable;  // whoever reads it says why
    const std::uintmax_t size = std::filesystem::file_size(file->path(), unreadable);
    if (!unreadable) bytes += size;
    if (bytes > kMaxBytes)
      file->expected(fmt::format("plans of at most {} MiB in all", kMaxBytes >> 20U), "more");
  }
}

/// The usual schedules that can be run, or all if none can.
std::vector<planner::Schedule> usual_schedules(const Scenario& scenario) {
  std::vector<planner::Schedule> out = planner::lossless_schedules();
  std::erase_if(out,
                [&](const planner::Schedule& schedule) { return !can_run(scenario.conditions, schedule); });
  const auto lacks = [&](const planner::Schedule& schedule) {
    return lacks_all_reduces(scenario.network, schedule);
  };
  if (std::ranges::none_of(out, lacks) || std::ranges::all_of(out, lacks)) return out;
  std::erase_if(out, lacks);
  return out;
}

/// Named schedules must support the conditions.
std::vector<planner::Schedule> read_schedules(const Field& field, const Scenario& scenario) {
  check_plan_sizes(field);
  std::vector<planner::Schedule> out;
  const std::optional<Field> schedules = field.find("schedules");
  if (!schedules) return usual_schedules(scenario);
  const std::vector<Field> items = schedules->non_empty_items();
  if (items.size() > kMaxListed) schedules->expected(fmt::format("at most {} schedules", kMaxListed));
  for (const Field& item : items) {
    out.push_back(planner::read_schedule(item));
    if (!can_run(scenario.conditions, out.back()))
      item.expected(planner::kPipelineInOrder,
                    fmt::format("{}, which goes by layer", out.back().pipeline->name));
  }
  return out;
}

[[noreturn]] void too_many_workers(const Field& field, const Scenario& scenario, std::size_t place,
                                   double max) {
  const Field workers = field.at("workers");
  const Field at = workers.is_array() ? workers.items()[place] : workers;
  at.expected(
      fmt::format("at most {:.0f} workers each by itself with a profile of this size", std::floor(max)),
      fmt::to_string(scenario.workers[place]));
}

/// The number of micro-batches that have collectives.
double sending_batches(const Scenario& scenario) {
  const bool in_each = std::ranges::any_of(scenario.schedules, [](const planner::Schedule& schedule) {
    return schedule.pipeline->program(1, schedule.options).sends_in_each_batch();
  });
  return in_each ? static_cast<double>(scenario.conditions.accumulation_steps) : 1;
}

/// Approximate number of tasks per iteration.
double tasks_per_worker(const Scenario& scenario) {
  const double one_batch = 2.0 * static_cast<double>(scenario.profile.layers.size()) +
                           3.0 * static_cast<double>(core::tensor_count(scenario.profile));
  return sending_batches(scenario) * one_batch +
         2 * static_cast<double>(scenario.conditions.accumulation_steps);
}

/// With stragglers alone, the iteration time needs one simulated worker, but the statistics of workers need
/// all.
bool simulates_each(const Scenario& scenario) {
  const Conditions& conditions = scenario.conditions;
  if (scenario.parallel) return false;  // the slowest replica stands for all
  return conditions.workers_differ() || (conditions.has_stragglers() && !conditions.overlap.slows());
}

/// The limit of tasks. If workers differ, each is simulated; if compute and channel also slow each other
/// down, each has its own tasks.
double max_tasks(const Scenario& scenario) {
  return simulates_each(scenario) && !scenario.conditions.overlap.slows() ? kMaxTimes : kMaxTasks;
}

std::int64_t simulated_workers(const Scenario& scenario) {
  if (!simulates_each(scenario)) return 1;
  return *std::ranges::max_element(scenario.workers);
}

/// Without random factors on messages, steps are not counted one by one: the number of tasks bounds the work.
double max_messages(const Conditions& conditions) {
  const bool one_by_one = conditions.links.sigma > 0 || conditions.fidelity == planner::Fidelity::messages;
  if (conditions.fidelity == planner::Fidelity::closed || !one_by_one)
    return std::numeric_limits<double>::infinity();
  return conditions.fidelity == planner::Fidelity::messages ? kMaxMessages : kMaxRounds;
}

/// Upper bound of the number of messages: rings send twice the number of workers squared, and no all-reduce
/// sends more.
double messages(const Scenario& scenario, double workers) {
  return 2 * workers * workers * static_cast<double>(core::tensor_count(scenario.profile)) *
         sending_batches(scenario) * static_cast<double>(scenario.conditions.iterations);
}

void check_messages(const Field& field, const Scenario& scenario) {
  const double max = max_messages(scenario.conditions);
  const auto workers = static_cast<double>(simulated_workers(scenario));
  const double all = messages(scenario, workers);
  if (all > max)
    field.at("fidelity")
        .expected(fmt::format("at most {:.0e} messages, by fewer workers, tensors or iterations", max),
                  fmt::format("up to {:.1e} on {:.0f} workers", all, workers));
}

/// As with `zero`, which needs most: there the update of each tensor's shard waits until all gradients have
/// been reduced.
double max_workers_in_memory(const Scenario& scenario) {
  if (scenario.conditions.fidelity == planner::Fidelity::closed)
    return std::numeric_limits<double>::infinity();
  return std::floor(kMaxKeptTimes / static_cast<double>(core::tensor_count(scenario.profile)));
}

/// The number of iterations that fit into memory; 0 if none does.
double max_iterations(const Scenario& scenario) {
  const double one = tasks_per_worker(scenario);
  const auto workers = static_cast<double>(simulated_workers(scenario));
  return std::floor(std::min(max_tasks(scenario) / one / workers, kMaxTasks / one));
}

void check_size(const Field& field, const Scenario& scenario) {
  const Conditions& conditions = scenario.conditions;
  check_messages(field, scenario);
  const bool each = simulates_each(scenario);
  const double max = max_iterations(scenario);
  const auto largest = std::ranges::max_element(scenario.workers);
  const auto place = static_cast<std::size_t>(largest - scenario.workers.begin());
  if (each && max < 1)
    too_many_workers(field, scenario, place, max_tasks(scenario) / tasks_per_worker(scenario));
  if (static_cast<double>(*largest) > max_workers_in_memory(scenario))
    too_many_workers(field, scenario, place, max_workers_in_memory(scenario));
  if (static_cast<double>(conditions.iterations) <= max) return;
  const std::string expected = fmt::format(
      "at most {:.0f} iteration{} of a profile of this size{}{}", max, max == 1 ? "" : "s",
      sending_batches(scenario) > 1
          ? fmt::format(", with collectives in each of {:.0f} micro-batches", sending_batches(scenario))
          : "",
      each ? fmt::format(" with {} workers each by itself", simulated_workers(scenario)) : "");
  if (const std::optional<Field> given = field.find("iterations")) given->expected(expected);
  field
      .at(!each                                      ? "profile"
          : conditions.jitter.any()                  ? "jitter"
          : !conditions.failures.empty()             ? "failures"
          : conditions.workers_differ()              ? "fidelity"
          : conditions.worker_spread.value_or(0) > 0 ? "worker_spread"
                                                     : "stragglers")
      .expected(expected, fmt::format("{}, the default", conditions.iterations));
}

}  // namespace

std::int64_t placed_workers(const Conditions& conditions) {
  if (!conditions.topology || !conditions.topology->graph) return kMaxWorkers;
  return static_cast<std::int64_t>(conditions.topology->graph->ranks_at.size());
}

Scenario scenario_of(const Scenario& scenario, const Phase& phase) {
  Scenario out = scenario;
  out.job.reset();
  out.profile = phase.profile;
  out.schedules = {phase.schedule};
  out.conditions.read_us = phase.input.later_us;
  out.conditions.read_is_overlapped = phase.input.overlapped;
  return out;
}

double max_workers(const Scenario& scenario) {
  const Conditions& conditions = scenario.conditions;
  if (!simulates_each(scenario)) return static_cast<double>(kMaxWorkers);
  const double tasks = tasks_per_worker(scenario) * static_cast<double>(conditions.iterations);
  const double by_messages = std::sqrt(max_messages(conditions) / messages(scenario, 1));
  return std::floor(std::min({max_tasks(scenario) / tasks, by_messages, max_workers_in_memory(scenario)}));
}

planner::Overlap overlap_of_profile(const Field& scenario) {
  const auto measured =
      scenario.has("overlap") ? std::nullopt : core::read_profile_overlap(scenario.at("profile"));
  if (!measured) return {};
  return {.compute_slowdown = measured->compute_slowdown,
          .communication_slowdown = measured->communication_slowdown};
}

bool can_run(const Conditions& conditions, const planner::Schedule& schedule) {
  return !conditions.needs_channel_in_order() || !goes_by_layer(schedule);
}

bool can_slow(const Conditions& conditions) {
  return conditions.fidelity == planner::Fidelity::closed && conditions.failures.empty() &&
         conditions.jitter.distribution == planner::Jitter::Distribution::lognormal;
}

namespace {

/// Checks each phase as a scenario of its own.
void check_phases(const Field& field, const Scenario& scenario) {
  const std::vector<Field> phases = field.at("job").at("phases").items();
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Scenario alone = scenario_of(scenario, scenario.job->phases[i]);
    check_conditions(field, alone);
    check_size(field, alone);
    if (!can_run(alone.conditions, alone.schedules.front()))
      phases[i].at("schedule").expected(planner::kPipelineInOrder, "one that goes by layer");
  }
}

/// The network, with the scenario's link between nodes if it has one.
core::Network read_network_of(const Field& field) {
  core::Network network = core::read_network_reference(field.at("network"));
  const std::optional<Field> between = field.find("between");
  if (!between) return network;
  between->allow_only({"bandwidth_gbps", "startup_us", "shared", "workers_per_node"});
  if (network.measured.empty() || !network.levels.empty())
    between->expected("a network of curves measured inside a node, without levels",
                      fmt::format("network '{}'", core::printable(network.name)));
  const Field rate = between->at("bandwidth_gbps");
  const double gbps = rate.number(0, kMaxTimeUs);
  if (gbps == 0) rate.expected("a bandwidth above 0");
  const std::set<std::int64_t> measured = planner::measured_workers(network);
  const auto size = between->find("workers_per_node");
  const std::int64_t node =
      size ? size->integer(2, kMaxWorkers) : std::max<std::int64_t>(2, *measured.rbegin());
  if (size && !measured.contains(node))
    size->expected(
        fmt::format("a number of workers that is measured in the network: {}", fmt::join(measured, ", ")));
  const bool states_startup = between->has("startup_us");
  const double startup_us = states_startup ? time_at(*between, "startup_us") : planner::kHopBetweenUs;
  planner::join_nodes(network, node, {.alpha_us = startup_us, .beta_us_per_byte = 8e-3 / gbps},
                      flag_at(*between, "shared", false));
  network.origin.source += fmt::format(
      "; nodes are joined by the scenario's ports, which are ASSUMED to reach {:.0f} % of their rate",
      100 * planner::kReachedRate);
  if (!states_startup)
    network.origin.source += fmt::format("; a message between nodes is ASSUMED to take {:.6g} us to start",
                                         planner::kHopBetweenUs);
  return network;
}

/// How the job is divided, which nothing else that a scenario may hold knows.
std::optional<planner::Parallel> read_parallel_of(const Field& field, bool takes_parallel) {
  const std::optional<Field> parallel = field.find("parallel");
  if (!parallel) return {};
  if (!takes_parallel)
    parallel->expected(
        "no key parallel, which only simulate, sweep, report and plan, alone or with --emit or --explain, "
        "take");
  if (const auto job = field.find("job")) job->expected("no job beside parallel");
  (void)field.at("schedules");  // not all of the usual ones can be run
  return planner::read_parallel(*parallel);
}

/// Adds what is computed again to the profiles of the scenario and its phases; the parts of a pipeline's
/// stages add it to theirs.
void recompute_in(const Field& field, Scenario& scenario) {
  const planner::Recompute& recompute = *scenario.conditions.recompute;
  const auto apply = [&](core::Profile& profile) {
    if (planner::segments_of(profile, recompute).empty())
      field.at("recompute")
          .expected(R"({"layers": N}, as no name of a layer numbers its block, like layers.0.mlp)");
    if (!scenario.parallel) profile = planner::recomputed(std::move(profile), recompute);
  };
  apply(scenario.profile);
  if (!scenario.job) return;
  for (Phase& phase : scenario.job->phases) apply(phase.profile);
}

}  // namespace

Scenario read_scenario(const Field& field, bool takes_parallel) {
  field.check_format("fusewise.scenario");
  field.allow_only({"format",   "version",   "name",         "profile",    "network",
                    "workers",  "schedules", "collectives",  "iterations", "accumulation_steps",
                    "overlap",  "jitter",    "stragglers",   "failures",   "fidelity",
                    "links",    "topology",  "channels",     "input",      "update",
                    "job",      "sweep",     "between",      "data_types", "memory",
                    "parallel", "recompute", "worker_spread"});
  const std::optional<Field> name = field.find("name");
  const std::optional<Field> collectives = field.find("collectives");
  const std::optional<planner::Parallel> parallel = read_parallel_of(field, takes_parallel);
  const core::ModelDivision division =
      parallel ? core::ModelDivision{.tensor = parallel->tensor, .expert = parallel->expert}
               : core::ModelDivision{};
  Scenario scenario = {
      .name = name ? name->text() : "",
      .profile = core::read_or_estimate_profile(field.at("profile"), division),
      .network = read_network_of(field),
      .workers = read_workers(field.at("workers")),
      .schedules = {},
      .all_reduce = collectives ? planner::read_collectives(*collectives) : planner::Algorithm{},
      .conditions = read_conditions(field),
      .file = field};
  add_iteration_of_profile(field, scenario);
  if (!field.has("overlap") && can_slow(scenario.conditions))
    scenario.conditions.overlap = overlap_of_profile(field);
  scenario.parallel = parallel;
  scenario.schedules = read_schedules(field, scenario);
  if (scenario.schedules.size() * scenario.workers.size() > kMaxResults)
    field.at("workers").expected(
        fmt::format("at most {} results, of each schedule on each number of workers", kMaxResults),
        fmt::to_string(scenario.schedules.size() * scenario.workers.size()));
  check_conditions(field, scenario);
  check_size(field, scenario);
  if (const auto job = field.find("job")) {
    const PhaseInput input = {.first_epoch_us = scenario.conditions.read_us,
                              .later_us = scenario.conditions.read_us,
                              .overlapped = scenario.conditions.read_is_overlapped};
    scenario.job =
        read_job(*job, {.profile = scenario.profile, .schedule = scenario.schedules.front(), .input = input});
    check_phases(field, scenario);
  }
  if (scenario.conditions.recompute) recompute_in(field, scenario);
  scenario.warnings = warnings_about(scenario);
  return scenario;
}

const planner::Algorithm& all_reduce(const Scenario& scenario, const planner::Schedule& schedule) {
  return schedule.all_reduce ? *schedule.all_reduce : scenario.all_reduce;
}

}  // namespace scenarios
