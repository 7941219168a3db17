// The groups as plain data, for other software that launches collectives; contains only what the plan
// contains.

#include "core/json_text.hpp"
#include "planner/emit/emitters/ddp_caps.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

Emission emit_json(const EmitRequest& request) {
  ordered_json groups = ordered_json::array();
  for (const Group& group : request.groups) {
    ordered_json item = {{"tensors", tensor_names(request.workload, group)},
                         {"bytes", bytes_of(request.workload, group)}};
    if (group.tick > sim::Time::zero()) item["not_before_us"] = sim::to_us(group.tick);
    groups.push_back(std::move(item));
  }
  const GradientTypes types = gradient_types(request.types, request.workload.profile->dtype);
  const DdpCaps caps = ddp_caps(gradient_bytes_in(types.own, request.workload), in_order(request.groups));
  const ordered_json json = {{"target", "json"}, {"groups", groups}, {"bucket_cap_mb_list", caps.json()}};
  return {.text = core::json_text(json), .json = json};
}

}  // namespace

Emitter json_emitter() { return {"json", "the groups as plain data", emit_json}; }

}  // namespace planner
