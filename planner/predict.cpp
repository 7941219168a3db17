#include "planner/predict.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace planner {
namespace {

using sim::Time;
using traces::CollectiveKind;

/// Of the workers that exist, the one that computes slowest; workers that are no stragglers have slowdown 1.
double worst_slowdown(const Conditions& conditions, std::int64_t workers) {
  double worst = 0;
  std::int64_t stragglers = 0;
  for (const Conditions::Straggler& straggler : conditions.stragglers) {
    if (straggler.worker >= workers) continue;
    worst = std::max(worst, straggler.slowdown);
    ++stragglers;
  }
  return stragglers == workers ? worst : std::max(worst, 1.0);
}

/// The all-gather of the parallel tensor operator: 4 bytes a layer.
Time lars_gather(const traces::Profile& profile, const Costs& costs, const Conditions& conditions) {
  if (!conditions.parallel_tensor_operator || costs.workers() == 1) return Time::zero();
  return costs.of(CollectiveKind::all_gather).time(4 * static_cast<std::int64_t>(profile.layers.size()));
}

Extras make_extras(const traces::Profile& profile, const Costs& costs, const Conditions& conditions) {
  const double slowdown = worst_slowdown(conditions, costs.workers());
  const double lars_us = conditions.parallel_tensor_operator
                             ? conditions.lars_us / static_cast<double>(costs.workers())
                             : conditions.lars_us;
  const bool apart = conditions.parallel_tensor_operator;
  return {.read = sim::from_us(conditions.read_is_overlapped ? 0 : conditions.read_us),
          .update = sim::from_us((conditions.optimizer_us + (apart ? 0 : lars_us)) * slowdown),
          .lars = sim::from_us(apart ? lars_us * slowdown : 0),
          .lars_gather = lars_gather(profile, costs, conditions)};
}

[[noreturn]] void too_long(double us) {
  throw NoCost(fmt::format("times that add up to at most {} us over all iterations", sim::kMostUs),
               fmt::format("{:.6g}", us));
}

/// All that is computed must fit the clock, on the slowest worker and on the one that speed-ups are against;
/// checked before anything is rounded to it.
double checked_compute_us(const traces::Profile& profile, const Conditions& conditions, double slowdown) {
  const double us =
      static_cast<double>(conditions.accumulation_steps) *
          (traces::forward_us(profile) + traces::backward_us(profile)) * std::max(slowdown, 1.0) +
      conditions.read_us + (conditions.optimizer_us + conditions.lars_us) * std::max(slowdown, 1.0);
  const double all = us * (static_cast<double>(conditions.iterations) + 1);
  if (all > sim::kMostUs) too_long(all);
  return us;
}

/// No planner meets a time over a quarter of the clock, however it groups.
void check_planning(const Workload& workload, const CollectiveCost& cost) {
  const auto bytes = static_cast<double>(workload.bytes());
  const auto count = static_cast<double>(workload.gradients.size());
  const double us = cost.is_measured ? count * cost.curve.most_us(bytes)
                                     : (count - 1) * cost.curve.startup_us() + cost.curve.us(bytes);
  if (us > sim::kMostUs / 4)
    throw NoCost(fmt::format("collectives that take at most {} us in all, however tensors are grouped",
                             sim::kMostUs / 4),
                 fmt::format("up to {:.6g}", us));
}

/// The communication of the chosen groups, their ticks included, as often as it is run.
void check_run(const Setting& setting, const Run& run) {
  if (setting.costs.workers() == 1) return;
  double us = sim::to_us(setting.extras.lars_gather);
  for (const Op& op : run.program.ops) {
    const Group& group = run.groups[op.group];
    us += setting.costs.of(op.kind).curve.us(static_cast<double>(setting.workload.bytes_before[group.end] -
                                                                 setting.workload.bytes_before[group.begin]));
  }
  double last_tick = 0;
  for (const Group& group : run.groups) last_tick = std::max(last_tick, sim::to_us(group.tick));
  us += last_tick + checked_compute_us(*setting.workload.profile, setting.conditions,
                                       worst_slowdown(setting.conditions, setting.costs.workers()));
  const double all = us * (static_cast<double>(setting.conditions.iterations) + 1);
  if (all > sim::kMostUs) too_long(all);
}

Time at_mark(const std::vector<sim::TaskId>& mark, const sim::Timeline& timeline) {
  Time at{};
  for (const sim::TaskId task : mark) at = std::max(at, timeline.spans[sim::index(task)].end);
  return at;
}

std::vector<std::int64_t> group_sizes(const Workload& workload, const Groups& groups) {
  std::vector<std::int64_t> sizes;
  for (const Group& group : groups)
    sizes.push_back(workload.bytes_before[group.end] - workload.bytes_before[group.begin]);
  return sizes;
}

std::vector<Doubt> find_doubts(const Setting& setting, const Program& program, const Groups& groups) {
  std::vector<Doubt> out;
  if (setting.costs.workers() == 1) return out;
  bool measured = false;
  bool closed = false;
  const auto add = [&](CollectiveKind kind, const std::vector<std::int64_t>& sizes) {
    (setting.costs.of(kind).is_measured ? measured : closed) = true;
    for (Doubt& doubt : setting.costs.doubts(kind, sizes)) out.push_back(std::move(doubt));
  };
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather})
    if (std::any_of(program.ops.begin(), program.ops.end(), [&](const Op& op) { return op.kind == kind; }))
      add(kind, group_sizes(setting.workload, groups));
  if (setting.extras.lars_gather > Time::zero())
    add(CollectiveKind::all_gather, {4 * static_cast<std::int64_t>(setting.workload.forward.size())});
  if (measured && closed) {
    const std::string text = fmt::format(
        "{} workers: closed forms are mixed with measurements in one schedule", setting.costs.workers());
    out.push_back({.subject = text, .weight = 0, .text = text});
  }
  return out;
}

