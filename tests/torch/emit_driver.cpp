// Makes emissions without scenarios: reads lines of {"target", "sizes" in bytes, backward order, "groups" as
// counts, "names"?, "modules"?, "shapes"?, "dtype"?, "schedule"? as in a scenario, "accumulation_steps"?,
// "head"?, a last layer that is tied to the first, "frozen"?, modules that train nothing as [number of
// tensors before them in forward order, name, elements]} and prints on a line the emission's JSON, which gets
// the key "text".

#include <iostream>
#include <string>

#include <fmt/format.h>

#include "planner/emit/emit.hpp"
#include "planner/job/names.hpp"
#include "planner/scenarios/prices.hpp"
#include "tests/support/groups.hpp"

namespace {

using nlohmann::ordered_json;

/// A layer a tensor, 100 us of backward each.
core::Profile profile_of(const ordered_json& line) {
  const ordered_json& sizes = line["sizes"];
  const ordered_json names = line.value("names", ordered_json::array());
  const ordered_json modules = line.value("modules", ordered_json::array());
  const ordered_json shapes = line.value("shapes", ordered_json::array());
  const ordered_json frozen = line.value("frozen", ordered_json::array());
  core::Profile profile = {.model = "m", .device = "d"};
  const auto add_frozen = [&](std::size_t before) {
    for (const ordered_json& each : frozen)
      if (each[0] == before)
        profile.layers.push_back(
            {.name = each[1], .kind = "k", .forward_us = 50, .backward_us = 100, .frozen_elements = each[2]});
  };
  if (line.value("dtype", "float32") == "bfloat16") profile.dtype = core::Dtype::bfloat16;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    add_frozen(sizes.size() - 1 - i);
    const std::string name = names.empty() ? fmt::format("t{}.weight", i) : names[i].get<std::string>();
    core::ProfileLayer layer = {
        .name = fmt::format("l{}", i), .kind = "k", .forward_us = 50, .backward_us = 100};
    layer.tensors.push_back(
        {.name = name, .elements = sizes[i].get<std::int64_t>() / core::bytes_per_element(profile.dtype)});
    if (!frozen.empty()) layer.name = planner::enclosing(name);
    if (!modules.empty()) layer.module = modules[i].get<std::string>();
    if (!shapes.empty()) layer.tensors.back().shape = shapes[i].get<std::vector<std::int64_t>>();
    profile.layers.push_back(std::move(layer));
  }
  add_frozen(sizes.size());
  if (line.contains("head")) {
    profile.layers.front().kind = "embedding";
    profile.layers.push_back({.name = line["head"], .kind = "linear", .forward_us = 50, .backward_us = 100});
  }
  return profile;
}

planner::Groups groups_of(const ordered_json& counts) {
  planner::Groups groups;
  std::uint32_t begin = 0;
  for (const ordered_json& count : counts) {
    groups.push_back({.begin = begin, .end = begin + count.get<std::uint32_t>()});
    begin = groups.back().end;
  }
  return groups;
}

planner::Emission emit(const ordered_json& line) {
  const support::Scene scene(profile_of(line), support::link_of(50, 0.001), 8);
  const planner::Schedule schedule = planner::read_schedule(
      core::Field::parse(line.value("schedule", ordered_json("wfbp")).dump(), "schedule"));
  planner::PlanFile plan;
  plan.model = "m";
  plan.workers = 8;
  plan.pipeline = schedule.pipeline->name;
  plan.options = schedule.options;
  plan.compressor = schedule.compressor;
  const planner::Groups groups = groups_of(line["groups"]);
  scenarios::Prices prices(scene.setting, schedule, {});
  const auto iteration_us = [&](const planner::Behaviour& behaviour, const planner::Groups& other) {
    return prices.iteration_us(behaviour, other);
  };
  return planner::emit(line["target"].get<std::string>(), {plan,
                                                           groups,
                                                           scene.setting.workload,
                                                           iteration_us,
                                                           line.value("accumulation_steps", 1),
                                                           {},
                                                           &scene.network});
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    planner::Emission emission = emit(ordered_json::parse(line));
    emission.json["text"] = emission.text;
    std::cout << emission.json.dump() << std::endl;
  }
}
