// The memory of one worker over time: what a simulated run holds, derived from its tasks and their times.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "sim/timeline.hpp"

namespace planner {

enum class MemoryPart {
  parameters,   ///< between iterations: whole, or the worker's share
  master,       ///< the copy that the optimizer updates, if there is one
  optimizer,    ///< its states
  gradients,    ///< whole ones, and shares
  gathered,     ///< parameters gathered for a pass
  buffers,      ///< what collectives of gradients send, where it is a copy
  activations,  ///< outputs of layers
};

constexpr std::array<std::string_view, 7> kMemoryParts = {"parameters", "master",  "optimizer",  "gradients",
                                                          "gathered",   "buffers", "activations"};

using MemoryBytes = std::array<std::int64_t, kMemoryParts.size()>;

inline std::int64_t total(const MemoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

struct MemoryPoint {
  sim::Time at{};
  MemoryBytes bytes{};  ///< from then on
};

struct MemoryPeak : MemoryPoint {
  bool has_activations = false;  ///< whether the profile says what they take; otherwise they are left out
};

struct Memory {
  std::vector<MemoryPoint> points;  ///< the changes; the first is at time 0
  MemoryPeak peak;                  ///< the first point with the greatest total
};

/// Throws Unsupported if a sum of what is held may exceed 64 bits: parameters and gradients have few elements
/// (core/limits.hpp), activations may have many, of as many micro-batches at once.
void check_activations(const core::Profile& profile, std::int64_t micro_batches = 1);

/// The memory of the first worker of the executable, whose tasks ran as `timeline` says. The setting must
/// have MemoryOptions.
Memory memory_of(const Setting& setting, const Executable& executable, const sim::Timeline& timeline);

}  // namespace planner
