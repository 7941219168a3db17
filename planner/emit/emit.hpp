// A plan in the words of a training framework: what to paste into the job, what the framework makes of it,
// and what is lost where it cannot do what the plan says.

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
  const Groups& groups;      ///< the plan's, as runs of the workload's gradients
  const Workload& workload;  ///< what the plan was made for
  /// What an iteration would take with other groups, all else as planned.
  std::function<double(const Groups&)> iteration_us;
};

struct Emission {
  std::string text;  ///< ready to paste: Python or a command line, with comments; ends with a newline
  /// The same as data. Everywhere: `target`, `groups_reproduced`, `iteration_us` (as planned), `makes` (what
  /// the framework makes of the text), `differs` (groups of the plan, from 1, that it makes otherwise) and
  /// `notes`; where one number decides: `best_single_cap`. `json` has its groups alone.
  nlohmann::ordered_json json;
};

/// A framework that a plan can be told to.
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
