#include "planner/run/derived_spread.hpp"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "planner/run/sampled_inputs.hpp"

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

core::CostCurve sampled_curve(const DerivedCost& cost, std::uint64_t sample) {
  std::vector<std::pair<double, double>> points = cost.curve.points();
  for (auto& [bytes, us] : points)
    us *= factor_in_range(cost.low_factor, cost.high_factor * peak_factor(cost.peaks, bytes), kSeed, sample);
  return core::CostCurve::through(points);
}

}  // namespace

std::vector<DerivedRange> derived_ranges(const core::Network& network, std::int64_t workers,
                                         const Algorithm& algorithm) {
  std::vector<DerivedRange> out;
  for (const CollectiveKind kind : kKinds)
    if (auto found = derived(network, workers, algorithm, kind); found && !found->curve.points().empty())
      out.push_back({.kind = kind, .cost = *std::move(found)});
  return out;
}

void add_sampled(core::Network& sampled, const std::vector<DerivedRange>& ranges, std::int64_t workers,
                 const Algorithm& algorithm, std::uint64_t sample) {
  for (const DerivedRange& range : ranges)
    sampled.measured.insert(sampled.measured.begin(), {.collective = range.kind,
                                                       .algorithm = algorithm.name,
                                                       .workers = workers,
                                                       .curve = sampled_curve(range.cost, sample)});
  if (!has_measured_nodes(sampled)) return;
  const double times = factor_in_range(kNodesLow, kNodesHigh, kSeed, sample);
  for (core::Level& level : sampled.levels) level.link.alpha_us *= times;
  sampled.levels.back().link.beta_us_per_byte *= times;
}

}  // namespace planner
