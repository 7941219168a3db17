#include "planner/run/predict.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "planner/graph/task_factors.hpp"
#include "sim/draws.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

std::int64_t group_bytes(const Setting& setting, const Group& group) {
  return bytes_of(setting.workload, group);
}

/// No planner meets a time over a quarter of the clock, however it groups.
void check_planning(const Workload& workload, const TransferCost& transfer, CollectiveKind kind) {
  const auto bytes = static_cast<double>(workload.bytes());
  const auto count = static_cast<double>(workload.gradients.size());
  const CollectiveCost& cost = transfer.costs().of(transfer.carrier(kind));
  const bool is_closed = !cost.is_measured && transfer.transfer().compressor.is_none();
  const double us = is_closed ? (count - 1) * cost.curve.startup_us() + cost.curve.us(bytes)
                              : count * transfer.max_us(kind, workload.bytes());
  if (us > sim::kMaxUs / 4)
    throw Unsupported(fmt::format("collectives that take at most {} us in all, however tensors are grouped",
                                  sim::kMaxUs / 4),
                      fmt::format("up to {:.6g}", us));
}

/// The longest that a draw makes a task of one microsecond.
double longest_draw(const Setting& setting) {
  const Jitter& jitter = setting.conditions.jitter;
  const double sigma = TaskSigmas(setting).max();
  if (jitter.distribution == Jitter::Distribution::normal) return 1 + sim::kFurthestNormal * sigma;
  return sim::longest_lognormal(sigma);
}

double down_us(const Conditions& conditions) {
  double us = 0;
  for (const Failure& failure : conditions.failures) us += failure.at_us + failure.down_us.value_or(0);
  return us;
}

double communication_us(const Setting& setting, const Run& run) {
  const auto steps = static_cast<std::uint32_t>(setting.conditions.accumulation_steps);
  double us = sim::to_us(setting.extras.lars_gather);
  double last_tick = 0;
  std::vector<TransferCost> transfers;  // of the costliest iteration
  for (const TransferCost& transfer : run.transfers) transfers.push_back(transfer.in_iteration(0));
  for (const Group& group : run.groups) {
    const TransferCost& transfer = transfers[group.transfer];
    us += transfer.encode_us(group_bytes(setting, group)) + transfer.decode_us(group_bytes(setting, group));
    last_tick = std::max(last_tick, sim::to_us(group.tick));
  }
  for (const Op& op : run.program.ops) {
    const Group& group = run.groups[op.group];
    us += Program::runs(op, steps) * (transfers[group.transfer].us(op.kind, group_bytes(setting, group)) +
                                      sim::to_us(run.program.negotiation));
  }
  return us + last_tick;
}

/// Rank by rank: how much longer than on equal links a message may take, as long as no links are shared.
double longest_message(const Conditions& conditions) {
  if (conditions.fidelity == Fidelity::closed) return 1;
  double slowdown = 1;
  for (const Straggler& slow : conditions.links.slow) slowdown = std::max(slowdown, slow.slowdown);
  return slowdown * sim::longest_lognormal(conditions.links.sigma);
}

/// The communication of the chosen groups, their ticks included, as often as it is run.
void check_run(const Setting& setting, const Run& run) {
  const Conditions& conditions = setting.conditions;
  double us = checked_compute_us(*setting.workload.profile, conditions, setting.slowdown);
  if (setting.costs.workers() > 1) us += communication_us(setting, run) * longest_message(conditions);
  us *= 1 + std::max(conditions.overlap.compute_slowdown, conditions.overlap.communication_slowdown);
  us *= longest_draw(setting);
  const double all = us * (static_cast<double>(conditions.iterations) + 1) + down_us(conditions);
  if (all > sim::kMaxUs) too_long(all);
}

/// About the groups that travel one way: what they are to the collective that carries them.
void add_warnings(const TransferCost& transfer, CollectiveKind kind, const std::vector<std::int64_t>& sizes,
                  std::vector<Warning>& warnings) {
  std::map<CollectiveKind, std::vector<std::int64_t>> messages;
  for (const std::int64_t size : sizes)
    if (!transfer.is_sparse() || !transfer.is_encoded(size))  // a closed form: nothing was measured
      messages[transfer.is_encoded(size) ? transfer.carrier(kind) : kind].push_back(
          std::llround(transfer.message_bytes(kind, size)));
  for (const auto& [carrier, bytes] : messages)
    for (Warning& warning : transfer.costs().warnings(carrier, bytes)) warnings.push_back(std::move(warning));
}

