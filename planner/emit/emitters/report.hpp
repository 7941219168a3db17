// What emitters say alike: names, costs, and where a framework makes other groups than the plan.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/emit/emit.hpp"
#include "planner/emit/emitters/caps.hpp"

namespace planner {

const std::string& tensor_name(const Workload& workload, std::uint32_t gradient);
std::vector<std::string> tensor_names(const Workload& workload, const Group& group);
std::int64_t group_bytes(const Workload& workload, const Group& group);

Sizes gradient_bytes(const Workload& workload);
Sizes gradient_elements(const Workload& workload);

/// The groups in backward order, in which frameworks launch them.
Groups in_order(const Groups& groups);

/// A string that both Python and JSON read as this text.
std::string in_quotes(std::string_view text);
/// ["a", "b"]
std::string list_in_quotes(const std::vector<std::string>& texts);

/// A request, what is lost against its plan, and the parts of an emission that all emitters have.
class Report {
 public:
  Report(std::string_view target, const EmitRequest& request);

  const EmitRequest& request() const { return request_; }
  double planned_us() const { return planned_us_; }

  /// {"groups", "iteration_us", "loss_us", "loss_percent"}
  nlohmann::ordered_json cost(const Groups& groups, double iteration_us) const;
  nlohmann::ordered_json cost(const Groups& groups) const;
  /// "3 groups, 812.4 us per iteration: loses 17.7 us (2.2 %)"; of what cost() gave.
  static std::string cost_text(const nlohmann::ordered_json& cost);
  nlohmann::ordered_json best_cost(std::string_view name, const nlohmann::ordered_json& value,
                                   const BestCap& best) const;
  /// "the best of the 812 groupings that one number can make"
  static std::string tried_text(const BestCap& best);

  /// What the framework makes of what was emitted; compares it with the plan. `whys` are reasons that the
  /// emitter knows better, by group of the plan; empty where it does not.
  void made(const Groups& groups, const std::vector<std::string>& whys = {});

  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// Two lines on the plan, one on what the framework makes of it.
  std::string heading(std::string_view framework) const;
  /// Differences and notes, as comment lines.
  std::string remarks() const;
  /// `specific` goes between what all emissions begin and end with.
  nlohmann::ordered_json json(const nlohmann::ordered_json& specific) const;

 private:
  std::string target_;
  const EmitRequest& request_;
  double planned_us_ = 0;
  bool reproduced_ = false;
  nlohmann::ordered_json makes_;
  nlohmann::ordered_json differs_ = nlohmann::ordered_json::array();
  std::vector<std::string> notes_;
};

}  // namespace planner
