#include "planner/plan/plan_file.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.hpp"
#include "core/limits.hpp"
#include "planner/job/registry.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {
namespace {

using core::Field;
using core::kMaxTimeUs;
using nlohmann::ordered_json;

/// By Optimality.
constexpr std::array<std::string_view, 2> kOptimalities = {"exact", "heuristic"};

PlanGroup read_group(const Field& field) {
  field.allow_only({"tensors", "bytes", "modules", "not_before_us", "collectives", "compression"});
  PlanGroup group;
  for (const Field& tensor : field.at("tensors").non_empty_items()) group.tensors.push_back(tensor.name());
  group.bytes = field.at("bytes").integer(1, core::kMaxBytes);
  if (const auto modules = field.find("modules")) {
    for (const Field& module : modules->items()) group.modules.push_back(module.text());
    if (group.modules.size() != group.tensors.size())
      modules->expected(fmt::format("{}, one for each tensor", group.tensors.size()),
                        fmt::format("{}", group.modules.size()));
  }
  if (const auto tick = field.find("not_before_us")) group.tick_us = tick->number(0, kMaxTimeUs);
  if (const auto collectives = field.find("collectives"))
    group.transfer.all_reduce = read_collectives(*collectives);
  if (const auto compression = field.find("compression"))
    group.transfer.compressor = read_compressor(*compression);
  return group;
}

SampledPlan read_sampled(const Field& field) {
  field.allow_only({"objective", "samples", "iteration_us", "exact_plan_us", "lower_bound_us"});
  return {.objective = field.at("objective").one_of({"mean", "p95"}),
          .samples = field.at("samples").integer(1, core::kMaxElements),
          .iteration_us = field.at("iteration_us").number(0, kMaxTimeUs * 10),
          .exact_plan_us = field.at("exact_plan_us").number(0, kMaxTimeUs * 10),
          .lower_bound_us = field.at("lower_bound_us").number(0, kMaxTimeUs * 10)};
}

void read_predicted(const Field& field, PlanFile& plan) {
  field.allow_only({"iteration_us", "lower_bound_us", "compared_with", "sampled"});
  plan.iteration_us = field.at("iteration_us").number(0, kMaxTimeUs * 10);
  plan.lower_bound_us = field.at("lower_bound_us").number(0, kMaxTimeUs * 10);
  if (const auto sampled = field.find("sampled")) plan.sampled = read_sampled(*sampled);
  for (const Field& item : field.at("compared_with").items()) {
    item.allow_only({"schedule", "iteration_us"});
    plan.compared_with.push_back({.schedule = item.at("schedule").name(),
                                  .iteration_us = item.at("iteration_us").number(0, kMaxTimeUs * 10)});
  }
}

void allow_plan_keys(const Field& field, const Pipeline& pipeline) {
  std::vector<std::string_view> keys = {"format", "version", "model", "workers", "pipeline", "target"};
  keys.insert(keys.end(), pipeline.option_keys.begin(), pipeline.option_keys.end());
  keys.insert(keys.end(), {"collectives", "compression", "data_types", "recompute", "selective", "optimality",
                           "searched", "largest_front", "optimality_gap_us", "predicted", "groups"});
  field.allow_only(keys);
}

/// The form that read_recompute() reads.
ordered_json recompute_json(const Recompute& recompute) {
  ordered_json out = "blocks";
  if (recompute.layers > 0) out = {{"layers", recompute.layers}};
  return out;
}

}  // namespace

