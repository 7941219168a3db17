// Evaluates every number that yields different groups: the best result of a framework with one scalar
// setting. With buckets of 2 to 64 MB, and with 2 to 32 equal groups, these are the baselines of Cupcake.

#include "core/limits.hpp"
#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/cap_search.hpp"

namespace planner {
namespace {

Groups best_of_all(const FusionRequest& request, const Knob& knob, const IntegerRange& range) {
  BestGroups best(request);
  for (std::int64_t number = range.from;;) {
    Groups groups = knob.groups(request.workload, number);
    const std::optional<std::int64_t> next = knob.next(request.workload, groups, number);
    best.offer(std::move(groups));
    if (!next || *next > range.to) return best.groups();
    number = *next;
  }
}

Fuse read(const core::Field& field) {
  const Knob& knob = read_knob(field, {"buckets", "threshold", "modules", "layers", "groups"});
  const std::string_view from_key = knob.is_count ? "from" : "from_bytes";
  const std::string_view to_key = knob.is_count ? "to" : "to_bytes";
  allow_fusion_keys(field, {"kind", "of", from_key, to_key});
  const IntegerRange range = read_range(field, from_key, to_key, 1, {.from = 1, .to = core::kMaxBytes});
  return [knob, range](const FusionRequest& request) { return best_of_all(request, knob, range); };
}

}  // namespace

FusionKind sweep() {
  return {.name = "sweep",
          .summary = "the best of every cap or count of another kind",
          .read = read,
          .searches = true};
}

}  // namespace planner
