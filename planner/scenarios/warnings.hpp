// Collects the warnings of several runs of a scenario.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// Deduplicates warnings by subject; keeps the most severe, in first-seen order, and the other numbers of
/// workers.
class Warnings {
 public:
  void add(const std::vector<planner::Warning>& warnings);
  /// The texts, after the scenario's own warnings.
  std::vector<std::string> texts(const Scenario& scenario) const;

 private:
  std::string also(const planner::Warning& warning) const;

  std::map<std::string, std::set<std::int64_t>> workers_;  // by subject
  std::vector<planner::Warning> all_;
};

}  // namespace scenarios
