// Random and grid search for the cap with the shortest iteration: the baselines of DeAR's search.

#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/cap_search.hpp"

namespace planner {
namespace {

constexpr std::int64_t kMaxProbes = 10'000;

Fuse searched(const core::Field& field, const Searcher& searcher) {
  return [search = read_cap_search(field, kMaxProbes), searcher](const FusionRequest& request) {
    return search_cap(request, search, searcher);
  };
}

Fuse read_random(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "of", "from_bytes", "to_bytes", "probes", "seed"});
  return searched(field, random_search);
}

Fuse read_grid(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "of", "from_bytes", "to_bytes", "probes"});
  return searched(field, grid_search);
}

}  // namespace

FusionKind random_caps() {
  return {.name = "random", .summary = "the best of random caps", .read = read_random, .searches = true};
}

FusionKind grid_of_caps() {
  return {.name = "grid", .summary = "the best of evenly spaced caps", .read = read_grid, .searches = true};
}

}  // namespace planner
