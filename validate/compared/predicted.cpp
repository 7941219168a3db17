// The simulated iteration of a schedule.

#include <algorithm>

#include <fmt/format.h>

#include "core/printable.hpp"
#include "core/quantities.hpp"
#include "planner/scenarios/supported.hpp"
#include "validate/compared/iteration.hpp"

namespace compared {
namespace {

using planner::Lowered;
using planner::TaskLabel;

/// A task on a channel in the window of one iteration.
struct Transfer {
  TaskLabel label;
  sim::Span ran;
  bool began_before = false;
};

/// Disjoint and in order.
std::vector<sim::Span> united(std::vector<sim::Span> spans) {
  std::ranges::sort(spans, {}, &sim::Span::start);
  std::vector<sim::Span> out;
  for (const sim::Span& span : spans) {
    if (!out.empty() && span.start <= out.back().end)
      out.back().end = std::max(out.back().end, span.end);
    else
      out.push_back(span);
  }
  return out;
}

sim::Time covered(const std::vector<sim::Span>& spans, sim::Time from, sim::Time to) {
  sim::Time out{};
  for (const sim::Span& span : spans)
    if (span.end > from && span.start < to) out += std::min(span.end, to) - std::max(span.start, from);
  return out;
}

/// Waits for launches that are part of the times of layers.
double launch_waits_us(const planner::Setting& setting) {
  const core::Profile& profile = *setting.workload.profile;
  const core::Profile alone = core::without_launch_waits(profile);
  return static_cast<double>(setting.conditions.accumulation_steps) *
         (core::forward_us(profile) + core::backward_us(profile) - core::forward_us(alone) -
          core::backward_us(alone));
}

/// Takes from the simulated computing what a trace does not count as such.
void split(const planner::Setting& setting, double exchange_us, Iteration& out) {
  const auto take = [&](double us) {
    us = std::clamp(us, 0.0, out.busy_us);
    out.busy_us -= us;
    return us;
  };
  const planner::Conditions& conditions = setting.conditions;
  out.tells_copies = false;
  out.idle_us += take(launch_waits_us(setting));
  if (!conditions.read_is_overlapped) out.idle_us += take(conditions.read_us);
  if (setting.costs.workers() > 1) out.ahead_us = take(conditions.waiting_us);
  out.other_exposed_us += take(exchange_us);
}

Iteration of_window(const planner::Setting& setting, const planner::Run& run, sim::Time from, sim::Time to) {
  std::vector<sim::Span> computing;
  std::vector<Transfer> transfers;
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const sim::Span& ran = run.timeline.spans[i];
    const sim::Span part = {std::max(ran.start, from), std::min(ran.end, to)};
    if (part.start >= part.end) continue;
    if (run.lowered.is_channel(tasks[i].stream))
      transfers.push_back(
          {.label = TaskLabel::unpack(tasks[i].label), .ran = part, .began_before = ran.start < from});
    else if (tasks[i].stream == Lowered::kCompute || tasks[i].stream == Lowered::kInput)
      computing.push_back(part);
  }
  std::ranges::stable_sort(transfers,
                           [](const Transfer& a, const Transfer& b) { return a.ran.start < b.ran.start; });
  computing = united(std::move(computing));
  Iteration out = {.iteration_us = sim::to_us(to - from),
                   .busy_us = sim::to_us(covered(computing, from, to))};
  for (const sim::Span& span : computing)
    add_computing(out, {.start_us = sim::to_us(span.start - from), .end_us = sim::to_us(span.end - from)});
  sim::Time until = from;
  sim::Time exposed{};
  for (const Transfer& transfer : transfers) {
    const sim::Time begin = std::max(transfer.ran.start, until);
    const sim::Time alone = begin < transfer.ran.end
                                ? transfer.ran.end - begin - covered(computing, begin, transfer.ran.end)
                                : sim::Time::zero();
    until = std::max(until, transfer.ran.end);
    exposed += alone;
    const auto kind = TaskLabel::collective(transfer.label.kind);
    if (!kind || transfer.began_before || transfer.label.kind == TaskLabel::Kind::lars_gather) {
      out.other_exposed_us += sim::to_us(alone);
      continue;
    }
    const planner::Group& group = run.groups[transfer.label.item % run.groups.size()];
    const std::int64_t frozen =
        *kind == core::CollectiveKind::all_gather
            ? run.transfers[group.transfer].frozen_bytes(planner::payload_of(setting.workload, group))
            : 0;
    out.collectives.push_back({.kind = std::string(core::name(*kind)),
                               .bytes = bytes_of(setting.workload, group) + frozen,
                               .start_us = sim::to_us(transfer.ran.start - from),
                               .end_us = sim::to_us(transfer.ran.end - from),
                               .exposed_us = sim::to_us(alone)});
  }
  out.idle_us = sim::to_us(to - from - exposed - covered(computing, from, to));
  return out;
}

}  // namespace

Iteration predicted(const scenarios::Scenario& scenario, const planner::Schedule& schedule,
                    std::int64_t workers, double exchange_us) {
  Iteration out;
  scenarios::supported(scenario, workers, schedule, [&] {
    const planner::Setting setting(scenario.profile, scenario.network, workers,
                                   scenarios::all_reduce(scenario, schedule), scenario.conditions);
    const planner::Run run = planner::run(setting, schedule);
    const std::size_t first = planner::first_counted(run.lowered);
    out = of_window(setting, run, run.marks[first], run.marks[first + 1]);
    split(setting, exchange_us, out);
    for (const planner::Warning& warning : run.warnings) out.warnings.push_back(warning.text);
  });
  out.workers = workers;
  out.source = fmt::format("{} with {} on {}", core::printable(scenario.name), core::printable(schedule.name),
                           core::counted(workers, "worker"));
  return out;
}

}  // namespace compared
