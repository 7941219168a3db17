// The plans of a job with process groups and pipeline stages, and their translation for a training framework.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.hpp"
#include "planner/emit/emit.hpp"
#include "planner/plan/plan_file.hpp"
#include "planner/scenarios/explain_stages.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// The groups that the workers of one process group sum for one part of the model, as a plan of their own.
struct PartPlan {
  std::int64_t stage = 0;
  std::optional<std::int64_t> part = {};  ///< of the model, where a stage has several
  bool of_experts = false;
  planner::PlanFile plan;  ///< its workers are those of the process group; predicted is the whole job
};

struct DividedPlan {
  planner::PlanFile whole;  ///< without groups
  std::vector<PartPlan> parts;
  std::vector<std::string> warnings;
  std::optional<planner::Emission> emission;
  std::optional<StageExplanation> explanation;
};

/// Plans a scenario with the key `parallel`. Where a framework is to be emitted, each part is priced in the
/// whole job. No target can be planned for. Throws InputError for frameworks that know no stages.
DividedPlan divided_plan(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule,
                         const PlanOptions& options = {});

std::string divided_plan_text(const DividedPlan& plan, std::size_t width = 0);
std::string divided_plan_json(const DividedPlan& plan);
/// Reads and checks what divided_plan_json() writes (`fusewise.stage-plans`); throws InputError.
DividedPlan read_divided_plan(const core::Field& file);

}  // namespace scenarios
