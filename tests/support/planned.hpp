// A plan for a scene, and what is emitted for it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "planner/emit/emit.hpp"
#include "planner/scenarios/prices.hpp"
#include "tests/support/groups.hpp"

namespace support {

/// A schedule as scenarios have it, with this pipeline and nothing else.
inline std::string of_pipeline(std::string_view name) { return fmt::format(R"({{"pipeline": "{}"}})", name); }

struct Planned {
  const Scene& scene;
  planner::Schedule schedule;
  planner::PlanFile plan;
  planner::Groups groups;

  /// `json`: the schedule, as in a scenario; its fusion is ignored.
  Planned(const Scene& its_scene, planner::Groups its_groups, const std::string& json = of_pipeline("wfbp"))
      : scene(its_scene), schedule(schedule_of(json)), groups(std::move(its_groups)) {
    plan.model = "small";
    plan.workers = 2;
    plan.pipeline = schedule.pipeline->name;
    plan.options = schedule.options;
    plan.compressor = schedule.compressor;
  }

  /// The simulated iteration of other groups under this schedule.
  double iteration_us(const planner::Groups& other) const { return iteration_us(schedule, other); }
  double iteration_us(const std::string& json, const planner::Groups& other) const {
    return iteration_us(schedule_of(json), other);
  }

  planner::Emission emit(std::string_view target, std::int64_t accumulation_steps = 1) const {
    planner::Schedule as_planned = schedule;
    as_planned.options = plan.options;
    scenarios::Prices prices(scene.setting, as_planned, {});
    return planner::emit(target, {plan, groups, scene.setting.workload,
                                  [&](const planner::Behaviour& behaviour, const planner::Groups& other) {
                                    return prices.iteration_us(behaviour, other);
                                  },
                                  accumulation_steps, scene.setting.conditions.data_types});
  }

 private:
  double iteration_us(planner::Schedule of, const planner::Groups& other) const {
    of.fusion = {.kind = "given", .fuse = [&](const planner::FusionRequest&) { return other; }};
    return scene.run(of).metrics.iteration_us;
  }
};

/// Backward yields classifier.bias, classifier.weight, features.3.weight, features.0.bias, features.0.weight:
/// 4,000, 4,000,000, 2,400,000, 256 and 1,200,000 bytes. An all-reduce takes 50 us and 100 us for a million.
inline const Scene& five_tensors() {
  static const Scene scene(named({{"features.0.weight", 300'000},
                                  {"features.0.bias", 64},
                                  {"features.3.weight", 600'000},
                                  {"classifier.weight", 1'000'000},
                                  {"classifier.bias", 1'000}}),
                           pair_of(50, 0.0001));
  return scene;
}

inline planner::Groups of_counts(const std::vector<std::uint32_t>& counts) {
  planner::Groups groups;
  for (const std::uint32_t count : counts) {
    const std::uint32_t begin = groups.empty() ? 0 : groups.back().end;
    groups.push_back({.begin = begin, .end = begin + count});
  }
  return groups;
}

}  // namespace support
