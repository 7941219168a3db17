// Costs of collectives that a network did not measure, derived from curves that it did: other numbers of
// workers, several nodes, and the halves of an all-reduce. docs/networks.md has the formulas and their
// errors.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "planner/cost/collectives.hpp"

namespace planner {

/// Curves of one collective on several numbers of workers, in increasing order, each at least 2.
struct MeasuredOn {
  std::int64_t workers = 2;
  const core::CostCurve* curve = nullptr;
  bool is_stated = false;  ///< whether the measurement says by which algorithm it was made
};

struct Extrapolation {
  core::CostCurve curve;
  std::vector<std::int64_t> from;  ///< the numbers of workers whose curves were scaled
  /// The mean factor, less 1, between predicted and measured times where each number of workers is predicted
  /// from the others; none with a single one.
  std::optional<double> left_out_error;
  /// The range of factors of the predicted times within which 95 % of the true times are expected.
  double low_factor = 1;
  double high_factor = 1;
};

/// Scales the nearest measured curves, below and above `workers`, by the factors of `algorithm` (ring for
/// one that is defined on levels only). Needs at least one curve, none of them on `workers` itself.
Extrapolation extrapolate(const std::vector<MeasuredOn>& measured, std::int64_t workers,
                          const Algorithm& algorithm, core::CollectiveKind kind);

/// An extrapolation whose left-out error exceeds this is refused.
constexpr double kMaxLeftOutError = 0.4;

/// The name of an innermost level whose costs are the curves that were measured on as many workers as its
/// size, instead of its link.
constexpr std::string_view kMeasuredNode = "measured node";

/// Whether the network's levels are such a node, and one level that joins nodes.
bool has_measured_nodes(const core::Network& network);

/// Adds such levels to a network that has curves and no levels: nodes of as many workers as the largest
/// number measured, joined by `between`. The link inside, for what needs one, is fitted to the all-reduce of
/// a node.
void join_nodes(core::Network& network, const core::Link& between, bool is_shared);

/// A cost with how it was derived, in words, and its range as in Extrapolation.
struct DerivedCost {
  core::CostCurve curve;
  std::string derivation;
  double low_factor = 1;
  double high_factor = 1;
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

/// The line rate of the ports that collectives of `workers` pass. None if the network states no rate, or if
/// the workers do not span its outermost level, whose rate it is.
std::optional<double> line_rate_gbps(const core::Network& network, std::int64_t workers);

/// The physical bound on the time of a collective, in us per byte of its message: every worker's port passes
/// (P-1)/P of the message, twice for an all-reduce.
double physical_us_per_byte(double line_rate_gbps, std::int64_t workers, core::CollectiveKind kind);

/// The curve, with every time raised to at least bytes * us_per_byte; unchanged if no time is below. Messages
/// smaller than the first size keep the first time up to where the bound meets it.
core::CostCurve raised(const core::CostCurve& curve, double us_per_byte);

/// startup + bytes * us_per_byte, raised to at least bytes * min_us_per_byte.
core::CostCurve raised_affine(double startup_us, double us_per_byte, double min_us_per_byte);

}  // namespace planner
