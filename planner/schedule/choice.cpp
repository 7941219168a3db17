#include "planner/schedule/choice.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/limits.hpp"

namespace planner {
namespace {

Wire wire_in(const Setting& setting, const Schedule& schedule) {
  return wire_of(setting.conditions.data_types, setting.workload.profile->dtype,
                 schedule.pipeline->gathers_parameters);
}

/// A fusion that searches keeps as many groups as it finds, and so does its plan.
void check_kept(const Schedule& schedule, const Grouping& found) {
  const std::optional<std::uint32_t> kept = schedule.options.kept_groups;
  if (!kept || *kept <= found.groups.size() || found.proof || schedule.fusion.kind == "plan") return;
  throw Unsupported(fmt::format("kept_groups of at most {}, the number of groups", found.groups.size()),
                    fmt::to_string(*kept), "/schedules");
}

}  // namespace

std::int64_t shard_workers(const core::Network& network, const PipelineOptions& options) {
  if (!options.shard_level) return options.shard_workers.value_or(0);
  const std::string& name = *options.shard_level;
  const auto& levels = network.levels;
  if (name == kNode && (levels.empty() || !levels.front().size)) return core::kMaxWorkers;
  auto found = std::ranges::find(levels, name, &core::Level::name);
  if (found == levels.end() && name == kNode) found = levels.begin();
  if (found == levels.end() || !found->size)
    throw Unsupported(
        fmt::format("a network with a level '{}' of some size, or shard_workers in the schedule",
                    core::printable(name)),
        fmt::format("network '{}'", core::printable(network.name)), "/network");
  std::int64_t workers = 1;
  for (auto level = levels.begin(); level <= found; ++level) workers *= *level->size;
  if (workers < 2)
    throw Unsupported(fmt::format("a level '{}' of several workers", core::printable(name)), "1", "/network");
  return workers;
}

bool has_types_of_its_own(const Setting& setting, const Schedule& schedule) {
  return !wire_in(setting, schedule).is_usual();
}

std::vector<TransferCost> make_transfers(const Setting& setting, const Schedule& schedule) {
  return make_transfers(setting,
                        {.all_reduce = setting.costs.algorithm(),
                         .compressor = schedule.compressor,
                         .selective = schedule.selective,
                         .wire = wire_in(setting, schedule),
                         .shard_workers = shard_workers(*setting.network, schedule.options),
                         .pads_tensors = schedule.options.pads_tensors,
                         .gathers_frozen = schedule.pipeline->shards_parameters(schedule.options)},
                        schedule.fusion.choices);
}

FusionRequest request_of(const Setting& setting, const Schedule& schedule) {
  return {setting, *schedule.pipeline, schedule.options, make_transfers(setting, schedule),
          schedule.fusion.kind == kPartitions};
}

Choice choose(const Setting& setting, const Schedule& schedule) {
  FusionRequest request = request_of(setting, schedule);
  Grouping found = within_clock([&] { return schedule.fusion.fuse(request); });
  check_kept(schedule, found);
  return {.groups = std::move(found.groups),
          .transfers = std::move(request.transfers),
          .proof = std::move(found.proof),
          .warnings = std::move(found.warnings)};
}

}  // namespace planner
