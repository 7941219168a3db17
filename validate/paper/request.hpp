// The request of a figure to a quantity: its keys, and the scenarios of the paper.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "planner/run/predict.hpp"
#include "planner/scenarios/scenario.hpp"
#include "validate/paper/paper.hpp"

namespace validate {

class Request {
 public:
  /// `keys` override the keys of `quantity`.
  Request(const Paper& paper, core::Field quantity, std::map<std::string, core::Field> keys);

  const Paper& paper() const { return *paper_; }
  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<core::Field> find(std::string_view key) const;
  core::Field at(std::string_view key) const;

  double number(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;

  /// Returns the scenario under `key`, with the request's own `network`, `profile` and `collectives` if it
  /// has them.
  scenarios::Scenario scenario(std::string_view key = "scenario") const;
  /// Returns the key `workers`, or the scenario's only number.
  std::int64_t workers(const scenarios::Scenario& scenario) const;
  /// Returns the list under the key `workers`.
  std::vector<std::int64_t> all_workers(const scenarios::Scenario& scenario) const;
  planner::Schedule schedule(std::string_view key = "schedule") const;

 private:
  const Paper* paper_;
  core::Field quantity_;
  std::map<std::string, core::Field> keys_;
};

/// Predicts one schedule on one number of workers.
planner::Metrics predict(scenarios::Scenario scenario, std::int64_t workers,
                         const planner::Schedule& schedule);

}  // namespace validate
