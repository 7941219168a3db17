// Translates a plan for a training framework: text to paste into the job, the groups that the framework then
// forms, and the loss if it cannot reproduce the plan.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "planner/job/grouping.hpp"
#include "planner/job/workload.hpp"
#include "planner/plan/plan_file.hpp"

namespace planner {

struct EmitRequest {
  const PlanFile& plan;
  const Groups& groups;      ///< the plan's groups, as ranges of the workload's gradients
  const Workload& workload;  ///< the workload that the plan was made for
  /// Predicted iteration time with other groups; everything else stays as planned.
  std::function<double(const Groups&)> iteration_us;
};

struct Emission {
  std::string text;  ///< Python or a command line with comments, ready to paste; ends with a newline
  /// The same as data. Every target has `target`, `groups_reproduced`, `iteration_us` (as planned), `makes`
  /// (the groups that the framework forms), `differs` (plan groups, from 1, that it forms otherwise) and
  /// `notes`; targets with a single number also have `best_single_cap`. `json` holds only its groups, and
  /// `nccl-tuner` its rules.
  nlohmann::ordered_json json;
};

/// A framework that plans can be translated for.
struct Emitter {
  std::string_view name;
  std::string_view summary;
  Emission (*emit)(const EmitRequest& request);
};

/// Every emitter, in the order in which help lists them.
std::span<const Emitter> emitters();

/// `target` must be the name of one of emitters().
Emission emit(std::string_view target, const EmitRequest& request);

}  // namespace planner
