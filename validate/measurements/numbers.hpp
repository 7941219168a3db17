// The numbers that a calibration fits: what each is, what is known of it beforehand, and how it changes a
// profile or a network.

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/job/conditions.hpp"

namespace validate {

enum class FittedQuantity {
  compute_factor,          ///< of a model: on all times of its profile
  per_byte,                ///< of a level of a network: factor on its time per byte
  startup_per_hop,         ///< of a level: factor on the startup of a message
  fixed_startup,           ///< of a level: microseconds of each collective, whatever its size and workers
  communication_slowdown,  ///< of a network: while its workers compute
  compute_slowdown,        ///< of a network: while its channels are busy
  forward_share,           ///< of a model: the forward pass's share of its compute
};

inline constexpr std::array<FittedQuantity, 7> kQuantities = {
    FittedQuantity::compute_factor,         FittedQuantity::per_byte,
    FittedQuantity::startup_per_hop,        FittedQuantity::fixed_startup,
    FittedQuantity::communication_slowdown, FittedQuantity::compute_slowdown,
    FittedQuantity::forward_share};

/// As files and messages call it: compute_factor, per_byte and so on.
std::string_view name(FittedQuantity quantity);
bool is_of_model(FittedQuantity quantity);

/// A number as the solver sees it. Factors and shares are moved on a scale of logarithms, the others on their
/// own; on this scale what is known beforehand is a normal distribution within bounds.
struct Number {
  FittedQuantity quantity = FittedQuantity::compute_factor;
  std::string owner;       ///< the name of its model or network
  std::size_t level = 0;   ///< of the network
  double known = 0;        ///< what the file says, in the unit of value_of()
  double start = 0;        ///< the position of `known`, moved into the bounds
  double uncertainty = 1;  ///< standard deviation of what is known
  double lower = 0;
  double upper = 0;
  double step = 1e-3;  ///< of a difference quotient; far above the clock's picosecond
  bool bounded_by_line_rate = false;
};

/// The number at a position: a factor, microseconds, a slow-down or a share.
double value_of(const Number& number, double position);

/// "time per byte of network 'n'"
std::string description(const Number& number, const core::Network* network);

struct ModelNumbers {
  double compute_factor = 1;
  double odds_factor = 1;  ///< on forward / backward time; their sum stays
};

struct LevelNumbers {
  double per_byte = 1;
  double startup_per_hop = 1;
  double fixed_startup_us = 0;
};

struct NetworkNumbers {
  std::vector<LevelNumbers> levels;  ///< one for a network without levels
  planner::Overlap overlap;
};

/// The numbers of a model that could be fitted.
std::vector<Number> numbers_of(const std::string& name, const core::Profile& profile);
/// The numbers of a network whose rows span the levels up to `outermost`.
std::vector<Number> numbers_of(const std::string& name, const core::Network& network, std::size_t outermost);

/// The index of the outermost level that this many workers span; 0 without levels.
std::size_t outermost_level(const core::Network& network, std::int64_t workers);

core::Profile calibrated(const core::Profile& profile, const ModelNumbers& numbers);
/// Without fixed startups, for which a link has no place.
core::Network calibrated(const core::Network& network, const NetworkNumbers& numbers);
/// Charges each collective of this algorithm on this many workers `fixed_us` more. A half of an all-reduce is
/// a collective of its own, so it is charged as much. Throws Unsupported if the network has no cost there.
core::Network with_fixed_startup(core::Network network, std::int64_t workers,
                                 const planner::Algorithm& algorithm, double fixed_us);

}  // namespace validate