/// One worker, no straggler: forward, backward and update, and whatever of reading is not hidden.
double one_worker_us(const Setting& setting, const traces::Profile& profile) {
  const Conditions& conditions = setting.conditions;
  const Workload alone = make_workload(profile);
  const Time compute = conditions.accumulation_steps * (alone.forward_total + alone.backward_total) +
                       sim::from_us(conditions.optimizer_us + conditions.lars_us);
  if (conditions.read_is_overlapped) return std::max(sim::to_us(compute), conditions.read_us);
  return sim::to_us(compute + sim::from_us(conditions.read_us));
}

/// The busy time of the channel and what each worker sends, in one iteration.
void add_communication(const Setting& setting, const Program& program, const Groups& groups,
                       Prediction& prediction) {
  if (setting.costs.workers() == 1) return;
  const std::vector<std::int64_t> sizes = group_sizes(setting.workload, groups);
  Time busy = setting.extras.lars_gather;
  for (const Op& op : program.ops) {
    const CollectiveCost& cost = setting.costs.of(op.kind);
    busy += cost.time(sizes[op.group]);
    prediction.bytes_sent_per_worker += cost.sent_per_byte * static_cast<double>(sizes[op.group]);
  }
  if (setting.extras.lars_gather > Time::zero())
    prediction.bytes_sent_per_worker += setting.costs.of(CollectiveKind::all_gather).sent_per_byte * 4 *
                                        static_cast<double>(setting.workload.forward.size());
  prediction.communication_us = sim::to_us(busy);
}

