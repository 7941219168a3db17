// The time of a single collective.

#include "core/limits.hpp"
#include "planner/cost/costs.hpp"
#include "validate/paper/quantities.hpp"

namespace validate {
namespace {

core::CollectiveKind collective_kind(const Request& request) {
  const auto field = request.find("collective");
  if (!field) return core::CollectiveKind::all_reduce;
  const std::string name = field->one_of({"all_reduce", "reduce_scatter", "all_gather"});
  if (name == "all_reduce") return core::CollectiveKind::all_reduce;
  return name == "all_gather" ? core::CollectiveKind::all_gather : core::CollectiveKind::reduce_scatter;
}

/// The time of `bytes` bytes, from the scenario's network and collectives or from its own `network`.
Values collective_ms(const Request& request) {
  constexpr double kMaxBytes = 8e12;
  const scenarios::Scenario scenario = request.scenario();
  const std::int64_t workers = request.workers(scenario);
  const double bytes = request.at("bytes").number(0, kMaxBytes);
  const planner::Costs costs(scenario.network, workers, scenario.all_reduce);
  return {{"", costs.of(collective_kind(request)).curve.us(bytes) / 1e3}};
}

}  // namespace

std::vector<Quantity> collective_quantities() {
  return {{"collective_ms",
           "all_reduce (or another `collective`) of `bytes`",
           {"scenario", "workers", "network", "collectives", "collective", "bytes"},
           collective_ms}};
}

}  // namespace validate
