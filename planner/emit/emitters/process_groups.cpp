#include "planner/emit/emitters/process_groups.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/emit/emitters/modules.hpp"

namespace planner {
namespace {

void add(Mesh& mesh, std::int64_t size, const std::string& name, bool is_spanned) {
  mesh.sizes.push_back(size);
  mesh.names.push_back(name);
  if (is_spanned) mesh.spanned.push_back(name);
}

/// Adds the dimensions of a group of workers that shard in groups of neighbours.
void add_group(Mesh& mesh, std::int64_t workers, std::int64_t shard_workers, const std::string& prefix) {
  if (shard_workers == workers) return add(mesh, workers, prefix + "dp", true);
  add(mesh, workers / shard_workers, prefix + "replicate", true);
  add(mesh, shard_workers, prefix + "shard", true);
}

bool is_at_or_below(const std::string& module, const std::string& ancestor) {
  return ancestor.empty() || module == ancestor || module.starts_with(ancestor + '.');
}

void check_apart(const std::vector<std::string>& experts, const std::vector<std::string>& others) {
  for (const std::string& module : experts)
    if (std::ranges::any_of(others, [&](const std::string& other) { return is_at_or_below(other, module); }))
      throw core::InputError(
          fmt::format("--emit: expected experts in modules that hold nothing else, as fully_shard() takes "
                      "whole modules, got {}",
                      in_quotes(module)));
}

}  // namespace

std::string Mesh::line() const {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(in_quotes(name));
  const std::string_view comma = sizes.size() == 1 ? "," : "";  // a tuple of one
  return fmt::format("{} = init_device_mesh(\"cuda\", ({}{}), mesh_dim_names=({}{}))\n", variable,
                     fmt::join(sizes, ", "), comma, fmt::join(quoted, ", "), comma);
}

std::string Mesh::argument() const {
  if (spanned.empty()) return variable;
  std::vector<std::string> quoted;
  for (const std::string& name : spanned) quoted.push_back(in_quotes(name));
  return fmt::format("{}[{}]", variable, fmt::join(quoted, ", "));
}

Mesh hybrid_mesh(std::int64_t workers, std::int64_t shard_workers) {
  return {
      .variable = "mesh", .sizes = {workers / shard_workers, shard_workers}, .names = {"replicate", "shard"}};
}

Mesh group_mesh(const Division& division, bool of_experts, std::int64_t shard_workers) {
  Mesh out = {.variable = of_experts ? "expert_mesh" : "dense_mesh", .sizes = {}};
  if (division.pipeline > 1) add(out, division.pipeline, "pp", false);
  if (of_experts) {
    add_group(out, division.data / division.expert, shard_workers, "expert_");
    add(out, division.expert, "ep", false);
  } else {
    add_group(out, division.data, shard_workers, "");
  }
  if (division.tensor > 1) add(out, division.tensor, "tp", false);
  return out;
}

Experts experts_of(const EmitRequest& request) {
  if (request.division == nullptr || request.division->expert == 1) return {};
  const Division& division = *request.division;
  const std::vector<std::string> own = modules_of_others(request.workload, {});
  const std::vector<std::string> others = modules_of_others(division.part, request.workload);
  if (others.empty()) return {};
  check_apart(division.of_experts ? own : others, division.of_experts ? others : own);
  if (division.of_experts) return {.are_planned_alone = true};
  if (division.data > division.expert) return {.are_planned_before = true};
  return {.of_one_worker = others};
}

}  // namespace planner