Prediction measure(const Setting& setting, const Run& run) {
  const Conditions& conditions = setting.conditions;
  const Workload& workload = setting.workload;
  const auto& marks = run.lowered.marks;
  const std::size_t from = marks.size() > 2 ? 1 : 0;  // the first iteration is left out if there is another
  const auto iterations = static_cast<std::int64_t>(marks.size() - 1 - from);
  const Time length = at_mark(marks.back(), run.timeline) - at_mark(marks[from], run.timeline);
  const auto per_iteration = [&](Time time) { return sim::to_us(time) / static_cast<double>(iterations); };

  const Time forward = conditions.accumulation_steps * workload.forward_total;
  const Time backward = conditions.accumulation_steps * workload.backward_total;
  const Time update = setting.extras.update + setting.extras.lars;
  const Time hidden = iterations * (forward + backward + update + setting.extras.read);

  Prediction out;
  out.workers = setting.costs.workers();
  out.groups = static_cast<std::int64_t>(run.groups.size());
  out.iteration_us = per_iteration(length);
  out.exposed_communication_us = per_iteration(length - hidden);
  if (conditions.read_is_overlapped) out.iteration_us = std::max(out.iteration_us, conditions.read_us);
  out.forward_us = sim::to_us(forward);
  out.backward_us = sim::to_us(backward);
  out.update_us = sim::to_us(update);
  out.read_us = sim::to_us(setting.extras.read);
  add_communication(setting, run.program, run.groups, out);

  const auto workers = static_cast<double>(out.workers);
  const auto samples = static_cast<double>(workload.profile->batch_size) *
                       static_cast<double>(conditions.accumulation_steps) * workers;
  constexpr double kUsPerSecond = 1e6;
  out.throughput_samples_per_s = samples / out.iteration_us * kUsPerSecond;
  out.speedup = workers * one_worker_us(setting, *workload.profile) / out.iteration_us;
  out.scaling_efficiency = out.speedup / workers;
  return out;
}

}  // namespace

Setting::Setting(const traces::Profile& profile, const traces::Network& network, std::int64_t workers,
                 const Algorithm& all_reduce, Conditions given)
    : conditions(std::move(given)), costs(network, workers, all_reduce) {
  const double slowdown = worst_slowdown(conditions, workers);
  checked_compute_us(profile, conditions, slowdown);
  workload = make_workload(profile, slowdown);
  if (workload.forward_total + workload.backward_total == Time::zero())
    throw NoCost("compute times of at least 1 picosecond in all", "less");
  extras = make_extras(profile, costs, conditions);
}

Run run(const Setting& setting, const Schedule& schedule) {
  Run out;
  for (const Op& op : schedule.pipeline->program(1, schedule.options).ops)
    check_planning(setting.workload, setting.costs.of(op.kind));
  out.groups = schedule.fusion.fuse(
      {setting.workload, setting.costs, setting.extras, *schedule.pipeline, schedule.options, &out.doubts});
  out.program = schedule.pipeline->program(static_cast<std::uint32_t>(out.groups.size()), schedule.options);
  check_run(setting, out);
  const Job job = {.workload = setting.workload,
                   .costs = setting.costs,
                   .program = out.program,
                   .groups = out.groups,
                   .extras = setting.extras,
                   .iterations = static_cast<std::uint32_t>(setting.conditions.iterations),
                   .micro_batches = static_cast<std::uint32_t>(setting.conditions.accumulation_steps)};
  out.lowered = lower(job);
  out.timeline = sim::simulate(out.lowered.graph);
  out.prediction = measure(setting, out);
  for (Doubt& doubt : find_doubts(setting, out.program, out.groups)) out.doubts.push_back(std::move(doubt));
  return out;
}

double lower_bound_us(const Setting& setting, const Schedule& schedule) {
  const Conditions& conditions = setting.conditions;
  const std::int64_t further = conditions.accumulation_steps - 1;
  const Time bound =
      schedule.pipeline->lower_bound(setting.workload, setting.costs, schedule.options, setting.extras) +
      further * (setting.workload.forward_total + setting.workload.backward_total);
  return conditions.read_is_overlapped ? std::max(sim::to_us(bound), conditions.read_us) : sim::to_us(bound);
}

}  // namespace planner
