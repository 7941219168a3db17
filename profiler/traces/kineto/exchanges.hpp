// Tells collectives of gradients and parameters from exchanges of what layers compute, by where the host
// launched them and by their process groups.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "profiler/traces/kineto/process_groups.hpp"
#include "profiler/traces/kineto/trace.hpp"

namespace kineto {

enum class LaunchedFrom : std::uint8_t {
  forward,       ///< a forward pass
  node,          ///< a node of autograd: the backward function of an operator, or a hook before or after it
  accumulation,  ///< the node that accumulates a gradient, or a hook after it
  elsewhere
};

/// A kernel that communicates.
struct LaunchedCollective {
  std::size_t kernel = 0;  ///< index into the trace's
  LaunchedFrom from = LaunchedFrom::elsewhere;
  std::int32_t node = -1;  ///< identifies the node
};

struct CollectiveUses {
  std::vector<ProcessGroup> groups;
  std::vector<std::uint32_t> group_of;  ///< of each collective: index into the groups
  std::vector<bool> is_exchange;        ///< of each collective: what it carries belongs to a layer
  /// The group that sums gradients: most bytes from accumulations, or else most bytes of gradients. Without
  /// gradients the one that carries most; none without collectives that networks describe.
  std::optional<std::uint32_t> gradient_group;
};

CollectiveUses find_uses(const Trace& trace, const std::vector<LaunchedCollective>& collectives);

}  // namespace kineto
