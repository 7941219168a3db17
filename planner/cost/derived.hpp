// Costs of collectives that a network did not measure, derived from curves that it did: other numbers of
// workers, several nodes, and the halves of an all-reduce. docs/networks.md has the formulas and their
// errors.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/cost/curve_parts.hpp"

namespace planner {

/// The name of an innermost level whose costs are the curves that were measured on as many workers as its
/// size, instead of its link.
constexpr std::string_view kMeasuredNode = "measured node";

/// Whether the network's levels are such a node, and one level that joins nodes.
bool has_measured_nodes(const core::Network& network);

/// The numbers of workers that the network measured some collective on.
std::set<std::int64_t> measured_workers(const core::Network& network);

/// Nine in ten of the times of several nodes that others published, for 32 MiB and more, lie between these
/// factors of the cost that is derived for them (docs/networks.md).
constexpr double kNodesLow = 0.7;
constexpr double kNodesHigh = 2;
/// The share of its data sheet's rate that a port reaches, by the same times.
constexpr double kReachedRate = 0.85;
/// The startup of a message between nodes where it is not known, fitted to the same times.
constexpr double kHopBetweenUs = 15;

/// Adds such levels to a network that has curves and no levels: nodes of `node` workers, one of
/// measured_workers(), joined by ports of which `between` has the data sheet's rate. The link inside is
/// fitted to the all-reduce of a node, or to what else was measured on it. Curves of more workers are
/// dropped.
void join_nodes(core::Network& network, std::int64_t node, const core::Link& between, bool is_shared);

/// A cost with how it was derived, in words, and the range of factors that 95 % of the true times are
/// expected in, and in a peak more than that.
struct DerivedCost {
  core::CostCurve curve;
  std::string derivation;
  double low_factor = 1;
  double high_factor = 1;
  std::vector<Peak> peaks = {};
};

/// The cost of a collective that `network` did not measure on `workers` (at least 2), derived from curves.
/// None if the network has a link or levels other than measured nodes, or no curve to derive it from. Throws
/// Unsupported if what could be derived would be off too far; the message names the measurement that helps.
std::optional<DerivedCost> derived_cost(const core::Network& network, std::int64_t workers,
                                        const Algorithm& algorithm, core::CollectiveKind kind);

/// Returns the network with its derived costs on `workers` as if they had been measured. A network that is
/// scaled afterwards keeps them, whereas curves that were scaled first may not predict one another any more.
core::Network with_derived(core::Network network, std::int64_t workers, const Algorithm& algorithm);

/// The first curve in the file for this collective, number of workers and algorithm; nullptr: none.
const core::Measured* find_measured(const core::Network& network, std::int64_t workers,
                                    const Algorithm& algorithm, core::CollectiveKind kind);

}  // namespace planner
