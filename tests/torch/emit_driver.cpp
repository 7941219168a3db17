// Makes emissions without scenarios: reads lines of {"target", "sizes" in bytes, backward order, "groups" as
// counts, "names"?, "pipeline"?} and prints each emission's JSON on a line; with --text the texts.

#include <iostream>
#include <string>

#include <fmt/format.h>

#include "planner/emit/emit.hpp"
#include "tests/support/groups.hpp"

namespace {

using nlohmann::ordered_json;

/// A layer a tensor, float32, 100 us of backward each.
core::Profile profile_of(const ordered_json& sizes, const ordered_json& names) {
  core::Profile profile = {.model = "m", .device = "d"};
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const std::string name = names.empty() ? fmt::format("t{}.weight", i) : names[i].get<std::string>();
    core::ProfileLayer layer = {
        .name = fmt::format("l{}", i), .kind = "k", .forward_us = 50, .backward_us = 100};
    layer.tensors.push_back({.name = name, .elements = sizes[i].get<std::int64_t>() / 4});
    profile.layers.push_back(std::move(layer));
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
  const support::Scene scene(profile_of(line["sizes"], line.value("names", ordered_json::array())),
                             support::link_of(50, 0.001), 8);
  planner::PlanFile plan = {.model = "m", .workers = 8, .pipeline = line.value("pipeline", "wfbp")};
  const planner::Groups groups = groups_of(line["groups"]);
  const auto iteration_us = [&](const planner::Groups& other) {
    const planner::Schedule schedule = {
        .pipeline = &planner::pipeline(plan.pipeline),
        .fusion = {.kind = "given", .fuse = [&](const planner::FusionRequest&) { return other; }}};
    return scene.run(schedule).metrics.iteration_us;
  };
  return planner::emit(line["target"].get<std::string>(),
                       {plan, groups, scene.setting.workload, iteration_us});
}

}  // namespace

int main(int argc, char** argv) {
  const bool as_text = argc > 1 && std::string(argv[1]) == "--text";
  for (std::string line; std::getline(std::cin, line);) {
    const planner::Emission emission = emit(ordered_json::parse(line));
    std::cout << (as_text ? emission.text : emission.json.dump() + '\n') << std::flush;
  }
}
