// The groups of a plan file.

#include <algorithm>
#include <cassert>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/choose/fusion.hpp"
#include "planner/job/names.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "planner/plan/plan_file.hpp"

namespace planner {
namespace {

/// A position in the profile's gradients.
struct Place {
  std::uint32_t gradient = 0;
  std::int64_t byte = 0;
};

/// Matches the tensors of one group, which must be the profile's next ones in backward order; returns the
/// position after them.
Place match_group(const PlanGroup& group, const core::Field& field, const Workload& workload, Place next) {
  const std::vector<core::Field> places = field.at("tensors").items();
  const std::uint32_t begin = next.gradient;
  std::uint32_t end = begin;
  for (std::size_t t = 0; t < group.tensors.size(); ++t, ++end) {
    if (end == workload.gradient_count())
      places[t].expected(
          fmt::format("no more than the {} tensors of the profile", workload.gradient_count()));
    if (group.tensors[t] != tensor_name(workload, end))
      places[t].expected(fmt::format(R"("{}", the profile's next tensor in backward order)",
                                     core::printable(tensor_name(workload, end))));
  }
  const std::int64_t bytes = workload.bytes_before[end] - workload.bytes_before[begin] - next.byte;
  const bool is_part = group.tensors.size() == 1 && group.bytes < bytes;
  if (is_part) return {.gradient = begin, .byte = next.byte + group.bytes};
  if (group.bytes != bytes || (next.byte > 0 && group.tensors.size() > 1))
    field.at("bytes").expected(fmt::format("{}, as its tensors have", bytes));
  return {.gradient = end, .byte = 0};
}

/// Only pipelines whose channel goes by layer split tensors.
void check_takes_parts(const FusionRequest& request, const core::Field& bytes, const Workload& workload,
                       std::uint32_t gradient) {
  if (request.program(1).by_layer) return;
  bytes.expected(fmt::format("{}, as its tensors have", workload.gradients[gradient].bytes));
}

/// The index of a transfer; choices() offers every transfer of a plan.
std::uint32_t find_transfer(const TransferChoice& choice, const FusionRequest& request) {
  const Transfer transfer = chosen(request.transfers.front().transfer(), choice);
  const auto found = std::ranges::find_if(
      request.transfers, [&](const TransferCost& known) { return known.transfer() == transfer; });
  assert(found != request.transfers.end());
  return static_cast<std::uint32_t>(found - request.transfers.begin());
}

/// The plan's groups as ranges of this workload's gradients; all gradients must occur, in backward order.
Groups match(const PlanFile& plan, const core::Field& file, const FusionRequest& request) {
  const Workload& workload = request.workload;
  Groups groups;
  Place next;
  const std::vector<core::Field> items = file.at("groups").items();
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Place begin = next;
    next = match_group(plan.groups[g], items[g], workload, begin);
    groups.push_back({.begin = begin.gradient,
                      .end = std::max(next.gradient, begin.gradient + 1),
                      .tick = sim::from_us(plan.groups[g].tick_us),
                      .transfer = find_transfer(plan.groups[g].transfer, request)});
    if (begin.byte == 0 && next.byte == 0) continue;
    check_takes_parts(request, items[g].at("bytes"), workload, begin.gradient);
    groups.back().part = Part{.from = begin.byte, .bytes = plan.groups[g].bytes};
  }
  if (next.gradient != workload.gradient_count())
    file.at("groups").expected(fmt::format(R"(every tensor of the profile, "{}" among them)",
                                           core::printable(tensor_name(workload, next.gradient))),
                               fmt::format("{} of {}", next.gradient, workload.gradient_count()));
  return groups;
}

nlohmann::ordered_json options_of(const PipelineOptions& options) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  write_options(options, out);
  return out;
}

std::string value_of(const nlohmann::ordered_json& options, std::string_view key) {
  const auto found = options.find(key);
  return found == options.end() ? "its default" : found->dump();
}

/// The types without those that are the profile's, as which absent ones count.
DataTypes without_usual(DataTypes types, core::Dtype profile) {
  for (std::optional<core::Dtype>* type : {&types.reduce, &types.gather, &types.gradients, &types.parameters})
    if (*type == profile) type->reset();
  return types;
}

/// Warns if the plan was made for other inputs: its groups may be used anywhere, but its prediction holds
/// only for its own inputs.
std::vector<Warning> compare(const PlanFile& plan, const FusionRequest& request) {
  std::vector<Warning> out;
  const auto compare_input = [&](std::string_view what, std::string_view made_for, std::string_view used) {
    const std::string text = fmt::format("the plan for model '{}' was made for {} {}, and is used with {}",
                                         plan.model, what, made_for, used);
    if (made_for != used) out.push_back({.subject = text, .text = text});
  };
  compare_input("pipeline", plan.pipeline, request.pipeline.name);
  compare_input("all-reduce", plan.all_reduce.name, request.costs.algorithm().name);
  compare_input("compression", plan.compressor.name, request.transfers.front().transfer().compressor.name);
  const core::Dtype own = request.workload.profile->dtype;
  const Conditions& conditions = request.setting.conditions;
  compare_input("data types", data_types_words(without_usual(plan.data_types, own)),
                data_types_words(without_usual(conditions.data_types, own)));
  compare_input("recompute", recompute_words(plan.recompute), recompute_words(conditions.recompute));
  compare_input("workers", fmt::to_string(plan.workers), fmt::to_string(request.costs.workers()));
  if (!plan.target.empty()) {
    const std::string text = fmt::format(
        "the plan for model '{}' was predicted as {} behaves, and is used with pipeline {} as it is",
        core::printable(plan.model), core::printable(plan.target), request.pipeline.name);
    out.push_back({.subject = text, .text = text});
  }
  if (plan.pipeline != request.pipeline.name) return out;
  const nlohmann::ordered_json made_for = options_of(plan.options);
  const nlohmann::ordered_json used = options_of(request.options);
  for (const std::string_view key : request.pipeline.option_keys)
    compare_input(key, value_of(made_for, key), value_of(used, key));
  return out;
}

Fuse read(const core::Field& field) {
  if (!field.is_object()) field.expected(R"(an object with the plan's file: {"kind": "plan", "file": ...})");
  allow_fusion_keys(field, {"kind", "file"});
  const core::Field file = field.at("file").follow();
  return [file, plan = read_plan_file(file)](const FusionRequest& request) {
    Grouping out = match(plan, file, request);
    out.warnings = compare(plan, request);
    return out;
  };
}

std::vector<TransferChoice> choices(const core::Field& field) {
  std::vector<TransferChoice> out;
  for (const PlanGroup& group : read_plan_file(field.at("file").follow()).groups)
    if (std::ranges::find(out, group.transfer) == out.end()) out.push_back(group.transfer);
  return out;
}

}  // namespace

FusionKind planned() { return {"plan", "the groups of a plan file", read, choices}; }

}  // namespace planner
