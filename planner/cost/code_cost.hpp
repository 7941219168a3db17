// The time to encode or decode a group.

#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "core/cost_curve.hpp"
#include "core/field.hpp"

namespace planner {

/// A cost in dense bytes of the group: max(floor, startup + bytes * per byte), or a measured curve.
struct CodeCost {
  double startup_us = 0;
  double us_per_byte = 0;
  double floor_us = 0;
  /// Replaces the formula: measured on gradients with four bytes per element. Shared because costs are copied
  /// often.
  std::shared_ptr<const core::CostCurve> curve = nullptr;

  double us(double bytes) const;
  /// The maximum over groups of up to this many bytes.
  double max_us(double bytes) const;
  bool is_free() const { return *this == CodeCost{}; }
  /// Whether more bytes never take less time.
  bool is_monotone() const { return curve == nullptr || curve->is_monotone(); }
  /// Whether two groups never take less time separately than together.
  bool merges_for_nothing() const { return curve == nullptr || curve->saved_by_merging_us() >= 0; }

  bool operator==(const CodeCost& other) const;
};

/// The cost on a machine that is `times` as fast.
CodeCost sped_up(const CodeCost& cost, double times);

/// Reads `{"startup_us": .., "us_per_byte": .., "floor_us": ..}`, each 0 if absent, or `{"curve": [[bytes,
/// us], ...]}`.
CodeCost read_code_cost(const core::Field& field);

/// Writes the form that read_code_cost() reads.
nlohmann::ordered_json code_cost_json(const CodeCost& cost);

}  // namespace planner
