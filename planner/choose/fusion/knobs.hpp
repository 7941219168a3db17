// Fusions that depend on one number, as functions of that number; searches and sweeps vary it.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"

namespace planner {

struct Knob {
  std::string_view name;  ///< of the fusion
  bool is_count = false;  ///< the number counts layers or groups; otherwise it is in bytes
  Groups (*groups)(const Workload& workload, std::int64_t number);
  /// The least number above this one that yields other groups than these; none if there is none.
  std::optional<std::int64_t> (*next)(const Workload& workload, const Groups& groups, std::int64_t number);
};

/// Every fusion that depends on one number.
std::span<const Knob> knobs();

/// The groups of the fusion `threshold`; a cap of 0 fuses nothing.
Groups under_threshold(const Workload& workload, std::int64_t cap, sim::Time cycle);

/// The lower of two numbers, of which the first is optional.
inline std::int64_t lower_of(std::optional<std::int64_t> found, std::int64_t other) {
  return found && *found < other ? *found : other;
}

}  // namespace planner
