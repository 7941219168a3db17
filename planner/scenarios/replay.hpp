// Simulates the iteration that a trace measured, to compare both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/gathers.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "core/sharded_groups.hpp"
#include "planner/scenarios/scenario.hpp"

namespace scenarios {

/// An iteration as a trace measured it.
struct MeasuredIteration {
  double iteration_us = 0;
  double exposed_us = 0;                   ///< of it, communication that no kernel hid, with waiting
  std::vector<std::int64_t> buckets = {};  ///< elements of what sums gradients, in their order
  /// FSDP's collectives stop the worker that issues them, as over Gloo, instead of running beside compute.
  bool collectives_block = false;
  core::Gathers gathers = core::Gathers::never;
  core::ShardedGroups sharded = {};  ///< of FSDP; without groups each layer is one
  /// Waiting for slower workers, where the traces of several say it. It becomes waiting_us of the profile.
  std::optional<double> waiting_us = std::nullopt;
};

struct Replay {
  std::string_view schedule;
  bool all_reduces = false;     ///< zero: whole gradients are summed
  bool gathers_beside = false;  ///< zero: parameters, under the next forward pass
  std::int64_t workers = 1;
  std::size_t buckets = 0;  ///< or groups of the trace, if they were used instead of the schedule's rule
  std::string plan = {};    ///< of these buckets, a fusewise.plan; empty without them
  std::size_t divided = 0;  ///< groups that the plan holds in parts, as their gradients are no neighbours
  /// The simulated iteration of the profile as it is then; the next four are parts of it that add up to it.
  double iteration_us = 0;
  double computing_us = 0;  ///< kernels of layers and of the update
  double rest_us = 0;       ///< other work, copies, and waits for the host
  double exposed_us = 0;    ///< communication that nothing hides
  double waiting_us = 0;    ///< for slower workers
  /// The part of the measured iteration that is not predicted, taken for waiting for slower workers; it is
  /// part of waiting_us.
  double added_waiting_us = 0;
  double predicted_us = 0;  ///< simulated without it
};

/// Returns a scenario that repeats the iteration of a trace, with the schedule that its collectives suggest
/// (fsdp, zero or ddp) and on as many workers as took part. The buckets are used with zero and DDP instead of
/// their rules if they add up to the gradients within 1 %, and the groups with FSDP if they are known. The
/// gradients of a group become neighbours in the scenario's profile.
Scenario repeated(const core::Profile& profile, const core::Network& network,
                  const MeasuredIteration& measured);

/// Simulates the iteration of repeated(), or one on one worker without collectives. The profile must have an
/// `iteration`, whose waiting_us is set.
///
/// A worker's collectives also last while slower workers are waited for, and its own trace does not tell
/// which part. So what was measured as exposed communication and is not predicted is taken for such waiting,
/// and is added to the profile's waiting_us. Several ranks tell for how long a slower worker was waited for,
/// but not for how long the transfers behind that are exposed, which would be hidden without it; this is
/// added, too, unless nobody waited.
Replay replay(core::Profile& profile, const std::optional<core::Network>& network,
              const MeasuredIteration& measured);

}  // namespace scenarios
