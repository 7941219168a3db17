// The memory of one worker over time: what a simulated run holds, derived from its tasks and their times.

#pragma once

#include <cstdint>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "planner/run/held_memory.hpp"
#include "sim/timeline.hpp"

namespace planner {

/// Throws Unsupported if a sum of what is held may exceed 64 bits: parameters and gradients have few elements
/// (core/limits.hpp), activations may have many, of as many micro-batches at once.
void check_activations(const core::Profile& profile, std::int64_t micro_batches = 1);

/// The memory of the first worker of the executable, whose tasks ran as `timeline` says. The setting must
/// have MemoryOptions.
Memory memory_of(const Setting& setting, const Executable& executable, const sim::Timeline& timeline);

}  // namespace planner
