#include "planner/scenarios/replay.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "planner/job/workload.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/scenarios/sharded_replay.hpp"

namespace scenarios {
namespace {

std::int64_t workers_of(const core::Network& network, core::CollectiveKind kind) {
  std::int64_t out = 0;
  for (const core::Measured& measured : network.measured)
    if (measured.collective == kind) out = std::max(out, measured.workers);
  return out;
}

constexpr std::string_view kZero = "zero";

/// The schedule that the collectives suggest, on the number of workers that took part.
Replay suggested(const core::Network& network, const MeasuredIteration& measured) {
  using core::Gathers;
  const Gathers gathers = measured.gathers;
  const bool updates_shares = gathers == Gathers::after_update || gathers == Gathers::beside_forward;
  const auto zero = [&](std::int64_t workers, bool all_reduces) {
    return Replay{.schedule = kZero,
                  .all_reduces = all_reduces,
                  .gathers_beside = gathers == Gathers::beside_forward,
                  .workers = workers};
  };
  const std::int64_t gathering = workers_of(network, core::CollectiveKind::all_gather);
  const std::int64_t scattering = workers_of(network, core::CollectiveKind::reduce_scatter);
  if (scattering > 1 && gathering == scattering)
    return updates_shares ? zero(scattering, false) : Replay{.schedule = "fsdp", .workers = scattering};
  const std::int64_t reducing = workers_of(network, core::CollectiveKind::all_reduce);
  if (reducing > 1 && gathering == reducing && updates_shares) return zero(reducing, true);
  if (reducing > 1) return {.schedule = "ddp", .workers = reducing};
  return {.schedule = "wfbp"};
}

/// What a plan says of ZeRO-1/2.
planner::PipelineOptions zero_options(const Replay& replay) {
  return {.overlap_gather = replay.gathers_beside, .all_reduces = replay.all_reduces};
}

/// The same in a scenario.
std::string zero_keys(const Replay& replay) {
  return fmt::format(R"("overlap_gather": {}, "all_reduce_gradients": {})", replay.gathers_beside,
                     replay.all_reduces);
}

/// FSDP by layers, as far as the trace shows what is kept and what waits.
std::string fsdp_text(const MeasuredIteration& measured) {
  return fmt::format(
      R"({{"name": "fsdp"{}{}}})",
      measured.collectives_block ? R"(, "prefetch": 0, "scatters_in_flight": 0)" : "",
      measured.gathers == core::Gathers::for_forward ? R"(, "reshard_after_forward": false)" : "");
}

/// The cut after the gradient with which the sum comes closest to that of the buckets so far, for each
/// bucket.
planner::PlanFile plan_of(const core::Profile& profile, const Replay& replay,
                          const std::vector<std::int64_t>& buckets) {
  planner::PlanFile plan;
  plan.model = profile.model;
  plan.workers = replay.workers;
  plan.pipeline = replay.schedule == kZero ? kZero : "wfbp";
  if (replay.schedule == kZero) plan.options = zero_options(replay);
  plan.optimality = planner::Optimality::given;
  const planner::Workload workload = planner::make_workload(profile);
  const std::int64_t each = core::bytes_per_element(profile.dtype);
  std::uint32_t next = 0;
  double sum = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    sum += static_cast<double>(buckets[i]) * static_cast<double>(each);
    planner::PlanGroup group;
    const auto distance = [&](std::uint32_t end) {
      return std::abs(static_cast<double>(workload.bytes_before[end]) - sum);
    };
    const bool is_last = i + 1 == buckets.size();
    for (; next < workload.gradient_count() && (is_last || distance(next + 1) <= distance(next)); ++next) {
      const planner::Gradient& gradient = workload.gradients[next];
      group.tensors.push_back(profile.layers[gradient.layer].tensors[gradient.tensor].name);
      group.bytes += gradient.bytes;
    }
    if (!group.tensors.empty()) plan.groups.push_back(std::move(group));
  }
  return plan;
}

bool are_gradients(const core::Profile& profile, const std::vector<std::int64_t>& buckets) {
  constexpr double kTolerance = 0.01;
  double sum = 0;
  for (const std::int64_t elements : buckets) sum += static_cast<double>(elements);
  const auto all = static_cast<double>(core::parameter_count(profile));
  return std::abs(sum - all) <= kTolerance * all;
}

bool has_groups(const Replay& replay, const MeasuredIteration& measured) {
  return replay.schedule == "fsdp" && !measured.sharded.groups.empty();
}

/// The profile as it is simulated.
core::Profile profile_of(const core::Profile& profile, const Replay& replay,
                         const MeasuredIteration& measured) {
  return has_groups(replay, measured) ? in_groups(profile, measured.sharded) : profile;
}

std::string fsdp_schedule(const core::Profile& profile, Replay& replay, const MeasuredIteration& measured) {
  if (!has_groups(replay, measured)) return fsdp_text(measured);
  const PlanOfNeighbours plan =
      plan_of_neighbours(profile, measured.sharded, replay.workers, measured.collectives_block);
  replay.plan = plan.text;
  replay.divided = plan.divided;
  replay.buckets = measured.sharded.groups.size();
  return schedule_of_groups(profile_of(profile, replay, measured), measured.sharded, replay.workers,
                            measured.collectives_block);
}

std::string schedule_of(const core::Profile& profile, Replay& replay, const MeasuredIteration& measured) {
  if (replay.schedule == "fsdp") return fsdp_schedule(profile, replay, measured);
  const bool is_zero = replay.schedule == kZero;
  if ((replay.schedule != "ddp" && !is_zero) || !are_gradients(profile, measured.buckets))
    return is_zero ? fmt::format(R"({{"name": "zero1", {}}})", zero_keys(replay))
                   : fmt::format("\"{}\"", replay.schedule);
  replay.plan = planner::plan_text(plan_of(profile, replay, measured.buckets));
  replay.buckets = measured.buckets.size();
  return fmt::format(R"({{"pipeline": {}, "fusion": {{"kind": "plan", "file": {}}}}})",
                     is_zero ? R"("zero", )" + zero_keys(replay) : R"("wfbp")", replay.plan);
}

Scenario with_schedule(const core::Profile& profile, const core::Network& network,
                       const std::string& schedule, const Replay& replay, const MeasuredIteration& measured) {
  const std::string text = fmt::format(
      R"({{"format": "fusewise.scenario", "version": 1, "profile": {}, "network": {}, "workers": {}, "schedules": [{}]}})",
      core::profile_text(profile_of(profile, replay, measured)), core::network_text(network), replay.workers,
      schedule);
  Scenario out = read_scenario(core::Field::parse(text, profile.model));
  if (has_groups(replay, measured))
    out.schedules.front().options.keeps_last_group = keeps_last_group(measured.sharded);
  return out;
}

double computing_us(const core::Profile& profile) {
  double out = profile.iteration->optimizer_us;
  for (const core::ProfileLayer& layer : profile.layers)
    out += layer.forward_device_us.value_or(layer.forward_us) +
           layer.backward_device_us.value_or(layer.backward_us);
  return out;
}

}  // namespace

