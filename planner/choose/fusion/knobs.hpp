// Fusions that one number decides, as functions of that number: what searches and sweeps turn.

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
  bool is_count = false;  ///< a number of layers or groups; else of bytes
  Groups (*groups)(const Workload& workload, std::int64_t number);
  /// The least number above this one that gives other groups than these; none where there is none.
  std::optional<std::int64_t> (*next)(const Workload& workload, const Groups& groups, std::int64_t number);
};

/// Every fusion with such a number.
std::span<const Knob> knobs();

/// The groups of `threshold`; a cap of 0 fuses nothing.
Groups under_threshold(const Workload& workload, std::int64_t cap, sim::Time cycle);

/// The lower of two numbers of which the first may be missing.
inline std::int64_t lower_of(std::optional<std::int64_t> found, std::int64_t other) {
  return found && *found < other ? *found : other;
}

}  // namespace planner
