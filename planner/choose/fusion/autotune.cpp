// The best result that Horovod's autotune can find: a grid search over the ranges of threshold and cycle time
// that it searches. In horovod/common/parameter_manager.cc these are 0 to 64 MiB and 1 to 100 ms, so the
// default threshold of 128 MiB is outside; a threshold of 0 fuses nothing.

#include <algorithm>

#include <fmt/format.h>

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/cap_search.hpp"
#include "planner/choose/fusion/keys.hpp"

namespace planner {
namespace {

using sim::Time;

constexpr std::int64_t kMaxSteps = 1000;
constexpr double kMaxCycleUs = 1e9;

struct Grid {
  IntegerRange caps;
  std::int64_t cap_steps = 0;
  double from_cycle_us = 0;
  double to_cycle_us = 0;
  std::int64_t cycle_steps = 0;

  std::int64_t cap(std::int64_t i) const {
    return cap_steps > 1 ? caps.from + (caps.to - caps.from) * i / (cap_steps - 1) : caps.from;
  }
  Time cycle(std::int64_t i) const {
    if (cycle_steps == 1) return sim::from_us(from_cycle_us);
    const double part = static_cast<double>(i) / static_cast<double>(cycle_steps - 1);
    return sim::from_us(from_cycle_us + (to_cycle_us - from_cycle_us) * part);
  }
};

Groups tune(const FusionRequest& request, const Grid& grid) {
  BestGroups best(request);
  const Time last_ready = request.workload.gradients.back().ready;
  for (std::int64_t c = 0; c < grid.cycle_steps; ++c) {
    const Time cycle = grid.cycle(c);
    Groups before;
    for (std::int64_t i = 0; i < grid.cap_steps; ++i) {
      Groups groups = under_threshold(request.workload, grid.cap(i), cycle);
      if (groups != before) best.offer(groups);
      before = std::move(groups);
    }
    if (cycle >= last_ready)
      break;  // all groups are issued at the first tick: longer cycles only add
              // waiting
  }
  return best.groups();
}

Fuse read(const core::Field& field) {
  allow_fusion_keys(
      field, {"kind", "from_bytes", "to_bytes", "cap_steps", "from_cycle_us", "to_cycle_us", "cycle_steps"});
  Grid grid;
  grid.caps = read_range(field, "from_bytes", "to_bytes", 0, {.from = 0, .to = 64 << 20});
  grid.cap_steps = fusion_integer(field, "cap_steps", 1, kMaxSteps, 17);
  grid.from_cycle_us = fusion_number(field, "from_cycle_us", 0, kMaxCycleUs, 1000);
  grid.to_cycle_us = fusion_number(field, "to_cycle_us", grid.from_cycle_us, kMaxCycleUs,
                                   std::max(grid.from_cycle_us, 100'000.0));
  grid.cycle_steps = fusion_integer(field, "cycle_steps", 1, kMaxSteps, 100);
  return [grid](const FusionRequest& request) { return tune(request, grid); };
}

}  // namespace

FusionKind autotune() {
  return {.name = "autotune",
          .summary = "the best threshold and cycle in the ranges of Horovod's autotune",
          .read = read,
          .searches = true};
}

}  // namespace planner
