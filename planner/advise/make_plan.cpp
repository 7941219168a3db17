#include "planner/advise/make_plan.hpp"

#include <array>
#include <string_view>

#include "planner/job/names.hpp"
#include "planner/run/memory.hpp"

namespace planner {

PlanGroup plan_group(const Workload& workload, const Group& group,
                     const std::vector<TransferCost>& transfers) {
  PlanGroup out;
  bool all_own = true;
  for (std::uint32_t i = group.begin; i < group.end; ++i) {
    out.tensors.push_back(tensor_name(workload, i));
    const std::string own = enclosing(out.tensors.back());
    out.modules.push_back(workload.profile->layers[workload.gradients[i].layer].module.value_or(own));
    all_own = all_own && out.modules.back() == own;
  }
  if (all_own) out.modules.clear();
  out.bytes = bytes_of(workload, group);
  out.tick_us = sim::to_us(group.tick);
  const Transfer& own = transfers.front().transfer();
  const Transfer& transfer = transfers[group.transfer].transfer();
  if (transfer.all_reduce != own.all_reduce) out.transfer.all_reduce = transfer.all_reduce;
  if (transfer.compressor != own.compressor) out.transfer.compressor = transfer.compressor;
  return out;
}

PipelineOptions without_level(PipelineOptions options, const TransferCost& transfer) {
  if (!options.shard_level) return options;
  options.shard_level.reset();
  if (transfer.is_replicated()) options.shard_workers = transfer.workers();
  return options;
}

namespace {

constexpr std::array<std::string_view, 5> kUsual = {"wfbp", "sync-easgd", "ddp", "horovod", "mg-wfbp"};
constexpr std::array<std::string_view, 5> kUsualSharded = {"fsdp2", "hsdp", "fsdp", "zero2", "ddp"};

/// Whether a worker holds more than the scenario allows.
bool exceeds_cap(const Setting& setting, const Run& run) {
  const std::optional<MemoryOptions>& memory = setting.conditions.memory;
  return memory && memory->cap_bytes &&
         total(memory_of(setting, run, run.timeline).peak.bytes) > *memory->cap_bytes;
}

/// The iterations of usual schedules, but for those that hold more memory than the scenario allows, and those
/// that need costs that the network lacks, such as all-reduces of a tree where only their halves were
/// measured.
std::vector<ComparedPlan> usual_plans(const Setting& setting, const Schedule& schedule) {
  std::vector<ComparedPlan> out;
  for (const std::string_view other :
       schedule.pipeline->shards_parameters(schedule.options) ? kUsualSharded : kUsual) {
    try {
      const Run run = planner::run(setting, preset_schedule(other));
      if (!exceeds_cap(setting, run))
        out.push_back({.schedule = std::string(other), .iteration_us = run.metrics.iteration_us});
    } catch (const Unsupported&) {
      continue;
    }
  }
  return out;
}

}  // namespace

PlanFile make_plan(const Setting& setting, const Schedule& schedule, const Run& run) {
  PlanFile plan;
  plan.model = setting.workload.profile->model;
  plan.workers = setting.costs.workers();
  plan.pipeline = schedule.pipeline->name;
  plan.options = without_level(schedule.options, run.transfers.front());
  plan.all_reduce = setting.costs.algorithm();
  plan.compressor = schedule.compressor;
  plan.data_types = setting.conditions.data_types;
  plan.recompute = setting.conditions.recompute;
  plan.selective = schedule.selective;
  plan.optimality = schedule.fusion.searches ? Optimality::heuristic : Optimality::given;
  if (run.proof) {
    // the proof assumes closed costs
    const bool is_proven =
        run.proof->optimality_gap == sim::Time::zero() && setting.conditions.fidelity == Fidelity::closed;
    plan.optimality = is_proven ? Optimality::exact : Optimality::heuristic;
    plan.largest_front = static_cast<std::int64_t>(run.proof->largest_front);
    plan.optimality_gap_us = sim::to_us(run.proof->optimality_gap);
    if (const auto& sampled = run.proof->sampled)
      plan.sampled = SampledPlan{.objective = sampled->objective,
                                 .samples = sampled->samples,
                                 .iteration_us = sim::to_us(sampled->value),
                                 .exact_plan_us = sim::to_us(sampled->of_exact_plan),
                                 .lower_bound_us = sim::to_us(sampled->bound)};
  }
  plan.iteration_us = run.metrics.iteration_us;
  plan.lower_bound_us = lower_bound_us(request_of(setting, schedule));
  plan.compared_with = usual_plans(setting, schedule);
  for (const Group& group : run.groups)
    plan.groups.push_back(plan_group(setting.workload, group, run.transfers));
  return plan;
}

}  // namespace planner
