#include "planner/cost/placement.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace planner {
namespace {

using core::Level;
using core::Network;

/// Throws Unsupported unless `workers` in a row fill units of each level, or are a part into which a unit
/// divides.
void check_divides(const Network& network, std::int64_t workers) {
  std::int64_t unit = 1;
  for (const Level& level : network.levels) {
    if (!level.size) return;
    unit *= *level.size;
    if (unit % workers != 0 && workers % unit != 0)
      throw core::Unsupported(
          fmt::format("groups of neighbouring workers that fill or divide the {} of level '{}'", unit,
                      level.name),
          fmt::format("groups of {}", workers));
    if (unit >= workers) return;
  }
}

/// What remains of the levels for every `stride`-th worker.
std::vector<Level> remaining(const std::vector<Level>& levels, std::int64_t stride) {
  std::vector<Level> out;
  for (Level level : levels) {
    if (level.size) {
      const std::int64_t taken = std::min(stride, *level.size);
      stride /= taken;
      *level.size /= taken;
    }
    if (level.size != 1) out.push_back(level);
  }
  return out;
}

}  // namespace

void check_placement(const Network& network, const Placement& placement) {
  check_divides(network, placement.stride);
  check_divides(network, placement.stride * placement.size);
}

Network as_seen_by(const Network& network, const Placement& placement) {
  check_placement(network, placement);
  if (network.levels.empty() || placement.stride == 1) return network;
  Network out = network;
  const std::int64_t node = network.levels.front().size.value_or(1);
  const auto groups_in_node = static_cast<double>(std::min(placement.stride, node));
  for (Level& level : out.levels)
    if (level.shared) level.link.beta_us_per_byte *= groups_in_node;
  if (out.line_rate_gbps && network.levels.back().shared) *out.line_rate_gbps /= groups_in_node;
  out.levels = remaining(out.levels, placement.stride);
  const bool has_node = node > placement.stride;
  std::erase_if(out.measured, [&](const core::Measured& measured) {
    return !has_node || measured.workers > node / placement.stride;
  });
  return out;
}

}  // namespace planner