PlanFile read_plan_file(const Field& field) {
  field.check_format("fusewise.plan");
  PlanFile plan;
  plan.pipeline = field.at("pipeline").one_of(names(pipelines()));
  allow_plan_keys(field, pipeline(plan.pipeline));
  plan.model = field.at("model").name();
  plan.workers = field.at("workers").integer(1, core::kMaxWorkers);
  plan.options = read_options(field, pipeline(plan.pipeline));
  if (const auto target = field.find("target")) plan.target = target->name();
  plan.all_reduce = read_collectives(field.at("collectives"));
  plan.compressor = read_compressor(field.at("compression"));
  if (const auto types = field.find("data_types")) plan.data_types = read_data_types(*types);
  if (const auto recompute = field.find("recompute")) plan.recompute = read_recompute(*recompute);
  if (const auto selective = field.find("selective")) plan.selective = selective->boolean();
  const std::string optimality = field.at("optimality").one_of(kOptimalities);
  plan.optimality =
      static_cast<Optimality>(std::ranges::find(kOptimalities, optimality) - kOptimalities.begin());
  if (const auto searched = field.find("searched"); searched && !searched->boolean()) {
    if (plan.optimality == Optimality::exact) searched->expected("true for an exact plan", "false");
    plan.optimality = Optimality::given;
  }
  if (const auto front = field.find("largest_front"))
    plan.largest_front = front->integer(1, core::kMaxElements);
  if (const auto off = field.find("optimality_gap_us"))
    plan.optimality_gap_us = off->number(0, kMaxTimeUs * 10);
  if (const auto predicted = field.find("predicted")) read_predicted(*predicted, plan);
  for (const Field& group : field.at("groups").non_empty_items()) plan.groups.push_back(read_group(group));
  return plan;
}

std::string plan_text(const PlanFile& plan) {
  ordered_json out = {{"format", "fusewise.plan"},
                      {"version", 1},
                      {"model", plan.model},
                      {"workers", plan.workers},
                      {"pipeline", plan.pipeline}};
  write_options(plan.options, out);
  if (!plan.target.empty()) out["target"] = plan.target;
  out["collectives"] = {{"all_reduce", algorithm_json(plan.all_reduce)}};
  out["compression"] = compressor_json(plan.compressor);
  if (plan.data_types.any()) out["data_types"] = data_types_json(plan.data_types);
  if (plan.recompute) out["recompute"] = recompute_json(*plan.recompute);
  if (plan.selective) out["selective"] = true;
  const bool is_searched = plan.optimality != Optimality::given;
  out["optimality"] =
      kOptimalities[static_cast<std::size_t>(is_searched ? plan.optimality : Optimality::heuristic)];
  if (!is_searched) out["searched"] = false;
  if (plan.largest_front > 0) out["largest_front"] = plan.largest_front;
  if (plan.optimality_gap_us > 0) out["optimality_gap_us"] = plan.optimality_gap_us;
  ordered_json compared = ordered_json::array();
  for (const ComparedPlan& other : plan.compared_with)
    compared.push_back({{"schedule", other.schedule}, {"iteration_us", other.iteration_us}});
  out["predicted"] = {{"iteration_us", plan.iteration_us},
                      {"lower_bound_us", plan.lower_bound_us},
                      {"compared_with", std::move(compared)}};
  if (plan.sampled)
    out["predicted"]["sampled"] = {{"objective", plan.sampled->objective},
                                   {"samples", plan.sampled->samples},
                                   {"iteration_us", plan.sampled->iteration_us},
                                   {"exact_plan_us", plan.sampled->exact_plan_us},
                                   {"lower_bound_us", plan.sampled->lower_bound_us}};
  for (const PlanGroup& group : plan.groups) {
    ordered_json item = {{"tensors", group.tensors}, {"bytes", group.bytes}};
    if (!group.modules.empty()) item["modules"] = group.modules;
    if (group.tick_us > 0) item["not_before_us"] = group.tick_us;
    if (group.transfer.all_reduce)
      item["collectives"] = {{"all_reduce", algorithm_json(*group.transfer.all_reduce)}};
    if (group.transfer.compressor) item["compression"] = compressor_json(*group.transfer.compressor);
    out["groups"].push_back(std::move(item));
  }
  return core::json_text(out);
}

std::string data_types_words(const DataTypes& types) {
  std::string out;
  const auto add = [&](std::string_view use, std::optional<core::Dtype> type) {
    if (type) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", use, core::name(*type));
  };
  add("reduce", types.reduce);
  add("gather", types.gather);
  add("gradients", types.gradients);
  add("parameters", types.parameters);
  add("master", types.master);
  return out.empty() ? "those of the profile" : out;
}

std::string recompute_words(const std::optional<Recompute>& recompute) {
  if (!recompute) return "none";
  return recompute->layers == 0
             ? "blocks"
             : fmt::format("runs of {} layer{}", recompute->layers, recompute->layers == 1 ? "" : "s");
}

}  // namespace planner
