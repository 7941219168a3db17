#include "planner/sweep/sweep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/scaled.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/cost/setting.hpp"
#include "planner/parallel/parts.hpp"
#include "planner/scenarios/divided_run.hpp"
#include "planner/scenarios/limits.hpp"
#include "planner/scenarios/supported.hpp"
#include "planner/schedule/choice.hpp"
#include "sim/fnv.hpp"

namespace sweep {
namespace {

using core::Field;
using planner::Compressor;
using planner::Schedule;
using scenarios::Scenario;

/// Limit of points: all rows are held in memory until the last one, about a gigabyte.
constexpr double kMaxPoints = 1e6;

const Axis* find(const std::vector<Axis>& axes, Quantity quantity) {
  const auto found = std::ranges::find(axes, quantity, &Axis::quantity);
  return found == axes.end() ? nullptr : &*found;
}

/// Whether the compressor keeps only some elements, so that contributions cannot be summed in transit. Sign
/// compressors cannot be summed either, but keep all elements.
bool is_sparse(const Compressor& compressor) {
  return !compressor.is_none() && compressor.collective == core::CollectiveKind::all_gather &&
         compressor.name != "efsignsgd" && compressor.name != "onebit";
}

/// Calls `visit` with each sparse compressor that the schedules name.
template <typename Visit>
void each_sparse(std::vector<Schedule>& schedules, const Visit& visit) {
  for (Schedule& schedule : schedules) {
    if (is_sparse(schedule.compressor)) visit(schedule.compressor);
    for (planner::TransferChoice& choice : schedule.fusion.choices)
      if (choice.compressor && is_sparse(*choice.compressor)) visit(*choice.compressor);
  }
}

void set_density(std::vector<Schedule>& schedules, double density) {
  constexpr double kIndexAndValue = 2;  // a kept element takes the space of two
  each_sparse(schedules, [&](Compressor& compressor) { compressor.ratio = kIndexAndValue * density; });
}

/// Scales the network's links and those of a topology.
void scale_links(Scenario& scenario, double startup_factor, double per_byte_factor) {
  scenario.network = core::scaled(scenario.network, startup_factor, per_byte_factor);
  if (auto& topology = scenario.conditions.topology)
    topology = cluster::scaled(std::move(*topology), startup_factor, per_byte_factor);
}

/// Compute is proportional to the batch size, also where the stages state it.
void set_batch_size(Scenario& scenario, double value) {
  const double factor = value / static_cast<double>(scenario.profile.batch_size);
  scenario.profile = core::scaled(scenario.profile, factor);
  scenario.profile.batch_size = static_cast<std::int64_t>(value);
  if (!scenario.parallel) return;
  for (std::optional<double>* us :
       {&scenario.parallel->stages.forward_us, &scenario.parallel->stages.backward_us})
    if (*us) **us *= factor;
}

void apply(Scenario& scenario, Quantity quantity, double value) {
  switch (quantity) {
    case Quantity::bandwidth_factor: scale_links(scenario, 1, 1 / value); break;
    case Quantity::line_rate_gbps: scale_links(scenario, 1, *scenario.network.line_rate_gbps / value); break;
    case Quantity::startup_factor: scale_links(scenario, value, 1); break;
    case Quantity::batch_size: set_batch_size(scenario, value); break;
    case Quantity::density: set_density(scenario.schedules, value); break;
    case Quantity::sigma: scenario.conditions.jitter.sigma = value; break;
    case Quantity::seed: scenario.conditions.jitter.seed = static_cast<std::uint64_t>(value); break;
    case Quantity::pipeline_stages: scenario.parallel->pipeline = static_cast<std::int64_t>(value); break;
    case Quantity::micro_batches:
      scenario.parallel->stages.micro_batches = static_cast<std::int64_t>(value);
      break;
    case Quantity::workers: scenario.workers = {static_cast<std::int64_t>(value)}; break;
  }
}

/// The field that lists the numbers of workers: the sweep's list takes precedence over the scenario's.
Field workers_field(const Field& scenario) {
  const Field sweep = scenario.at("sweep");
  return (sweep.has("workers") ? sweep : scenario).at("workers");
}

Field worker_field(const Field& scenario, std::size_t index) {
  const Field all = workers_field(scenario);
  return all.is_array() ? all.items()[index] : all;
}

/// The scenario's jitter with the greatest sigma of the sweep.
planner::Jitter greatest_jitter(const Sweep& sweep) {
  planner::Jitter jitter = sweep.base.conditions.jitter;
  if (const Axis* axis = find(sweep.axes, Quantity::sigma))
    jitter.sigma = *std::ranges::max_element(axis->values);
  return jitter;
}

/// Checks sigmas against the limit of the distribution.
void check_sigmas(const Sweep& sweep, const Field& field) {
  if (find(sweep.axes, Quantity::sigma) == nullptr) return;
  for (const Field& sigma : field.at("sigma").items())
    (void)sigma.number(0, scenarios::max_sigma(sweep.base.conditions.jitter.distribution));
}

/// Rejects a number of stages into which the model or the workers cannot be divided.
void check_stages(const Sweep& sweep, const Field& place, std::int64_t stages) {
  planner::Parallel parallel = *sweep.base.parallel;
  parallel.pipeline = stages;
  try {
    (void)planner::parts_of(sweep.base.profile, parallel, sweep.base.conditions.recompute);
    for (const double workers : sweep.workers().values)
      (void)planner::process_groups(parallel, sweep.base.network, static_cast<std::int64_t>(workers));
  } catch (const core::Unsupported& problem) {
    place.expected(problem.expected(), problem.got());
  }
}

/// Rejects axes of stages where there are none, and stages that the scenario's reader would refuse.
void check_stage_axes(const Sweep& sweep, const Field& field) {
  if (sweep.base.parallel && find(sweep.axes, Quantity::sigma) != nullptr)
    field.at("sigma").expected("no sigma beside the key parallel");
  const Axis* pipeline = find(sweep.axes, Quantity::pipeline_stages);
  const Axis* micro_batches = find(sweep.axes, Quantity::micro_batches);
  if (pipeline == nullptr && micro_batches == nullptr) return;
  const Field first = field.at(name(pipeline ? Quantity::pipeline_stages : Quantity::micro_batches));
  if (!sweep.base.parallel || !sweep.base.file.at("parallel").has("stages"))
    first.expected("a scenario with the key parallel and its stages", "one without");
  const planner::Stages& stages = sweep.base.parallel->stages;
  if (stages.order == planner::StageOrder::listed)
    first.expected(
        "a schedule of stages that has a name, as listed passes hold for one number of micro-batches",
        "passes");
  if (pipeline && (!stages.layers.empty() || stages.forward_us))
    first.expected("stages without layers, forward_us and backward_us, which hold for one number of stages",
                   "some");
  const auto values = [](const Axis* axis, std::int64_t own) {
    return axis ? axis->values : std::vector<double>{static_cast<double>(own)};
  };
  for (const double stage_count : values(pipeline, sweep.base.parallel->pipeline)) {
    if (pipeline) check_stages(sweep, first, static_cast<std::int64_t>(stage_count));
    if (stage_count == 1 && !sweep.base.parallel->tied_tensors.empty())
      first.expected("2 stages or more beside tied_tensors", "1");
    if (stages.order != planner::StageOrder::interleaved) continue;
    if (stage_count == 1) first.expected("2 stages or more for interleaved", "1");
    for (const double count : values(micro_batches, stages.micro_batches))
      if (std::fmod(count, stage_count) != 0)
        first.expected("micro-batches that are a multiple of the stages, as interleaved needs",
                       fmt::format("{} for {} stages", count, stage_count));
  }
}

/// Rejects axes that have no effect.
void check_axes(const Sweep& sweep, const Field& field) {
  check_stage_axes(sweep, field);
  if (find(sweep.axes, Quantity::line_rate_gbps) != nullptr && !sweep.base.network.line_rate_gbps)
    field.at("line_rate_gbps")
        .expected("a network with a line_rate_gbps, or bandwidth_factor in place of this", "one without");
  check_sigmas(sweep, field);
  if (find(sweep.axes, Quantity::seed) != nullptr && !greatest_jitter(sweep).any())
    field.at("seed").expected("a sigma above 0, in the sweep or in jitter", "none");
  if (find(sweep.axes, Quantity::density) == nullptr) return;
  std::vector<Schedule> schedules = sweep.base.schedules;
  bool any = false;
  bool any_measured = false;
  each_sparse(schedules, [&](const Compressor& sparse) {
    any = true;
    any_measured = any_measured || sparse.encode.curve || sparse.decode.curve;
  });
  if (any_measured)
    field.at("density").expected("compressors whose costs hold at any density, not measured at one",
                                 "curves or a file of costs");
  if (!any)
    field.at("density").expected("a schedule with a compressor that sends indices and values", "none");
}

std::string product_text(const Sweep& sweep) {
  std::vector<std::string> factors;
  for (const Axis& axis : sweep.axes)
    factors.push_back(fmt::format("{} {}", axis.values.size(), name(axis.quantity)));
  factors.push_back(fmt::format("{} schedules", sweep.base.schedules.size()));
  return fmt::format("{}", fmt::join(factors, " x "));
}

std::size_t checked_points(const Sweep& sweep, const Field& field) {
  auto points = static_cast<double>(sweep.base.schedules.size());
  for (const Axis& axis : sweep.axes) points *= static_cast<double>(axis.values.size());
  if (points > kMaxPoints)
    field.expected(fmt::format("a product of at most {:.0f} points", kMaxPoints),
                   fmt::format("{} = {:.0f}", product_text(sweep), points));
  return static_cast<std::size_t>(points);
}

/// If workers differ, each is simulated and must fit into memory and time.
void check_sizes(const Sweep& sweep, const Field& field) {
  Scenario scenario = sweep.base;
  scenario.conditions.jitter = greatest_jitter(sweep);
  const double max = scenarios::max_workers(scenario);
  const std::vector<double>& workers = sweep.workers().values;
  const std::int64_t placed = scenarios::placed_workers(scenario.conditions);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (workers[i] > static_cast<double>(placed))
      worker_field(field, i).expected(fmt::format("at most the {} workers that the topology places", placed));
    if (workers[i] > max)
      worker_field(field, i).expected(
          fmt::format("at most {:.0f} workers each by itself with this fidelity, a profile of this size and "
                      "{} iterations",
                      max, scenario.conditions.iterations));
  }
}

/// Whether greater values lengthen a point's iteration time.
bool lasts_longer(Quantity quantity) {
  return quantity != Quantity::bandwidth_factor && quantity != Quantity::line_rate_gbps &&
         quantity != Quantity::pipeline_stages;
}

/// The combination with the longest or the shortest iteration time.
std::size_t extreme_combination(const Sweep& sweep, bool longest) {
  std::size_t out = 0;
  for (std::size_t i = 0; i + 1 < sweep.axes.size(); ++i) {
    const std::vector<double>& values = sweep.axes[i].values;
    const bool greatest = lasts_longer(sweep.axes[i].quantity) == longest;
    const auto at = greatest ? std::ranges::max_element(values) : std::ranges::min_element(values);
    out = out * values.size() + static_cast<std::size_t>(at - values.begin());
  }
  return out;
}

/// Checks that everything has a cost and fits sim::Time, as far as possible without a run.
void check_costs(const Sweep& sweep, const Field& field, std::size_t combination) {
  const Scenario scenario = combined(sweep, combination);
  for (std::size_t i = 0; i < sweep.workers().values.size(); ++i) {
    const auto workers = static_cast<std::int64_t>(sweep.workers().values[i]);
    for (const Schedule& schedule : scenario.schedules) {
      try {
        if (scenario.parallel) {
          (void)scenarios::run_divided(scenario, workers, schedule);
          continue;
        }
        const planner::Setting setting(scenario.profile, scenario.network, workers,
                                       all_reduce(scenario, schedule), scenario.conditions);
        const planner::FusionRequest request = planner::request_of(setting, schedule);
      } catch (const core::Unsupported& problem) {
        if (problem.pointer() != core::Unsupported::kWorkers)
          scenarios::refuse(scenario, workers, schedule, problem);
        worker_field(field, i).expected(problem.expected(),
                                        fmt::format("{} (schedule '{}')", problem.got(), schedule.name));
      }
    }
  }
}

/// Sets the scenario's workers from the sweep's list and updates its warnings, such as those about
/// stragglers.
void take_workers(Sweep& sweep) {
  Scenario& base = sweep.base;
  if (find(sweep.axes, Quantity::workers) == nullptr) {
    sweep.axes.push_back({.quantity = Quantity::workers, .values = {}});
    for (const std::int64_t workers : base.workers)
      sweep.axes.back().values.push_back(static_cast<double>(workers));
    return;
  }
  base.workers.clear();
  for (const double workers : sweep.workers().values)
    base.workers.push_back(static_cast<std::int64_t>(workers));
  base.warnings = scenarios::warnings_about(base);
}

/// The text of the plan files that schedules name; empty if there are none.
std::string plan_files(const Field& scenario) {
  std::string out;
  const std::optional<Field> schedules = scenario.find("schedules");
  if (!schedules) return out;
  for (const Field& schedule : schedules->items()) {
    const std::optional<Field> fusion = schedule.is_object() ? schedule.find("fusion") : std::nullopt;
    const std::optional<Field> file = fusion && fusion->is_object() ? fusion->find("file") : std::nullopt;
    if (!file || !file->is_text()) continue;
    try {
      out += fingerprint(core::read_file(file->path()));
    } catch (const std::system_error& error) {
      file->expected("the path of a file that can be read", error.code().message());
    }
  }
  return out;
}

}  // namespace

