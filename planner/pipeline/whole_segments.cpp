#include "planner/pipeline/whole_segments.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/printable.hpp"

namespace planner {
namespace {

bool is_gathered_again(const Program& program, std::uint32_t group) {
  return std::ranges::any_of(program.ops,
                             [&](const Op& op) { return op.issue == Issue::backward && op.group == group; });
}

}  // namespace

Groups undivided(const Setting& setting, const Program& program) {
  const bool gathers =
      std::ranges::any_of(program.ops, [](const Op& op) { return op.issue == Issue::backward; });
  if (!gathers || !setting.conditions.recompute) return {};
  const std::vector<Gradient>& gradients = setting.workload.gradients;
  std::vector<Segment> segments = segments_of(*setting.workload.profile, *setting.conditions.recompute);
  Groups out;
  std::uint32_t next = 0;
  while (!segments.empty()) {
    const Segment segment = segments.back();
    segments.pop_back();
    while (next < gradients.size() && gradients[next].layer > segment.last) ++next;
    const std::uint32_t begin = next;
    while (next < gradients.size() && gradients[next].layer >= segment.first) ++next;
    if (next > begin) out.push_back({.begin = begin, .end = next});
  }
  return out;
}

void check_undivided(const Setting& setting, const Program& program, const Groups& groups) {
  for (const Group& segment : undivided(setting, program)) {
    const auto divides = [&](const Group& group) {
      return group.begin < segment.end && group.end > segment.begin &&
             (group.begin > segment.begin || group.end < segment.end);
    };
    for (std::uint32_t i = 0; i < groups.size(); ++i) {
      if (!divides(groups[i]) || !is_gathered_again(program, i)) continue;
      const auto layer = [&](std::uint32_t gradient) {
        const std::uint32_t place = setting.workload.gradients[gradient].layer;
        return core::printable(setting.workload.profile->layers[place].name);
      };
      throw core::Unsupported(
          "groups that hold all layers that are computed again together, as fusion blocks and optimal make "
          "them",
          fmt::format("a group that holds a part of '{}' to '{}'", layer(segment.end - 1),
                      layer(segment.begin)),
          "/schedules");
    }
  }
}

}  // namespace planner
