// Groupings as short text, and random ones.

#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/pipeline/pipeline.hpp"
#include "planner/schedule/choice.hpp"
#include "tests/support/planning.hpp"

namespace support {

/// "2 1@4": two gradients, then one that is issued no sooner than 4 us after backward began.
inline std::string shown(const planner::Groups& groups) {
  std::string out;
  for (const planner::Group& group : groups) {
    out += fmt::format("{}{}", out.empty() ? "" : " ", group.end - group.begin);
    if (group.tick > sim::Time::zero()) out += fmt::format("@{}", sim::to_us(group.tick));
  }
  return out;
}

/// Returns the groups of a fusion, spelled as in a scenario, for a scene and a pipeline.
inline planner::Groups fuse(const std::string& json, const Scene& scene, const char* pipeline = "wfbp") {
  const planner::Schedule schedule =
      schedule_of(fmt::format(R"({{"pipeline": "{}", "fusion": {}}})", pipeline, json));
  const planner::FusionRequest request = planner::request_of(scene.setting, schedule);
  return schedule.fusion.fuse(request).groups;
}

inline std::string fused(const std::string& json, const Scene& scene, const char* pipeline = "wfbp") {
  return shown(fuse(json, scene, pipeline));
}

/// Returns whether every gradient occurs once, in backward order, in groups that are not empty.
inline bool covers(const planner::Groups& groups, const planner::Workload& workload) {
  std::uint32_t next = 0;
  for (const planner::Group& group : groups) {
    if (group.begin != next || group.end <= group.begin) return false;
    next = group.end;
  }
  return next == workload.gradient_count();
}

inline planner::Groups random_groups(Random& random, std::uint32_t gradients) {
  planner::Groups groups = {{.begin = 0, .end = 1}};
  for (std::uint32_t i = 1; i < gradients; ++i)
    if (random.one_in(3))
      groups.push_back({.begin = i, .end = i + 1});
    else
      groups.back().end = i + 1;
  return groups;
}

/// Returns a fusewise.plan with these groups.
inline nlohmann::ordered_json plan_json(const planner::Workload& workload, const planner::Groups& groups) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const planner::Group& group : groups) {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (std::uint32_t i = group.begin; i < group.end; ++i) {
      const planner::Gradient& at = workload.gradients[i];
      tensors.push_back(workload.profile->layers[at.layer].tensors[at.tensor].name);
    }
    items.push_back({{"tensors", tensors},
                     {"bytes", workload.bytes_before[group.end] - workload.bytes_before[group.begin]}});
  }
  return {{"format", "fusewise.plan"},
          {"version", 1},
          {"model", "m"},
          {"workers", 2},
          {"pipeline", "wfbp"},
          {"collectives", {{"all_reduce", "ring"}}},
          {"compression", "none"},
          {"optimality", "heuristic"},
          {"groups", items}};
}

}  // namespace support
