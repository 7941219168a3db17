// What encoding or decoding a group takes.

#pragma once

namespace planner {

/// By the group's dense bytes: max(floor, startup + bytes * per byte).
struct CodeCost {
  double startup_us = 0;
  double us_per_byte = 0;
  double floor_us = 0;

  double us(double bytes) const;
  bool is_free() const { return *this == CodeCost{}; }
  bool operator==(const CodeCost&) const = default;
};

}  // namespace planner