std::vector<std::size_t> place(const Sweep& sweep, std::size_t point) {
  std::vector<std::size_t> out(sweep.axes.size());
  std::size_t rest = point / sweep.base.schedules.size();
  for (std::size_t i = sweep.axes.size(); i-- > 0;) {
    out[i] = rest % sweep.axes[i].values.size();
    rest /= sweep.axes[i].values.size();
  }
  return out;
}

Scenario combined(const Sweep& sweep, std::size_t combination) {
  Scenario out = sweep.base;
  combine(sweep, combination, out);
  return out;
}

void combine(const Sweep& sweep, std::size_t combination, Scenario& of_base) {
  const std::vector<std::size_t> at = place(sweep, combination * sweep.points_per_combination());
  of_base.network = sweep.base.network;
  of_base.schedules = sweep.base.schedules;
  of_base.conditions = sweep.base.conditions;
  of_base.parallel = sweep.base.parallel;
  if (find(sweep.axes, Quantity::batch_size) != nullptr) of_base.profile = sweep.base.profile;
  for (std::size_t i = 0; i + 1 < sweep.axes.size(); ++i)
    apply(of_base, sweep.axes[i].quantity, sweep.axes[i].values[at[i]]);
}

Sweep read_sweep(const Field& scenario) {
  Sweep out = {.base = scenarios::read_scenario(scenario, true), .axes = {}};
  if (!scenario.has("sweep"))
    scenario.expected(
        R"(a key "sweep" with what varies, such as {"workers": [4, 8], "line_rate_gbps": [10, 25]})",
        "a scenario without");
  const Field field = scenario.at("sweep");
  if (const auto job = scenario.find("job")) job->expected("none in a scenario that is swept");
  out.axes = read_axes(field);
  take_workers(out);
  check_axes(out, field);
  out.points = checked_points(out, field);
  check_sizes(out, scenario);
  const std::size_t longest = extreme_combination(out, true);
  const std::size_t shortest = extreme_combination(out, false);
  check_costs(out, scenario, longest);
  if (shortest != longest) check_costs(out, scenario, shortest);
  return out;
}

std::string size_text(const Sweep& sweep) {
  return fmt::format("{} point{} ({})", sweep.points, sweep.points == 1 ? "" : "s", product_text(sweep));
}

Inputs inputs(const Sweep& sweep, std::string_view scenario_text) {
  Inputs out = {{"scenario", fingerprint(scenario_text)},
                {"profile", fingerprint(profile_text(sweep.base.profile))},
                {"network", fingerprint(network_text(sweep.base.network))}};
  if (const std::string plans = plan_files(sweep.base.file); !plans.empty())
    out.emplace_back("plans", fingerprint(plans));
  return out;
}

std::string fingerprint(std::string_view text) { return fmt::format("{:016x}", sim::fnv1a(text)); }

}  // namespace sweep
