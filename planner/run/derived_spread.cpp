#include "planner/run/derived_spread.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "planner/cost/derived.hpp"
#include "sim/draws.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

constexpr std::uint64_t kSeed = 2;
constexpr std::array kKinds = {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                               CollectiveKind::all_gather};

/// The cost if it is a derived one with a range.
std::optional<DerivedCost> derived(const core::Network& network, std::int64_t workers,
                                   const Algorithm& algorithm, CollectiveKind kind) {
  if (workers == 1 || find_measured(network, workers, algorithm, kind) != nullptr) return std::nullopt;
  try {
    auto cost = derived_cost(network, workers, algorithm, kind);
    if (cost && cost->high_factor > cost->low_factor) return cost;
  } catch (const core::Unsupported&) {
    // A collective that the schedule does not use need not have a cost.
  }
  return std::nullopt;
}

/// The ends of the range lie 1.96 standard deviations of the logarithm from its middle.
double factor(const DerivedCost& cost, std::uint64_t sample) {
  constexpr double kDeviationsInRange = 3.92;
  const double sigma = sim::portable_log(cost.high_factor / cost.low_factor) / kDeviationsInRange;
  const double middle = std::sqrt(cost.low_factor * cost.high_factor);
  return middle * sim::portable_exp(sigma * sim::standard_normal(sim::hash(kSeed, sample)));
}

core::CostCurve scaled(const core::CostCurve& curve, double by) {
  std::vector<std::pair<double, double>> points = curve.points();
  for (auto& [bytes, us] : points) us *= by;
  return core::CostCurve::through(points);
}

}  // namespace

bool has_derived(const core::Network& network, std::int64_t workers, const Algorithm& algorithm) {
  return std::any_of(kKinds.begin(), kKinds.end(), [&](CollectiveKind kind) {
    return derived(network, workers, algorithm, kind).has_value();
  });
}

void add_derived(core::Network& sampled, const core::Network& network, std::int64_t workers,
                 const Algorithm& algorithm, std::uint64_t sample) {
  for (const CollectiveKind kind : kKinds) {
    const std::optional<DerivedCost> found = derived(network, workers, algorithm, kind);
    if (!found || found->curve.points().empty()) continue;
    sampled.measured.insert(sampled.measured.begin(), {.collective = kind,
                                                       .algorithm = algorithm.name,
                                                       .workers = workers,
                                                       .curve = scaled(found->curve, factor(*found, sample)),
                                                       .fit = {}});
  }
}

}  // namespace planner
