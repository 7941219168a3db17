// The groups of a plan file.

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "planner/fusion.hpp"
#include "planner/pipeline.hpp"
#include "planner/plan_file.hpp"

namespace planner {
namespace {

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient) {
  const Gradient& at = workload.gradients[gradient];
  return workload.profile->layers[at.layer].tensors[at.tensor].name;
}

/// The tensors of one group, which must be the profile's next ones in backward order; gives the one after
/// them.
std::uint32_t match_group(const PlanGroup& group, const models::Field& field, const Workload& workload,
                          std::uint32_t next) {
  const std::vector<models::Field> places = field.at("tensors").items();
  const std::uint32_t begin = next;
  for (std::size_t t = 0; t < group.tensors.size(); ++t, ++next) {
    if (next == workload.gradient_count())
      places[t].expected(
          fmt::format("no more than the {} tensors of the profile", workload.gradient_count()));
    if (group.tensors[t] != tensor_name(workload, next))
      places[t].expected(fmt::format(R"("{}", the profile's next tensor in backward order)",
                                     models::printable(tensor_name(workload, next))));
  }
  const std::int64_t bytes = workload.bytes_before[next] - workload.bytes_before[begin];
  if (group.bytes != bytes) field.at("bytes").expected(fmt::format("{}, as its tensors have", bytes));
  return next;
}

/// Every way of a plan is offered, see choices().
std::uint32_t find_way(const WayChoice& choice, const FusionRequest& request) {
  const Way way = chosen(request.ways.front().way(), choice);
  const auto found = std::find_if(request.ways.begin(), request.ways.end(),
                                  [&](const WayCost& known) { return known.way() == way; });
  assert(found != request.ways.end());
  return static_cast<std::uint32_t>(found - request.ways.begin());
}

/// The plan's groups as runs of this workload's gradients; every one must come, in backward order.
Groups match(const PlanFile& plan, const models::Field& file, const FusionRequest& request) {
  const Workload& workload = request.workload;
  Groups groups;
  std::uint32_t next = 0;
  const std::vector<models::Field> items = file.at("groups").items();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const std::uint32_t begin = next;
    next = match_group(plan.groups[g], items[g], workload, begin);
    groups.push_back({.begin = begin,
                      .end = next,
                      .tick = sim::from_us(plan.groups[g].tick_us),
                      .way = find_way(plan.groups[g].way, request)});
  }
  if (next != workload.gradient_count())
    file.at("groups").expected(fmt::format(R"(every tensor of the profile, "{}" among them)",
                                           models::printable(tensor_name(workload, next))),
                               fmt::format("{} of {}", next, workload.gradient_count()));
  return groups;
}

/// A plan's groups may be tried anywhere, but what it predicts holds only where it was made for.
void compare(const PlanFile& plan, const FusionRequest& request) {
  if (request.doubts == nullptr) return;
  const auto tell = [&](std::string_view what, std::string_view made_for, std::string_view used) {
    const std::string text = fmt::format("the plan for model '{}' was made for {} {}, and is used with {}",
                                         plan.model, what, made_for, used);
    if (made_for != used) request.doubts->push_back({.subject = text, .weight = 0, .text = text});
  };
  tell("pipeline", plan.pipeline, request.pipeline.name);
  tell("all-reduce", plan.all_reduce.name, request.costs.algorithm().name);
  tell("compression", plan.compressor.name, request.ways.front().way().compressor.name);
  tell("workers", fmt::to_string(plan.workers), fmt::to_string(request.costs.workers()));
  if (plan.pipeline == "zero" && request.pipeline.name == "zero")
    tell("overlap_gather", plan.overlap_gather ? "true" : "false",
         request.options.overlap_gather ? "true" : "false");
}

Fuse read(const models::Field& field) {
  if (!field.is_object()) field.expected(R"(an object with the plan's file: {"kind": "plan", "file": ...})");
  allow_fusion_keys(field, {"kind", "file"});
  const models::Field file = field.at("file").follow();
  return [file, plan = read_plan_file(file)](const FusionRequest& request) {
    compare(plan, request);
    return match(plan, file, request);
  };
}

std::vector<WayChoice> choices(const models::Field& field) {
  std::vector<WayChoice> out;
  for (const PlanGroup& group : read_plan_file(field.at("file").follow()).groups)
    if (std::find(out.begin(), out.end(), group.way) == out.end()) out.push_back(group.way);
  return out;
}

}  // namespace

FusionKind planned() { return {"plan", "the groups of a plan file", read, choices}; }

}  // namespace planner
