// The keys of a scenario about the memory of a worker, except its element types.

#pragma once

#include <cstdint>
#include <optional>

namespace planner {

struct MemoryOptions {
  std::int64_t optimizer_states = 0;  ///< for each parameter
  /// Whether gradients lie in the buffers that are reduced, which then last; otherwise they are copied.
  bool gradients_in_buffers = false;
  /// The limit that a plan for a sharded job keeps to.
  std::optional<std::int64_t> cap_bytes = {};
  bool operator==(const MemoryOptions&) const = default;
};

}  // namespace planner
