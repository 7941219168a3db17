// The parts that all emitters share: names, costs, and differences between the framework's groups and the
// plan.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/emit/emit.hpp"
#include "planner/emit/emitters/caps.hpp"
#include "planner/job/names.hpp"

namespace planner {

std::vector<std::string> tensor_names(const Workload& workload, const Group& group);

Sizes gradient_bytes(const Workload& workload);
Sizes gradient_elements(const Workload& workload);

/// The groups in backward order, the order in which frameworks launch them.
Groups in_order(const Groups& groups);

/// The number of tensors and the bytes of each group.
nlohmann::ordered_json sizes_json(const Workload& workload, const Groups& groups);

/// The plan's own pipeline, as it was planned.
Behaviour as_planned(const PlanFile& plan);

/// One all-reduce for each group under backward, without the plan's compressors.
Behaviour all_reduces(std::string_view words);

/// Quotes a text as a string that is valid in both Python and JSON.
std::string in_quotes(std::string_view text);
/// Formats a list such as ["a", "b"].
std::string list_in_quotes(const std::vector<std::string>& texts);

/// A request, the loss against its plan, and the parts that all emissions share.
class Report {
 public:
  /// Both must outlive the report. The framework behaves as `target` says of the plan.
  Report(const Target& target, const EmitRequest& request);

  const EmitRequest& request() const { return request_; }
  const Behaviour& behaviour() const { return behaviour_; }
  double planned_us() const { return planned_us_; }
  /// Predicted iteration time of these groups in the framework.
  double iteration_us(const Groups& groups) const { return request_.iteration_us(behaviour_, groups); }

  /// Returns {"groups", "iteration_us", "loss_us", "loss_percent"}.
  nlohmann::ordered_json cost(const Groups& groups, double iteration_us) const;
  nlohmann::ordered_json cost(const Groups& groups) const;
  /// Formats the result of cost(): "3 groups, 812.4 us per iteration: loses 17.7 us (2.2 %)".
  static std::string cost_text(const nlohmann::ordered_json& cost);
  nlohmann::ordered_json best_cost(std::string_view name, const nlohmann::ordered_json& value,
                                   const BestCap& best) const;
  /// Formats "the best of the 812 groupings that one number can make".
  static std::string tried_text(const BestCap& best);

  /// Sets the groups that the framework forms and compares them with the plan. `whys` gives, by plan group,
  /// reasons that only the emitter knows; empty entries use the default reason.
  void made(const Groups& groups, const std::vector<std::string>& whys = {});
  /// The same, for groups whose iteration time is known.
  void made(const Groups& groups, double iteration_us, const std::vector<std::string>& whys = {});

  void note(std::string_view text) { notes_.emplace_back(text); }
  /// The same as note() for what holds for all plans of the job.
  void note_of_job(std::string_view text) { notes_of_job_.emplace_back(text); }

  /// A line on the plan and one on the groups that the framework forms.
  std::string heading() const;
  /// Differences and notes as comment lines.
  std::string own_remarks() const;
  /// What holds for all plans of the job: notes, what was priced and verified, and what the framework does
  /// not do, each as comment lines.
  std::vector<std::string> closing() const;
  /// All of both.
  std::string remarks() const;
  /// Places `specific` between the keys with which all emissions begin and end.
  nlohmann::ordered_json json(const nlohmann::ordered_json& specific) const;

 private:
  const Target& target_;
  const EmitRequest& request_;
  Behaviour behaviour_;
  double planned_us_ = 0;
  bool reproduced_ = false;
  nlohmann::ordered_json makes_;
  nlohmann::ordered_json differs_ = nlohmann::ordered_json::array();
  std::vector<std::string> notes_;
  std::vector<std::string> notes_of_job_;
};

}  // namespace planner
