// Simulates the iteration that a trace measured, to compare both.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "core/profile.hpp"

namespace scenarios {

struct Replay {
  std::string_view schedule;
  std::int64_t workers = 1;
  double iteration_us = 0;
  double exposed_us = 0;  ///< of it, communication that nothing hides
  double waiting_us = 0;  ///< of it, for slower workers
};

/// Simulates an iteration as the collectives of the trace's network suggest (fsdp or ddp, on as many workers
/// as took part), or on one worker without them. `buckets` are the elements of the all-reduces of an
/// iteration in their order; with DDP they are used instead of its rule if they add up to the gradients
/// within 1 %. A worker's collectives also last while slower workers are waited for, and its own trace does
/// not tell which part. So what was measured as exposed communication and is not simulated is taken for such
/// waiting, and becomes waiting_us of the profile's iteration, which the profile must have.
Replay replay(core::Profile& profile, const std::optional<core::Network>& network, double measured_us,
              double measured_exposed_us, const std::vector<std::int64_t>& buckets = {});

}  // namespace scenarios
