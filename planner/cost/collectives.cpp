#include "planner/cost/collectives.hpp"

#include <algorithm>
#include <cassert>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/limits.hpp"
#include "planner/job/registry.hpp"

namespace planner {

// To add an algorithm: write collectives/<name>.cpp and list it here; those that go over one link are in
// one_link.cpp.
AlgorithmEntry ring();
AlgorithmEntry binary_tree();
AlgorithmEntry recursive_doubling();
AlgorithmEntry halving_doubling();
AlgorithmEntry double_binary_tree();
AlgorithmEntry two_level();
AlgorithmEntry hierarchical_topk_all_reduce();
AlgorithmEntry parameter_servers();

std::span<const AlgorithmEntry> algorithms() {
  static const std::vector<AlgorithmEntry> all = {ring(),
                                                  binary_tree(),
                                                  recursive_doubling(),
                                                  halving_doubling(),
                                                  double_binary_tree(),
                                                  two_level(),
                                                  hierarchical_topk_all_reduce(),
                                                  parameter_servers()};
  return all;
}

const AlgorithmEntry& algorithm_entry(std::string_view name) { return entry(algorithms(), name); }

namespace {

void read_hierarchical_topk(const core::Field& field, Algorithm& algorithm) {
  const bool is_one = algorithm.name == "hierarchical_topk";
  for (const std::string_view key : {"density", "paper_bytes"})
    if (const auto own = field.find(key); own && !is_one)
      own->expected(fmt::format("no such key: only hierarchical_topk takes {}", key));
  if (const auto density = field.find("density")) algorithm.density = density->number(0, 1);
  if (const auto bytes = field.find("paper_bytes")) algorithm.paper_bytes = bytes->boolean();
}

}  // namespace

Algorithm read_algorithm(const core::Field& field) {
  if (!field.is_object()) return {.name = field.one_of(names(algorithms()))};
  field.allow_only({"algorithm", "bandwidth_factor", "servers", "density", "paper_bytes"});
  Algorithm algorithm = {.name = field.at("algorithm").one_of(names(algorithms()))};
  if (const auto factor = field.find("bandwidth_factor")) {
    if (algorithm.name != "double_binary_tree")
      factor->expected("no such key: only double_binary_tree takes a bandwidth_factor");
    algorithm.bandwidth_factor = factor->number(0, core::kMaxTimeUs);
  }
  if (const auto servers = field.find("servers")) {
    if (algorithm.name != "parameter_server")
      servers->expected("no such key: only parameter_server takes servers");
    algorithm.servers = servers->integer(1, core::kMaxWorkers);
  }
  read_hierarchical_topk(field, algorithm);
  return algorithm;
}

nlohmann::ordered_json algorithm_json(const Algorithm& algorithm) {
  if (algorithm == Algorithm{.name = algorithm.name}) return algorithm.name;
  if (algorithm.name == "parameter_server")
    return {{"algorithm", algorithm.name}, {"servers", algorithm.servers}};
  if (algorithm.name == "hierarchical_topk")
    return {{"algorithm", algorithm.name},
            {"density", algorithm.density},
            {"paper_bytes", algorithm.paper_bytes}};
  return {{"algorithm", algorithm.name}, {"bandwidth_factor", algorithm.bandwidth_factor}};
}

Algorithm read_collectives(const core::Field& field) {
  field.allow_only({"all_reduce"});
  const std::optional<core::Field> algorithm = field.find("all_reduce");
  return algorithm ? read_algorithm(*algorithm) : Algorithm{};
}

std::int64_t rounds(std::int64_t workers) {
  std::int64_t count = 0;
  while ((std::int64_t{1} << count) < workers) ++count;
  return count;
}

}  // namespace planner
