// The fastest plans of a sharded job for each amount of memory: which layers form a group, how far parameters
// are gathered ahead, and which groups keep them after forward.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

struct ShardedPlan {
  Groups groups;
  PipelineOptions options;            ///< with prefetch, backward_prefetch and kept_groups
  std::string_view units = "layers";  ///< what its groups consist of: whole "blocks", "layers" or "tensors"
  double iteration_us = 0;
  std::int64_t peak_bytes = 0;
  /// No plan of such units whose memory is at most that of this one takes less.
  double lower_bound_us = 0;
};

struct MemoryFront {
  std::int64_t workers = 1;
  std::vector<ShardedPlan> plans;  ///< by growing memory; each is faster than all before it
  std::size_t chosen = 0;          ///< the fastest within the scenario's cap, or of all
  std::int64_t looked_at = 0;      ///< plans simulated
  /// Whether these are the best of all groupings of whole layers, of all numbers of kept groups, and of all
  /// distances of gathering ahead. Otherwise better ones may exist, down to the lower bounds.
  bool is_exact = false;
  bool has_activations = false;
};

/// Whether memory_front() takes the schedule: its pipeline must hold shares of parameters, and the setting
/// ask for memory and have workers that are alike.
bool has_memory_front(const Setting& setting, const Schedule& schedule);

/// Throws Unsupported if there is no front, and if no plan keeps to the cap.
MemoryFront memory_front(const Setting& setting, const Schedule& schedule);

/// The schedule with the groups and options of a plan.
Schedule schedule_of(const Schedule& schedule, const ShardedPlan& plan);

std::string memory_front_text(const MemoryFront& front, std::size_t width = 0);
std::string memory_front_json(const MemoryFront& front);

}  // namespace planner
