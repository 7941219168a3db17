#include "planner/run/metrics.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/host_stream.hpp"

namespace planner {
namespace {

using sim::Time;
using Kind = TaskLabel::Kind;

Time counted_length(const Simulated& simulated) {
  return simulated.marks.back() - simulated.marks[first_counted(simulated.lowered)];
}

Busy busy_when_alike(const Setting& setting, const CommunicationPlan& plan) {
  const std::int64_t steps = setting.conditions.accumulation_steps;
  Busy out = {.forward = steps * setting.workload.forward_total,
              .backward = steps * setting.workload.backward_total,
              .update = setting.extras.update + setting.extras.lars};
  for (const Group& group : plan.groups) {
    const TransferCost& transfer = plan.transfers[group.transfer];
    if (transfer.encodes())
      out.encode += (plan.program.reduces_each_batch ? steps : 1) *
                    transfer.encode(payload_of(setting.workload, group));
    if (transfer.decodes()) out.decode += transfer.decode(payload_of(setting.workload, group));
  }
  return out;
}

bool has_spikes(const CommunicationPlan& plan) {
  return std::ranges::any_of(plan.transfers, &TransferCost::has_spikes);
}

/// Busy times of every worker over the counted iterations, for graphs with streams for each worker.
std::vector<Busy> busy_in_graph(const Simulated& simulated, std::int64_t workers) {
  std::vector<Busy> all(static_cast<std::size_t>(workers));
  for (const sim::Task& task : simulated.lowered.graph.tasks()) {
    if (simulated.lowered.is_shared(task.stream)) continue;
    const TaskLabel label = TaskLabel::unpack(task.label);
    Time Busy::*const part = Busy::part(label.kind);
    if (part != nullptr && label.iteration >= first_counted(simulated, label.kind))
      all[Lowered::worker_of(task.stream)].*part += task.duration;
  }
  return all;
}

/// Mean busy time per iteration of the worker with the most compute.
Busy busy_of_slowest(const Simulated& simulated, const std::vector<Busy>& all) {
  Busy slowest = *std::ranges::max_element(
      all, [](const Busy& a, const Busy& b) { return a.forward + a.backward < b.forward + b.backward; });
  for (Time* part : {&slowest.forward, &slowest.backward, &slowest.encode, &slowest.decode, &slowest.update})
    *part /= counted(simulated.lowered);
  return slowest;
}

Busy busy_parts(const Setting& setting, const Simulated& simulated) {
  if (simulated.all_workers) return busy_of_slowest(simulated, simulated.all_workers->busy);
  if (setting.conditions.jitter.any())
    return busy_of_slowest(simulated, busy_in_graph(simulated, setting.costs.workers()));
  if (has_spikes(simulated)) return busy_of_slowest(simulated, busy_in_graph(simulated, 1));
  return busy_when_alike(setting, simulated);
}

/// Busy time of the channel per iteration: collectives take their cost, or longer if compute slows them down.
double channel_busy_us(const Simulated& simulated) {
  const auto iterations = static_cast<double>(counted(simulated.lowered));
  if (simulated.all_workers) return sim::to_us(simulated.all_workers->channel_busy) / iterations;
  const std::size_t from = first_counted(simulated.lowered);
  const auto tasks = simulated.lowered.graph.tasks();
  Time busy{};
  for (std::size_t i = 0; i < tasks.size(); ++i)
    if (simulated.lowered.is_channel(tasks[i].stream) && TaskLabel::unpack(tasks[i].label).iteration >= from)
      busy += simulated.timeline.spans[i].end - simulated.timeline.spans[i].start;
  return sim::to_us(busy) / iterations;
}

/// Mean over the counted iterations.
double sent_by_group(const Setting& setting, const Simulated& simulated, const Op& op) {
  const Group& group = simulated.groups[op.group];
  const TransferCost& transfer = simulated.transfers[group.transfer];
  const Payload payload = payload_of(setting.workload, group);
  if (!transfer.has_spikes()) return transfer.sent_bytes(op.kind, payload);
  double sent = 0;
  const std::int64_t iterations = counted(simulated.lowered);
  for (std::int64_t i = 0; i < iterations; ++i)
    sent += transfer.in_iteration(first_counted(simulated.lowered) + static_cast<std::size_t>(i))
                .sent_bytes(op.kind, payload);
  return sent / static_cast<double>(iterations);
}

/// `sent_by(op)`: the bytes of one collective.
template <typename SentBy>
double sent_per_worker(const Setting& setting, const CommunicationPlan& plan, const SentBy& sent_by) {
  if (setting.costs.workers() == 1) return 0;
  const auto steps = static_cast<std::uint32_t>(setting.conditions.accumulation_steps);
  double sent = 0;
  for (const Op& op : plan.program.ops) sent += plan.program.runs(op, steps) * sent_by(op);
  if (setting.extras.lars_gather > Time::zero())
    sent += setting.costs.of(core::CollectiveKind::all_gather).sent_per_byte * 4 *
            static_cast<double>(setting.workload.forward.size());
  return sent;
}

/// Forward, backward and update of one worker without slowdown, plus the reading that is not overlapped.
double one_worker_us(const Setting& setting) {
  Conditions conditions = setting.conditions;
  conditions.stragglers.clear();
  conditions.worker_spread = 0;
  conditions.failures.clear();
  const core::Profile& profile = *setting.workload.profile;
  double us = 0;
  if (conditions.jitter.any()) {
    const Setting alone(profile, *setting.network, 1, setting.costs.algorithm(), conditions);
    const Schedule schedule = preset_schedule("sync-easgd");
    Choice choice = choose(alone, schedule);
    us = sim::to_us(mean_iteration(
        simulate_groups(alone, schedule, std::move(choice.groups), std::move(choice.transfers), false)));
  } else {
    const auto compute = [](const Workload& workload) {
      return workload.forward_total + workload.backward_total;
    };
    const Time alone = setting.slowdown == 1 ? compute(setting.workload) : compute(make_workload(profile));
    us = sim::to_us(conditions.accumulation_steps * alone +
                    sim::from_us(conditions.optimizer_us + conditions.lars_us + conditions.lamb_us) +
                    sim::from_us(conditions.read_is_overlapped ? 0 : conditions.read_us));
  }
  us = std::max(us, core::host_bound_us(profile, conditions.accumulation_steps));
  return conditions.read_is_overlapped ? std::max(us, conditions.read_us) : us;
}

/// The counted iterations together, and what a worker does in one of them.
struct Measures {
  Time length{};
  std::int64_t iterations = 1;
  Busy busy;
  double channel_us = 0;
  double sent_bytes = 0;
};

Metrics metrics_of(const Setting& setting, const CommunicationPlan& plan, const Measures& measures) {
  const Conditions& conditions = setting.conditions;
  const std::int64_t iterations = measures.iterations;
  const Time length = measures.length;
  if (length == Time::zero())  // random factors may leave nothing of a few picoseconds
    throw Unsupported("iterations of at least 1 picosecond in all", "less", "/jitter");
  const auto per_iteration = [&](Time time) { return sim::to_us(time) / static_cast<double>(iterations); };
  const Busy& busy = measures.busy;

  Metrics out;
  out.workers = setting.costs.workers();
  out.groups = static_cast<std::int64_t>(plan.groups.size());
  out.iteration_us = per_iteration(length);
  // if workers drift apart, the slowest may begin its iteration before the mark
  out.exposed_communication_us =
      per_iteration(std::max(Time::zero(), length - iterations * (busy.all() + setting.extras.read)));
  out.iteration_us = std::max(out.iteration_us, host_us(setting));
  if (conditions.read_is_overlapped) out.iteration_us = std::max(out.iteration_us, conditions.read_us);
  out.forward_us = sim::to_us(busy.forward);
  out.backward_us = sim::to_us(busy.backward);
  out.encode_us = sim::to_us(busy.encode);
  out.decode_us = sim::to_us(busy.decode);
  out.update_us = sim::to_us(busy.update);
  out.read_us = sim::to_us(setting.extras.read);
  out.communication_us = measures.channel_us;
  out.bytes_sent_per_worker = measures.sent_bytes;

  const auto workers = static_cast<double>(out.workers);
  const auto samples = static_cast<double>(setting.workload.profile->batch_size) *
                       static_cast<double>(conditions.accumulation_steps) * workers;
  constexpr double kUsPerSecond = 1e6;
  out.throughput_samples_per_s = samples / out.iteration_us * kUsPerSecond;
  out.speedup = workers * one_worker_us(setting) / out.iteration_us;
  out.scaling_efficiency = out.speedup / workers;
  return out;
}

}  // namespace

Time mean_iteration(const Simulated& simulated) {
  return counted_length(simulated) / counted(simulated.lowered);
}

Metrics summarize(const Setting& setting, const Simulated& simulated) {
  const auto sent_by = [&](const Op& op) { return sent_by_group(setting, simulated, op); };
  return metrics_of(setting, simulated,
                    {.length = counted_length(simulated),
                     .iterations = counted(simulated.lowered),
                     .busy = busy_parts(setting, simulated),
                     .channel_us = channel_busy_us(simulated),
                     .sent_bytes = sent_per_worker(setting, simulated, sent_by)});
}

Metrics summarize(const Setting& setting, const CommunicationPlan& plan, Time iteration) {
  const std::int64_t iterations = std::max<std::int64_t>(1, setting.conditions.iterations - 1);
  const auto payload = [&](const Op& op) { return payload_of(setting.workload, plan.groups[op.group]); };
  const auto transfer = [&](const Op& op) -> const TransferCost& {
    return plan.transfers[plan.groups[op.group].transfer];
  };
  Time channel{};
  if (setting.costs.workers() > 1) {
    channel = setting.extras.lars_gather;
    for (const Op& op : plan.program.ops) channel += transfer(op).time(op.kind, payload(op));
  }
  return metrics_of(setting, plan,
                    {.length = iterations * iteration,
                     .iterations = iterations,
                     .busy = busy_when_alike(setting, plan),
                     .channel_us = sim::to_us(iterations * channel) / static_cast<double>(iterations),
                     .sent_bytes = sent_per_worker(setting, plan, [&](const Op& op) {
                       return transfer(op).sent_bytes(op.kind, payload(op));
                     })});
}

}  // namespace planner
