#include "planner/schedule/choice.hpp"

#include <utility>

namespace planner {
namespace {

Wire wire_in(const Setting& setting, const Schedule& schedule) {
  return wire_of(setting.conditions.data_types, setting.workload.profile->dtype,
                 schedule.pipeline->gathers_parameters);
}

}  // namespace

bool has_types_of_its_own(const Setting& setting, const Schedule& schedule) {
  return !wire_in(setting, schedule).is_usual();
}

std::vector<TransferCost> make_transfers(const Setting& setting, const Schedule& schedule) {
  return make_transfers(setting,
                        {.all_reduce = setting.costs.algorithm(),
                         .compressor = schedule.compressor,
                         .selective = schedule.selective,
                         .wire = wire_in(setting, schedule)},
                        schedule.fusion.choices);
}

FusionRequest request_of(const Setting& setting, const Schedule& schedule) {
  return {setting, *schedule.pipeline, schedule.options, make_transfers(setting, schedule),
          schedule.fusion.kind == kPartitions};
}

Choice choose(const Setting& setting, const Schedule& schedule) {
  FusionRequest request = request_of(setting, schedule);
  Grouping found = within_clock([&] { return schedule.fusion.fuse(request); });
  return {.groups = std::move(found.groups),
          .transfers = std::move(request.transfers),
          .proof = std::move(found.proof),
          .warnings = std::move(found.warnings)};
}

}  // namespace planner
