#include "planner/scenarios/sharded_replay.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/job/names.hpp"
#include "planner/job/workload.hpp"
#include "planner/plan/plan_file.hpp"

namespace scenarios {
namespace {

using core::ShardedGroup;
using core::ShardedGroups;

/// A tensor of the profile, and the layer to which it comes.
struct Move {
  std::size_t from = 0;
  std::size_t to = 0;
  core::ProfileTensor tensor;
};

/// All tensors in the order of the groups. None comes to a later layer than one before it, as backward passes
/// run from the last layer to the first.
std::vector<Move> moves(const core::Profile& profile, const ShardedGroups& sharded) {
  std::map<std::string_view, std::pair<std::size_t, const core::ProfileTensor*>> by_name;
  for (std::size_t layer = 0; layer < profile.layers.size(); ++layer)
    for (const core::ProfileTensor& tensor : profile.layers[layer].tensors)
      by_name[tensor.name] = {layer, &tensor};
  std::vector<Move> out;
  std::size_t reached = std::numeric_limits<std::size_t>::max();
  for (const ShardedGroup& group : sharded.groups)
    for (const std::string& name : group.tensors) {
      const auto& [from, tensor] = by_name.at(name);
      reached = std::min(reached, from);
      out.push_back({.from = from, .to = reached, .tensor = *tensor});
    }
  return out;
}

/// The time of a tensor that leaves a layer goes to the next one that stays.
void keep_times(core::ProfileLayer& layer, const std::set<std::string_view>& leaving) {
  double carried_us = 0;
  core::ProfileTensor* last = nullptr;
  for (auto tensor = layer.tensors.rbegin(); tensor != layer.tensors.rend(); ++tensor) {
    if (!tensor->backward_us) return;
    if (leaving.contains(tensor->name)) {
      carried_us += *tensor->backward_us;
      continue;
    }
    *tensor->backward_us += std::exchange(carried_us, 0);
    last = &*tensor;
  }
  if (last != nullptr) *last->backward_us += carried_us;
}

planner::PipelineOptions options_of(const std::vector<ShardedGroup>& groups, const ShardedGroups& sharded,
                                    bool collectives_block) {
  const auto again = std::ranges::find_if(groups, &ShardedGroup::is_gathered_again);
  planner::PipelineOptions out = {.kept_groups = static_cast<std::uint32_t>(again - groups.begin())};
  if (collectives_block) {
    out.prefetch = out.scatters_in_flight = 0;
    return out;
  }
  out.prefetch = sharded.prefetch;
  if (sharded.backward_prefetch != sharded.prefetch) out.backward_prefetch = sharded.backward_prefetch;
  if (!sharded.are_of_fsdp2) return out;
  out.scatters_in_flight = 1;
  out.gathers_early = true;
  return out;
}

planner::PlanFile plan_of(const core::Profile& profile, const std::vector<ShardedGroup>& groups,
                          planner::PipelineOptions options, std::int64_t workers) {
  std::map<std::string_view, std::int64_t> bytes;
  for (const core::ProfileLayer& layer : profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors)
      bytes[tensor.name] = tensor.elements * core::bytes_per_element(profile.dtype);
  planner::PlanFile plan;
  plan.model = profile.model;
  plan.workers = workers;
  plan.pipeline = "sharded";
  plan.options = std::move(options);
  plan.optimality = planner::Optimality::given;
  for (const ShardedGroup& group : groups) {
    plan.groups.push_back({.tensors = group.tensors});
    for (const std::string& name : group.tensors) plan.groups.back().bytes += bytes.at(name);
  }
  return plan;
}

}  // namespace

core::Profile in_groups(core::Profile profile, const ShardedGroups& sharded) {
  const std::vector<Move> all = moves(profile, sharded);
  std::set<std::string_view> leaving;
  for (const Move& move : all)
    if (move.from != move.to) leaving.insert(move.tensor.name);
  for (core::ProfileLayer& layer : profile.layers) keep_times(layer, leaving);
  std::map<std::string, core::ProfileTensor> staying;
  std::vector<std::optional<double>> part_of_arrived(profile.layers.size());
  for (std::size_t i = 0; i < profile.layers.size(); ++i)
    for (core::ProfileTensor& tensor : std::exchange(profile.layers[i].tensors, {})) {
      if (tensor.backward_us) part_of_arrived[i] = 0;
      if (!leaving.contains(tensor.name)) staying.emplace(tensor.name, std::move(tensor));
    }
  for (auto move = all.rbegin(); move != all.rend(); ++move) {
    core::ProfileTensor tensor = move->tensor;
    tensor.backward_us = part_of_arrived[move->to];
    const auto stays = staying.find(tensor.name);
    profile.layers[move->to].tensors.push_back(stays == staying.end() ? tensor : stays->second);
  }
  return profile;
}

bool keeps_last_group(const ShardedGroups& sharded) {
  return !sharded.groups.empty() && !sharded.groups.back().is_gathered_again;
}

std::string schedule_of_groups(const core::Profile& in_groups, const ShardedGroups& sharded,
                               std::int64_t workers, bool collectives_block) {
  const planner::PipelineOptions options = options_of(sharded.groups, sharded, collectives_block);
  const planner::PlanFile plan = plan_of(in_groups, sharded.groups, options, workers);
  const nlohmann::ordered_json file = nlohmann::ordered_json::parse(planner::plan_text(plan));
  nlohmann::ordered_json out = {
      {"label", "fsdp"}, {"pipeline", plan.pipeline}, {"fusion", {{"kind", "plan"}, {"file", file}}}};
  planner::write_options(options, out);
  return out.dump();
}

PlanOfNeighbours plan_of_neighbours(const core::Profile& profile, const ShardedGroups& sharded,
                                    std::int64_t workers, bool collectives_block) {
  std::map<std::string_view, const ShardedGroup*> group_of;
  for (const ShardedGroup& group : sharded.groups)
    for (const std::string& name : group.tensors) group_of[name] = &group;
  const planner::Workload workload = planner::make_workload(profile);
  std::vector<ShardedGroup> parts;
  std::map<const ShardedGroup*, std::size_t> parts_of;
  const ShardedGroup* last = nullptr;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) {
    const std::string& name = planner::tensor_name(workload, i);
    const ShardedGroup* group = group_of.at(name);
    if (group != std::exchange(last, group)) {
      parts.push_back({.tensors = {}, .is_gathered_again = group->is_gathered_again});
      ++parts_of[group];
    }
    parts.back().tensors.push_back(name);
  }
  const planner::PipelineOptions options = options_of(parts, sharded, collectives_block);
  return {.text = planner::plan_text(plan_of(profile, parts, options, workers)),
          .divided = static_cast<std::size_t>(
              std::ranges::count_if(parts_of, [](const auto& each) { return each.second > 1; }))};
}

}  // namespace scenarios
