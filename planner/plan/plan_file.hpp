// The plan file: what a training job should do.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/field.hpp"
#include "planner/cost/collectives.hpp"
#include "planner/cost/compressor.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

enum class Optimality { exact, heuristic };

struct PlanGroup {
  std::vector<std::string> tensors;  ///< in backward order
  std::int64_t bytes = 0;
  double tick_us = 0;            ///< issued no sooner after backward began; written only where it is not 0
  TransferChoice transfer = {};  ///< how it travels, as far as that is not how the plan's groups do
};

struct ComparedPlan {
  std::string schedule;
  double iteration_us = 0;
};

/// Of a robust plan: what it and others make of the iterations that it was chosen by.
struct SampledPlan {
  std::string objective;  ///< mean or p95
  std::int64_t samples = 0;
  double iteration_us = 0;
  double exact_plan_us = 0;  ///< of the groups that would be exact if nothing varied
  double lower_bound_us = 0;
};

struct PlanFile {
  std::string model;
  std::int64_t workers = 1;
  std::string pipeline = "wfbp";
  PipelineOptions options;  ///< the pipeline's own keys
  Algorithm all_reduce;
  Compressor compressor;
  bool selective = false;  ///< groups that are sooner there as they are travel uncompressed
  Optimality optimality = Optimality::heuristic;
  std::int64_t largest_front = 0;  ///< of the exact planner: beginnings kept at one cut; 0: made otherwise
  double optimality_gap_us = 0;     ///< of the exact planner where it had to give up exactness
  double iteration_us = 0;
  double lower_bound_us = 0;
  std::vector<ComparedPlan> compared_with;
  std::optional<SampledPlan> sampled;
  std::vector<PlanGroup> groups;  ///< in communication order
};

/// Reads and checks `fusewise.plan`; throws InputError.
PlanFile read_plan_file(const core::Field& field);

std::string plan_text(const PlanFile& plan);

}  // namespace planner
