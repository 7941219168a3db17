// The groups of a plan file.

#include <fmt/format.h>

#include "planner/fusion.hpp"
#include "planner/plan_file.hpp"

namespace planner {
namespace {

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient) {
  const Gradient& at = workload.gradients[gradient];
  return workload.profile->layers[at.layer].tensors[at.tensor].name;
}

/// The plan's groups as runs of this workload's gradients; every one must come, in backward order.
Groups match(const PlanFile& plan, const models::Field& file, const Workload& workload) {
  Groups groups;
  std::uint32_t next = 0;
  const std::vector<models::Field> items = file.at("groups").items();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const std::uint32_t begin = next;
    for (std::size_t t = 0; t < plan.groups[g].tensors.size(); ++t, ++next) {
      const std::string& name = plan.groups[g].tensors[t];
      const models::Field here = items[g].at("tensors").items()[t];
      if (next == workload.gradient_count())
        here.expected(fmt::format("no more than the {} tensors of the profile", workload.gradient_count()));
      if (name != tensor_name(workload, next))
        here.expected(fmt::format(R"("{}", the profile's next tensor in backward order)",
                                  models::printable(tensor_name(workload, next))));
    }
    groups.push_back({.begin = begin, .end = next, .tick = sim::from_us(plan.groups[g].tick_us)});
  }
  if (next != workload.gradient_count())
    file.at("groups").expected(fmt::format("every tensor of the profile, \"{}\" among them",
                                           models::printable(tensor_name(workload, next))),
                               fmt::format("{} of {}", next, workload.gradient_count()));
  return groups;
}

Fuse read(const models::Field& field) {
  if (!field.is_object()) field.expected(R"(an object with the plan's file: {"kind": "plan", "file": ...})");
  allow_fusion_keys(field, {"kind", "file"});
  const models::Field file = field.at("file").follow();
  return [file, plan = read_plan_file(file)](const FusionRequest& request) {
    return match(plan, file, request.workload);
  };
}

}  // namespace

FusionKind planned() { return {"plan", "the groups of a plan file", read}; }

}  // namespace planner
