// DeAR-BO: Bayesian search for the cap with the shortest iteration (DeAR, section IV-B).

#include <algorithm>

#include "planner/choose/fusion.hpp"
#include "planner/choose/fusion/cap_search.hpp"
#include "planner/choose/fusion/keys.hpp"

namespace planner {
namespace {

constexpr std::int64_t kMaxProbes = 100;  // search time grows with the cube of the probes

Fuse read(const core::Field& field) {
  allow_fusion_keys(field, {"kind", "of", "from_bytes", "to_bytes", "first_bytes", "probes", "xi", "seed"});
  const CapSearch search = read_cap_search(field, kMaxProbes);
  const auto from = static_cast<std::int64_t>(search.space.from);
  const auto to = static_cast<std::int64_t>(search.space.to);
  constexpr std::int64_t kDearFirst = 25'000'000;
  const std::int64_t first = fusion_integer(field, "first_bytes", from, to, std::clamp(kDearFirst, from, to));
  const BayesianOptions options = {.first = static_cast<double>(first),
                                   .xi = fusion_number(field, "xi", 0, 1e6, BayesianOptions{}.xi)};
  return [search, options](const FusionRequest& request) {
    return search_cap(request, search, [&](const Objective& objective, const SearchSpace& space) {
      return bayesian_search(objective, space, options);
    });
  };
}

}  // namespace

FusionKind bayesian() {
  return {.name = "bayesian",
          .summary = "Bayesian search for the best cap (DeAR)",
          .read = read,
          .searches = true};
}

}  // namespace planner
