// When a job gathers its parameters, as a trace shows it.

#pragma once

namespace core {

/// When a job gathers parameters of which each worker holds or updates a share.
enum class Gathers {
  never,
  after_update,    ///< before the next forward pass: ZeRO-1/2
  beside_forward,  ///< once in an iteration, and layers wait for their own
  for_forward,     ///< likewise, by modules: FSDP that keeps them until backward
  for_forward_and_backward
};

}  // namespace core
