// What encoding or decoding a group takes.

#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "core/cost_curve.hpp"
#include "core/field.hpp"

namespace planner {

/// By the group's dense bytes: max(floor, startup + bytes * per byte), or as was measured.
struct CodeCost {
  double startup_us = 0;
  double us_per_byte = 0;
  double floor_us = 0;
  /// In place of the rest: of gradients of four bytes an element. Shared, as costs are copied often.
  std::shared_ptr<const core::CostCurve> curve = nullptr;

  double us(double bytes) const;
  /// The most that any group of up to so many bytes takes.
  double max_us(double bytes) const;
  bool is_free() const { return *this == CodeCost{}; }
  /// Whether more bytes never take less.
  bool is_monotone() const { return curve == nullptr || curve->is_monotone(); }
  /// Whether two groups never take less apart than together.
  bool merges_for_nothing() const { return curve == nullptr || curve->saved_by_merging_us() >= 0; }

  bool operator==(const CodeCost& other) const;
};

/// On a machine so many times as fast.
CodeCost sped_up(const CodeCost& cost, double times);

/// `{"startup_us": .., "us_per_byte": .., "floor_us": ..}`, each 0 where absent, or `{"curve": [[bytes, us],
/// ...]}`.
CodeCost read_code_cost(const core::Field& field);

/// As read_code_cost() takes it.
nlohmann::ordered_json code_cost_json(const CodeCost& cost);

}  // namespace planner