/// Where groups are larger than what was encoded and decoded.
void add_code_warnings(const TransferCost& transfer, const std::vector<std::int64_t>& sizes,
                       std::vector<Warning>& warnings) {
  const Compressor& compressor = transfer.transfer().compressor;
  double max = 0;
  for (const std::int64_t size : sizes)
    if (transfer.is_encoded(size)) max = std::max(max, static_cast<double>(size));
  for (const CodeCost* cost : {&compressor.encode, &compressor.decode}) {
    if (!cost->curve || max <= cost->curve->measured_up_to_bytes()) continue;
    const std::string what = fmt::format("compressor {}", compressor.name);
    warnings.push_back(
        {.subject = "extrapolation: " + what,
         .weight = max,
         .text = fmt::format("{}: measured up to {:.0f} bytes, the last line is continued to {:.0f}", what,
                             cost->curve->measured_up_to_bytes(), max)});
    return;
  }
}

std::vector<std::int64_t> sizes_that_travel(const Setting& setting, const Run& run, std::uint32_t transfer) {
  std::vector<std::int64_t> out;
  for (const Group& group : run.groups)
    if (group.transfer == transfer) out.push_back(group_bytes(setting, group));
  return out;
}

std::vector<Warning> find_warnings(const Setting& setting, const Run& run) {
  std::vector<Warning> out;
  if (setting.costs.workers() == 1) return out;
  bool measured = false;
  bool closed = false;
  const auto note = [&](const CollectiveCost& cost) { (cost.is_measured ? measured : closed) = true; };
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    if (std::none_of(run.program.ops.begin(), run.program.ops.end(),
                     [&](const Op& op) { return op.kind == kind; }))
      continue;
    for (std::uint32_t transfer = 0; transfer < run.transfers.size(); ++transfer) {
      const std::vector<std::int64_t> sizes = sizes_that_travel(setting, run, transfer);
      if (sizes.empty()) continue;
      const TransferCost& cost = run.transfers[transfer];
      if (cost.is_sparse())
        closed = true;
      else
        note(cost.costs().of(cost.carrier(kind)));
      add_warnings(cost, kind, sizes, out);
      add_code_warnings(cost, sizes, out);
    }
  }
  if (setting.extras.lars_gather > Time::zero()) {
    const auto bytes = 4 * static_cast<std::int64_t>(setting.workload.forward.size());
    note(setting.costs.of(CollectiveKind::all_gather));
    for (Warning& warning : setting.costs.warnings(CollectiveKind::all_gather, {bytes}))
      out.push_back(std::move(warning));
  }
  if (measured && setting.conditions.fidelity != Fidelity::closed) {
    const std::string text = fmt::format(
        "{} workers: measured curves are for closed collectives, rank by rank link or levels are looked at",
        setting.costs.workers());
    out.push_back({.subject = text, .weight = 0, .text = text});
  }
  if (measured && closed) {
    const std::string text = fmt::format(
        "{} workers: closed forms are mixed with measurements in one schedule", setting.costs.workers());
    out.push_back({.subject = text, .weight = 0, .text = text});
  }
  return out;
}

/// Every worker by itself, against a workload that none of them slows.
std::vector<Worker> all_workers(const Setting& setting) {
  const std::vector<double> all = slowdowns(setting);
  std::vector<Worker> out;
  out.reserve(all.size());
  for (const double slowdown : all)
    out.push_back({.id = static_cast<std::int64_t>(out.size()), .slowdown = slowdown});
  return out;
}

Job job_for(const Setting& setting, const Run& run, std::span<const TransferCost> transfers,
            std::vector<Worker> workers) {
  const Conditions& conditions = setting.conditions;
  return {.workload = setting.workload,
          .transfers = transfers,
          .program = run.program,
          .groups = run.groups,
          .extras = setting.extras,
          .overlap = conditions.overlap,
          .jitter = conditions.jitter,
          .workers = std::move(workers),
          .iterations = static_cast<std::uint32_t>(conditions.iterations),
          .micro_batches = static_cast<std::uint32_t>(conditions.accumulation_steps),
          .channels = run.program.by_layer ? 1 : conditions.channels,
          .has_spikes = true};
}

/// As Conditions::needs_channel_in_order() says; and all workers have tasks of their own.
void check_by_layer(const Setting& setting, const Run& run) {
  const Conditions& conditions = setting.conditions;
  if (conditions.needs_channel_in_order())
    throw Unsupported(std::string(kPipelineInOrder), "one that goes by layer");
  constexpr double kMaxTasks = 1e8;
  const double tasks = (2 * static_cast<double>(setting.workload.profile->layers.size()) +
                        3 * static_cast<double>(run.groups.size())) *
                       static_cast<double>(conditions.iterations);
  const auto workers = static_cast<double>(setting.costs.workers());
  if (conditions.jitter.any() && tasks * workers > kMaxTasks)
    throw Unsupported(
        fmt::format("at most {:.0f} workers with jitter and a channel that goes by layer", kMaxTasks / tasks),
        fmt::to_string(setting.costs.workers()));
}