Scenario repeated(const core::Profile& profile, const core::Network& network,
                  const MeasuredIteration& measured) {
  Replay as_measured = suggested(network, measured);
  const std::string schedule = schedule_of(profile, as_measured, measured);
  return with_schedule(profile, network, schedule, as_measured, measured);
}

Replay replay(core::Profile& profile, const std::optional<core::Network>& network,
              const MeasuredIteration& measured) {
  Replay out = network ? suggested(*network, measured) : Replay{.schedule = "wfbp"};
  const bool is_alone = out.workers == 1;
  const core::Network used = is_alone ? core::Network{.name = "none", .link = core::Link{}} : *network;
  const std::string schedule = schedule_of(profile, out, measured);
  out.computing_us = computing_us(profile);
  const auto simulate = [&] {
    const planner::Metrics metrics =
        run(with_schedule(profile, used, schedule, out, measured)).entries.front().metrics;
    out.iteration_us = metrics.iteration_us;
    out.exposed_us = metrics.exposed_communication_us;
    out.waiting_us = profile.iteration->waiting_us;
    out.rest_us = out.iteration_us - out.computing_us - out.exposed_us - out.waiting_us;
  };
  profile.iteration->waiting_us = is_alone ? 0 : measured.waiting_us.value_or(0);
  const double known_us = profile.iteration->waiting_us;
  simulate();
  out.predicted_us = out.iteration_us;
  // Where several ranks say that nobody waited, what is missing has another reason.
  if (is_alone || measured.waiting_us == 0.0) return out;
  // Where the host limits the iteration, waiting counts only beyond what it does, so a second time is needed.
  for (int time = 0; time < 2; ++time) {
    const double missing_us = std::min(measured.iteration_us - out.iteration_us,
                                       measured.exposed_us - profile.iteration->waiting_us);
    if (missing_us <= 0) break;
    profile.iteration->waiting_us += missing_us;
    simulate();
  }
  out.added_waiting_us = profile.iteration->waiting_us - known_us;
  return out;
}

}  // namespace scenarios
