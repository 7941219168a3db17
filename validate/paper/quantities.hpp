// The table of quantities that a figure of a paper may use.

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "validate/paper/request.hpp"
#include "validate/paper/values.hpp"

namespace validate {

struct Quantity {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> keys;
  /// Returns one unlabelled number or several; none if the value does not exist (no crossing, for example).
  Values (*measure)(const Request& request);
  bool is_wall_clock = false;  ///< differs between runs: printed, but never written into a report
};

/// In the order of the documentation.
std::span<const Quantity> quantities();

/// Computes the figure's quantity (its `kind`) for each of its cases; throws InputError.
Values measure(const Paper& paper, const Figure& figure);

/// Returns the quantity that a figure names.
const Quantity& quantity_of(const Figure& figure);

/// Rejects an unknown kind, and keys that the kind does not have.
void check_quantity(const core::Field& quantity);

// Each file in quantities/ provides one group.
std::vector<Quantity> simulated_quantities();
std::vector<Quantity> sweep_quantities();
std::vector<Quantity> collective_quantities();
std::vector<Quantity> dear_quantities();
std::vector<Quantity> part_quantities();
std::vector<Quantity> weak_scaling_quantities();
std::vector<Quantity> hitopk_quantities();
std::vector<Quantity> counted_quantities();
std::vector<Quantity> selected_quantities();
std::vector<Quantity> searched_quantities();

}  // namespace validate
