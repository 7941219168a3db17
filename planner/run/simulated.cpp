#include "planner/run/simulated.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "planner/graph/lower.hpp"
#include "planner/graph/task_factors.hpp"
#include "planner/pipeline/whole_segments.hpp"
#include "sim/simulate.hpp"

namespace planner {
namespace {

using sim::Time;

double down_us(const Conditions& conditions) {
  double us = 0;
  for (const Failure& failure : conditions.failures) us += failure.at_us + failure.down_us.value_or(0);
  return us;
}

/// The time of coding and ticks, and of collectives by formula.
double communication_us(const Setting& setting, const CommunicationPlan& plan) {
  const auto steps = static_cast<std::uint32_t>(setting.conditions.accumulation_steps);
  double us = 0;
  double last_tick = 0;
  std::vector<TransferCost> transfers;  // with the costs of the costliest iteration
  for (const TransferCost& transfer : plan.transfers) transfers.push_back(transfer.in_iteration(0));
  for (const Group& group : plan.groups) {
    const TransferCost& transfer = transfers[group.transfer];
    if (transfer.encodes() || transfer.decodes())
      us += (plan.program.reduces_each_batch ? steps : 1) *
                transfer.encode_us(payload_of(setting.workload, group)) +
            transfer.decode_us(payload_of(setting.workload, group));
    last_tick = std::max(last_tick, sim::to_us(group.tick));
  }
  if (setting.conditions.fidelity != Fidelity::closed) return us + last_tick;
  us += sim::to_us(setting.extras.lars_gather);
  for (const Op& op : plan.program.ops) {
    const Group& group = plan.groups[op.group];
    us += plan.program.runs(op, steps) *
          (transfers[group.transfer].us(op.kind, payload_of(setting.workload, group)) +
           sim::to_us(plan.program.negotiation));
  }
  return us + last_tick;
}

/// All workers individually, with slowdowns relative to a workload without slowdown.
std::vector<Worker> all_workers(const Setting& setting) {
  const std::vector<double> all = slowdowns(setting);
  std::vector<Worker> out;
  out.reserve(all.size());
  for (const double slowdown : all)
    out.push_back({.id = static_cast<std::int64_t>(out.size()), .slowdown = slowdown});
  return out;
}

Job job_for(const Setting& setting, const CommunicationPlan& plan, std::span<const TransferCost> transfers,
            std::vector<Worker> workers) {
  const Conditions& conditions = setting.conditions;
  return {.workload = setting.workload,
          .transfers = transfers,
          .program = plan.program,
          .groups = plan.groups,
          .extras = setting.extras,
          .overlap = conditions.overlap,
          .jitter = conditions.jitter,
          .workers = std::move(workers),
          .iterations = static_cast<std::uint32_t>(conditions.iterations),
          .micro_batches = static_cast<std::uint32_t>(conditions.accumulation_steps),
          .channels = plan.program.by_layer ? 1 : conditions.channels,
          .has_spikes = true};
}

/// Throws Unsupported if the conditions need an ordered channel, or if there are too many tasks: with jitter
/// every worker has its own.
void check_by_layer(const Setting& setting, const CommunicationPlan& plan) {
  const Conditions& conditions = setting.conditions;
  if (conditions.needs_channel_in_order())
    throw Unsupported(std::string(kPipelineInOrder), "one that goes by layer");
  constexpr double kMaxTasks = 3e7;  // less than 2 GiB
  const double tasks = (2 * static_cast<double>(setting.workload.profile->layers.size()) +
                        3 * static_cast<double>(plan.groups.size())) *
                       static_cast<double>(conditions.iterations);
  const auto workers = static_cast<double>(setting.costs.workers());
  if (conditions.jitter.any() && tasks * workers > kMaxTasks)
    throw Unsupported(
        fmt::format("at most {:.0f} workers with jitter and a channel that goes by layer", kMaxTasks / tasks),
        fmt::to_string(setting.costs.workers()));
}

/// The setting without stragglers, which are simulated individually.
Setting nominal_of(const Setting& setting, const Jitter& jitter) {
  Conditions unslowed = setting.conditions;
  unslowed.stragglers.clear();
  unslowed.worker_spread = 0;
  unslowed.jitter = jitter;
  return {*setting.workload.profile, *setting.network, setting.costs.workers(), setting.costs.algorithm(),
          unslowed};
}

std::vector<TransferCost> at_full_speed(const std::vector<TransferCost>& transfers) {
  std::vector<TransferCost> out;
  out.reserve(transfers.size());
  for (const TransferCost& transfer : transfers) out.push_back(transfer.at_full_speed());
  return out;
}

/// The slowest worker, or the first.
std::int64_t shown_worker(const Setting& setting) {
  const std::vector<double> all = slowdowns(setting);
  return std::ranges::max_element(all) - all.begin();
}

/// Without random factors the slowest worker represents all.
Simulated simulate_graph(const Setting& setting, CommunicationPlan plan) {
  Lowered lowered = setting.conditions.jitter.any()
                        ? lower_every_worker(setting, plan)
                        : lower(job_for(setting, plan, plan.transfers, {Worker{}}));
  sim::Timeline timeline = sim::simulate(lowered.graph);
  std::vector<Time> marks;
  for (const auto& mark : lowered.marks) marks.push_back(at_mark(mark, timeline));
  return {{std::move(plan), std::move(lowered)}, std::move(timeline), std::move(marks), std::nullopt};
}

Simulated simulate_by_worker(const Setting& setting, CommunicationPlan plan, bool with_path) {
  const std::vector<TransferCost> transfers = at_full_speed(plan.transfers);
  const Setting nominal = nominal_of(setting, {});
  Lowered lowered = lower(job_for(nominal, plan, transfers, {Worker{}}));
  Executable executable = {std::move(plan), std::move(lowered)};
  AllWorkers all = simulate_all_workers(setting, executable, {shown_worker(setting)}, with_path);
  sim::Timeline timeline = all.shown.front().timeline;
  std::vector<Time> marks;
  for (const auto& mark : all.marks) marks.push_back(*std::ranges::max_element(mark));
  return {std::move(executable), std::move(timeline), std::move(marks), std::move(all)};
}

}  // namespace

void check_run(const Setting& setting, const CommunicationPlan& plan) {
  const Conditions& conditions = setting.conditions;
  check_undivided(setting, plan.program, plan.groups);
  double us = checked_compute_us(*setting.workload.profile, conditions, setting.slowdown);
  if (setting.costs.workers() > 1) us += communication_us(setting, plan);
  us *= 1 + std::max(conditions.overlap.compute_slowdown, conditions.overlap.communication_slowdown);
  us *= longest_draw(setting);
  const double all = us * (static_cast<double>(conditions.iterations) + 1) + down_us(conditions);
  if (all > sim::kMaxUs) too_long(all);
}

Simulated simulate_groups(const Setting& setting, const Schedule& schedule, Groups groups,
                          std::vector<TransferCost> transfers, bool with_path) {
  Program program = schedule.pipeline->program(static_cast<std::uint32_t>(groups.size()),
                                               for_model(schedule.options, setting.workload));
  if (!transfers.front().is_replicated())
    std::erase_if(program.ops, [](const Op& op) { return op.issue == Issue::scattered; });
  CommunicationPlan plan = {
      .groups = std::move(groups), .transfers = std::move(transfers), .program = std::move(program)};
  check_run(setting, plan);
  const bool is_by_layer = plan.program.by_layer.has_value();
  if (is_by_layer) check_by_layer(setting, plan);
  if (plan.program.has_channel_between() && setting.conditions.workers_differ())
    throw Unsupported("workers that are alike, where several shard groups hold the parameters",
                      "jitter, failures or collectives rank by rank", "/schedules");
  const bool by_worker =
      setting.conditions.workers_differ() && !setting.conditions.overlap.slows() && !is_by_layer;
  return within_clock([&] {
    return by_worker ? simulate_by_worker(setting, std::move(plan), with_path)
                     : simulate_graph(setting, std::move(plan));
  });
}

Simulated simulate_workers_of(const Setting& setting, const CommunicationPlan& plan) {
  return within_clock([&] { return simulate_by_worker(setting, plan, true); });
}

Lowered lower_every_worker(const Setting& setting, const CommunicationPlan& plan) {
  const std::vector<TransferCost> transfers = at_full_speed(plan.transfers);
  const Setting nominal = nominal_of(setting, setting.conditions.jitter);
  return lower(job_for(nominal, plan, transfers, all_workers(setting)));
}

Lowered lower_one_worker(const Setting& setting, const CommunicationPlan& plan, std::uint32_t iterations) {
  const std::vector<TransferCost> transfers = at_full_speed(plan.transfers);
  const Setting nominal = nominal_of(setting, {});
  Job job = job_for(nominal, plan, transfers, {Worker{}});
  job.overlap = {};
  job.iterations = iterations;
  job.channels = 1;
  job.has_free_codes = true;
  return lower(job);
}

}  // namespace planner