/// The setting without stragglers, as those are each simulated by themselves.
Setting nominal_of(const Setting& setting, const Jitter& jitter) {
  Conditions unslowed = setting.conditions;
  unslowed.stragglers.clear();
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

/// The slowest, or the first.
std::int64_t shown_worker(const Setting& setting) {
  const std::vector<double> all = slowdowns(setting);
  return std::max_element(all.begin(), all.end()) - all.begin();
}

/// Where nothing is drawn the slowest stands for all.
void simulate_graph(const Setting& setting, Run& run) {
  run.lowered = setting.conditions.jitter.any() ? lower_every_worker(setting, run)
                                                : lower(job_for(setting, run, run.transfers, {Worker{}}));
  run.timeline = sim::simulate(run.lowered.graph);
  for (const auto& mark : run.lowered.marks) run.marks.push_back(at_mark(mark, run.timeline));
}

void simulate_by_worker(const Setting& setting, Run& run) {
  const std::vector<TransferCost> transfers = at_full_speed(run.transfers);
  const Setting nominal = nominal_of(setting, {});
  run.lowered = lower(job_for(nominal, run, transfers, {Worker{}}));
  run.all_workers = simulate_all_workers(setting, run, {shown_worker(setting)});
  run.timeline = run.all_workers->shown.front().timeline;
  for (const auto& mark : run.all_workers->marks)
    run.marks.push_back(*std::max_element(mark.begin(), mark.end()));
}

}  // namespace

FusionRequest::FusionRequest(const Setting& its_setting, const Schedule& its_schedule,
                             std::vector<Warning>* its_warnings)
    : setting(its_setting),
      schedule(its_schedule),
      workload(setting.workload),
      costs(setting.costs),
      extras(setting.extras),
      pipeline(*schedule.pipeline),
      options(schedule.options),
      overlap(setting.conditions.overlap),
      transfers(make_transfers(setting, schedule)),
      warnings(its_warnings) {
  for (const Op& op : pipeline.program(1, options).ops)
    for (const TransferCost& transfer : transfers) check_planning(workload, transfer, op.kind);
}

Run simulate_groups(const Setting& setting, const Schedule& schedule, Groups groups,
                    std::vector<TransferCost> transfers) {
  Run out;
  out.groups = std::move(groups);
  out.transfers = std::move(transfers);
  out.program = schedule.pipeline->program(static_cast<std::uint32_t>(out.groups.size()), schedule.options);
  check_run(setting, out);
  if (out.program.by_layer) check_by_layer(setting, out);
  if (setting.conditions.workers_differ() && !setting.conditions.overlap.slows() && !out.program.by_layer)
    simulate_by_worker(setting, out);
  else
    simulate_graph(setting, out);
  return out;
}

Run simulate_workers_of(const Setting& setting, const Run& run) {
  Run out;
  out.groups = run.groups;
  out.transfers = run.transfers;
  out.program = run.program;
  simulate_by_worker(setting, out);
  return out;
}

Lowered lower_every_worker(const Setting& setting, const Run& run) {
  const std::vector<TransferCost> transfers = at_full_speed(run.transfers);
  const Setting nominal = nominal_of(setting, setting.conditions.jitter);
  return lower(job_for(nominal, run, transfers, all_workers(setting)));
}

Lowered lower_one_worker(const Setting& setting, const Run& run, std::uint32_t iterations) {
  const std::vector<TransferCost> transfers = at_full_speed(run.transfers);
  const Setting nominal = nominal_of(setting, {});
  Job job = job_for(nominal, run, transfers, {Worker{}});
  job.overlap = {};
  job.iterations = iterations;
  job.channels = 1;
  job.has_free_codes = true;
  return lower(job);
}

Run run(const Setting& setting, const Schedule& schedule) {
  std::vector<Warning> warnings;
  FusionRequest request(setting, schedule, &warnings);
  Groups groups = schedule.fusion.fuse(request);
  Run out = simulate_groups(setting, schedule, std::move(groups), std::move(request.transfers));
  out.proof = request.proof;
  out.prediction = measure(setting, out);
  out.warnings = std::move(warnings);
  for (Warning& warning : find_warnings(setting, out)) out.warnings.push_back(std::move(warning));
  return out;
}

namespace {

/// Of the first micro-batch's iteration, with the further ones and the input.
double whole_iteration_us(const Setting& setting, Time first) {
  const Conditions& conditions = setting.conditions;
  const std::int64_t further = conditions.accumulation_steps - 1;
  const Time all = first + further * (setting.workload.forward_total + setting.workload.backward_total);
  return conditions.read_is_overlapped ? std::max(sim::to_us(all), conditions.read_us) : sim::to_us(all);
}

}  // namespace

double iteration_us(const Setting& setting, const FusionRequest& request, const Groups& groups) {
  return whole_iteration_us(setting, request.model().value(groups));
}

double lower_bound_us(const Setting& setting, const Schedule& schedule) {
  if (setting.conditions.fidelity != Fidelity::closed)  // links may be quicker than the closed costs
    return whole_iteration_us(setting, setting.workload.forward_total + setting.workload.backward_total);
  return whole_iteration_us(setting, FusionRequest(setting, schedule).model().lower_bound());
}

}  // namespace planner
