// Random search for the cap with the shortest iteration: a baseline of DeAR's search.

#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/cap_search.hpp"

namespace planner {
namespace {

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "of", "from_bytes", "to_bytes", "probes", "seed"});
  constexpr std::int64_t kMaxProbes = 10'000;
  return [search = read_cap_search(field, kMaxProbes)](const FusionRequest& request) {
    return search_cap(request, search, random_search);
  };
}

}  // namespace

FusionKind random_caps() {
  return {.name = "random", .summary = "the best of random caps", .read = read, .searches = true};
}

}  // namespace planner
