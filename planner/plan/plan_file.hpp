// The plan file: the groups and transfers that a training job should use.

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
#include "planner/job/data_types.hpp"
#include "planner/job/recompute.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

enum class Optimality {
  exact,      ///< no other grouping is faster
  heuristic,  ///< other groupings were compared, and a faster one may exist
  given       ///< the schedule or the job prescribes the groups
};

struct PlanGroup {
  std::vector<std::string> tensors;  ///< in backward order
  /// By tensor, the module that is called when it is used; empty if each is used by the module that owns it.
  std::vector<std::string> modules = {};
  std::int64_t bytes = 0;
  double tick_us = 0;            ///< earliest issue since backward began; written only if it is not 0
  TransferChoice transfer = {};  ///< transfer, as far as it differs from the plan's
};

struct ComparedPlan {
  std::string schedule;
  double iteration_us = 0;
};

/// Results of a robust plan and of alternatives on the sampled iterations by which it was chosen.
struct SampledPlan {
  std::string objective;  ///< mean or p95
  std::int64_t samples = 0;
  double iteration_us = 0;
  double exact_plan_us = 0;  ///< value of the groups that are optimal without variation
  double lower_bound_us = 0;
};

struct PlanFile {
  std::string model;
  std::int64_t workers = 1;
  std::string pipeline = "wfbp";
  PipelineOptions options;  ///< the pipeline's own keys
  std::string target = {};  ///< the framework as which it was planned and predicted; empty: as its pipeline
  Algorithm all_reduce;
  Compressor compressor;
  DataTypes data_types = {};                ///< of the job, as far as they are not the profile's
  std::optional<Recompute> recompute = {};  ///< which layers of the job are checkpointed
  bool selective = false;                   ///< groups that arrive sooner uncompressed are sent uncompressed
  Optimality optimality = Optimality::heuristic;
  std::int64_t largest_front = 0;  ///< exact planner: prefixes kept at one cut; 0 for other fusions
  double optimality_gap_us = 0;    ///< exact planner: bound on the loss if a front was truncated
  double iteration_us = 0;
  double lower_bound_us = 0;
  std::vector<ComparedPlan> compared_with;
  std::optional<SampledPlan> sampled;
  std::vector<PlanGroup> groups;  ///< in communication order
};

/// Reads and checks `fusewise.plan`; throws InputError.
PlanFile read_plan_file(const core::Field& field);

std::string plan_text(const PlanFile& plan);

/// Element types in words, such as "reduce float32, gather bfloat16"; "those of the profile" if none is
/// given.
std::string data_types_words(const DataTypes& types);
/// "blocks", "runs of 4 layers" or "none".
std::string recompute_words(const std::optional<Recompute>& recompute);

}  // namespace planner
