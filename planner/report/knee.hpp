// The knee of a scaling curve: up to which number of workers another worker is worth its price.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/scenarios/run.hpp"

namespace report {

/// The knee of one schedule, the n-th of every number of workers.
struct Knee {
  std::string schedule;
  /// The largest number of workers of the scenario up to which every added worker adds at least half of what
  /// a single worker alone computes; 1 if not even the smallest number reaches that.
  std::int64_t workers = 1;
  /// Whether the scenario goes beyond the knee. Otherwise the curve has not bent yet.
  bool is_passed = false;
};

std::vector<Knee> knees(const scenarios::Results& results);

/// An added worker is worth its price if it adds at least this share of the throughput of a worker alone.
constexpr double kWorthwhile = 0.5;

}  // namespace report
