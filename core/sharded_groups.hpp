// The groups in which a job gathers its parameters and scatters its gradients, as a trace shows them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace core {

struct ShardedGroup {
  std::vector<std::string> tensors;  ///< names of those of the profile, in the order in which they are ready
  bool is_gathered_again = true;     ///< its parameters, for backward passes
};

struct ShardedGroups {
  std::vector<ShardedGroup> groups =
      {};                      ///< in backward order, the model's own group last; empty if not known
  std::uint32_t prefetch = 1;  ///< how many of them forward passes gather ahead
  std::uint32_t backward_prefetch = 1;
  bool are_of_fsdp2 = false;  ///< which has buffers of its own for gathers and reduce-scatters
  std::string warning = {};   ///< what a prediction with them leaves out, or why they are not known
};

}  // namespace core
