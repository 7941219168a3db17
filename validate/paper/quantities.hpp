// Every quantity that a figure of a paper may ask for.

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
  /// One number unlabelled, or several; none where there is no such thing (no crossing, say).
  Values (*measure)(const Request& request);
  bool is_wall_clock = false;  ///< differs from run to run: printed, but never written into a report
};

/// In the order in which the documentation lists them.
std::span<const Quantity> quantities();

/// The quantity that a figure names under `kind`, for each of its cases; throws InputError.
Values measure(const Paper& paper, const Figure& figure);

/// The one that a figure names.
const Quantity& quantity_of(const Figure& figure);

/// Refuses a quantity of an unknown kind, or with keys that are not its own.
void check_quantity(const core::Field& quantity);

// One group of them in each file of quantities/.
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
