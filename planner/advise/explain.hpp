// Why a plan is as it is: what moving a group's end would cost, where communication is exposed, what bounds
// the iteration, how a plan fares when inputs change, and whether compression pays.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/run/predict.hpp"

namespace planner {

struct GroupReason {
  std::string first_tensor;
  std::string last_tensor;
  std::int64_t bytes = 0;
  double sendable_us = 0;  ///< its gradients are ready, and encoded; since backward began, as the next two
  double start_us = 0;     ///< of its first collective
  double end_us = 0;
  /// What the start waited for: `gradients`, `channel` (the collective before), or `tick`.
  std::string waited_for;
  double exposed_us = 0;                     ///< its collectives while the slowest worker's compute is idle
  std::optional<double> merging_costs_us;    ///< with the next group; the last has none
  std::optional<double> splitting_costs_us;  ///< where that costs least; one tensor cannot be split
  std::string split_after;                   ///< the tensor after which it would be
};

/// What the iteration would be, if; with this plan and with the one that is then the best.
struct WhatIf {
  std::string change;
  double this_plan_us = 0;
  double best_plan_us = 0;
};

struct CompressorOutlook {
  std::string name;
  double iteration_us = 0;  ///< of the best plan with it
  /// How many times slower per byte the network is from where on the compressor pays; absent: it does not, up
  /// to 1,000 times slower. 0: always.
  std::optional<double> pays_from;
};

struct Explanation {
  double iteration_us = 0;
  double lower_bound_us = 0;
  double compute_us = 0;  ///< forward, backward, coding, update, reading: no plan is faster
  std::vector<GroupReason> groups;
  std::string bound_by;       ///< the resource that would gain most by being free
  std::vector<WhatIf> free;   ///< if one resource cost nothing
  std::vector<WhatIf> other;  ///< inputs other than given: how sensitive the plan is
  /// The greatest speed-up that any overlapping of an all-reduce with forward and backward can reach (DeAR,
  /// equation 6, with twice the bytes over the slowest link); absent where no link or line rate is known.
  std::optional<double> s_max;
  double speedup = 0;
  double best_uncompressed_us = 0;
  std::vector<CompressorOutlook> compressors;
  std::optional<double> line_rate_gbps;
};

/// `run` is what run(setting, schedule) gave. Jitter is left out of what is compared.
Explanation explain(const Setting& setting, const Schedule& schedule, const Run& run);

std::string explanation_text(const Explanation& explanation);
std::string explanation_json(const Explanation& explanation);

}  // namespace planner
