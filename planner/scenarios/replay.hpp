// Simulates the iteration that a trace measured, to compare both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// An iteration as a trace measured it.
struct MeasuredIteration {
  double iteration_us = 0;
  double exposed_us = 0;                   ///< of it, communication that no kernel hid, with waiting
  std::vector<std::int64_t> buckets = {};  ///< elements of its all-reduces, in their order
  /// FSDP's collectives stop the worker that issues them, as over Gloo, instead of running beside compute.
  bool collectives_block = false;
  /// Waiting for slower workers, where the traces of several say it. It becomes waiting_us of the profile.
  std::optional<double> waiting_us = std::nullopt;
};

struct Replay {
  std::string_view schedule;
  std::int64_t workers = 1;
  std::size_t buckets = 0;  ///< of the trace, if they were used instead of DDP's rule
  std::string plan = {};    ///< of these buckets, a fusewise.plan; empty without them
  double predicted_us = 0;  ///< the simulated iteration; the next four are parts of it that add up to it
  double computing_us = 0;  ///< kernels of layers and of the update
  double rest_us = 0;       ///< other work, copies, and waits for the host
  double exposed_us = 0;    ///< communication that nothing hides
  double waiting_us = 0;    ///< for slower workers, as measured
  /// The part of the measured iteration that is not predicted, taken for waiting for slower workers.
  double added_waiting_us = 0;
  double iteration_us = 0;  ///< simulated with it
};

/// Returns a scenario that repeats the iteration of a trace, with the schedule that the collectives of its
/// network suggest (fsdp or ddp) and on as many workers as took part. The buckets, the elements of its
/// all-reduces in their order, are used with DDP instead of its rule if they add up to the gradients within 1
/// %. FSDP's collectives stop the worker that issues them if `collectives_block`.
Scenario repeated(const core::Profile& profile, const core::Network& network,
                  const std::vector<std::int64_t>& buckets, bool collectives_block);

/// Simulates an iteration as the collectives of the trace's network suggest (fsdp or ddp, on as many workers
/// as took part), or on one worker without them. The buckets are used with DDP instead of its rule if they
/// add up to the gradients within 1 %. The profile must have an `iteration`, whose waiting_us is set.
///
/// A worker's collectives also last while slower workers are waited for, and its own trace does not tell
/// which part. So what was measured as exposed communication and is not predicted is taken for such waiting,
/// and is added to the profile's waiting_us. Several ranks tell for how long a slower worker was waited for,
/// but not for how long the transfers behind that are exposed, which would be hidden without it; this is
/// added, too, unless nobody waited.
Replay replay(core::Profile& profile, const std::optional<core::Network>& network,
              const MeasuredIteration& measured);

}  // namespace scenarios
