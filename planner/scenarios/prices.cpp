#include "planner/scenarios/prices.hpp"

#include "planner/schedule/choice.hpp"

namespace scenarios {
namespace {

using planner::Behaviour;
using planner::TransferCost;

/// The transfers of the schedule, in the same order, so that the plan's groups keep their numbers.
std::vector<TransferCost> transfers_of(const planner::Setting& setting, const planner::Schedule& schedule,
                                       const Behaviour& behaviour) {
  const bool gathers_parameters = behaviour.pipeline->gathers_parameters || behaviour.gathers_at_once;
  const planner::Wire wire =
      planner::wire_of(setting.conditions.data_types, setting.workload.profile->dtype, gathers_parameters);
  std::vector<TransferCost> out;
  for (const TransferCost& planned : planner::make_transfers(setting, schedule)) {
    planner::Transfer transfer = planned.transfer();
    transfer.wire = wire;
    transfer.shard_workers = behaviour.options.shard_workers.value_or(0);
    transfer.pads_tensors = behaviour.options.pads_tensors;
    transfer.gathers_frozen = behaviour.pipeline->shards_parameters(behaviour.options);
    if (!behaviour.compresses) {
      transfer.compressor = {};
      transfer.selective = false;
    }
    out.push_back(planner::cost_of(setting, std::move(transfer)));
  }
  return out;
}

}  // namespace

planner::Setting Prices::setting_for(const planner::Pipeline& pipeline) const {
  if (schedule_.pipeline->algorithm == nullptr || &pipeline == schedule_.pipeline) return setting_;
  return {*setting_.workload.profile, *setting_.network, setting_.costs.workers(), all_reduce_,
          setting_.conditions};
}

const planner::FusionRequest& Prices::request_for(const Behaviour& behaviour) {
  for (const auto& known : known_)
    if (known->behaviour == behaviour) return *known->request;
  known_.push_back(
      std::make_unique<Framework>(Framework{behaviour, setting_for(*behaviour.pipeline), nullptr}));
  Framework& made = *known_.back();
  std::vector<TransferCost> transfers = transfers_of(made.setting, schedule_, behaviour);
  if (behaviour.gathers_at_once)
    made.setting.extras.update += transfers.front().time(core::CollectiveKind::all_gather,
                                                         planner::payload_of_all(made.setting.workload));
  const bool in_partitions =
      behaviour.pipeline == schedule_.pipeline && schedule_.fusion.kind == planner::kPartitions;
  made.request = std::make_unique<planner::FusionRequest>(
      made.setting, *behaviour.pipeline, behaviour.options, std::move(transfers), in_partitions);
  return *made.request;
}

double Prices::iteration_us(const Behaviour& behaviour, const planner::Groups& groups) {
  return planner::iteration_us(request_for(behaviour), groups);
}

}  // namespace scenarios
