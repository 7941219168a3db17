// What a scenario says besides profile, network, workers and schedules.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/cluster/topology.hpp"

namespace planner {

/// While a worker's channel is busy its compute runs 1 + compute_slowdown times slower, and the other way
/// round.
struct Overlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;

  bool slows() const { return compute_slowdown > 0 || communication_slowdown > 0; }
  bool operator==(const Overlap&) const = default;
};

/// Multiplies each compute task by its own draw of mean 1.
struct Jitter {
  enum class Distribution {
    lognormal,  ///< sigma: standard deviation of the logarithm
    normal,     ///< sigma: standard deviation; no task takes less than no time
    measured,   ///< lognormal, each layer with the spread that its profile measured, or sigma where that is
                ///< more
  };

  Distribution distribution = Distribution::lognormal;
  double sigma = 0;
  std::uint64_t seed = 1;

  bool any() const { return sigma > 0 || distribution == Distribution::measured; }
  bool operator==(const Jitter&) const = default;
};

struct Straggler {
  std::int64_t worker = 0;
  double slowdown = 1;
};

/// A worker computes nothing and joins no collective from `at_us` on; what it had begun it goes on with when
/// it is back.
struct Failure {
  std::int64_t worker = 0;
  double at_us = 0;
  std::optional<double> down_us = {};  ///< none: it never comes back
};

/// How a collective is simulated.
enum class Fidelity {
  closed,   ///< the formula: starts when all have issued it, ends everywhere at once
  steps,    ///< round by round, rank by rank, on links of their own
  messages  ///< message by message, on links that may be shared
};

/// What distinguishes links beyond what the network says; of steps and messages.
struct LinkConditions {
  double sigma = 0;  ///< of the lognormal draw of mean 1 that each message takes longer
  std::uint64_t seed = 1;
  std::vector<Straggler> slow;  ///< workers whose messages take so many times as long
};

/// What is expected of a schedule where Conditions::needs_channel_in_order().
constexpr std::string_view kPipelineInOrder =
    "a pipeline whose channel runs in order, with failures, other jitter than lognormal or other fidelity "
    "than closed";

struct Conditions {
  std::int64_t iterations = 3;
  std::int64_t accumulation_steps = 1;
  double read_us = 0;
  bool read_is_overlapped = true;
  double optimizer_us = 0;
  double lars_us = 0;
  double lamb_us = 0;  ///< the same for another optimizer: rates by layer, which workers may share out
  bool parallel_tensor_operator = false;
  std::vector<Straggler> stragglers = {};
  Overlap overlap = {};
  Jitter jitter = {};
  std::vector<Failure> failures = {};

  Fidelity fidelity = Fidelity::closed;
  LinkConditions links;
  std::optional<cluster::TopologySpec> topology = {};  ///< of messages; none: no link is shared
  /// Of messages: collectives take turns on so many channels of a worker, each in order.
  std::uint32_t channels = 1;

  /// Whether the slowest worker no longer stands for all.
  bool workers_differ() const { return jitter.any() || !failures.empty() || fidelity != Fidelity::closed; }

  /// Whether only pipelines whose channel runs in order can be simulated. Where it goes by layer each worker
  /// may run collectives in another order, so that all are one simulation, which knows lognormal draws alone.
  bool needs_channel_in_order() const {
    return !failures.empty() || fidelity != Fidelity::closed ||
           jitter.distribution != Jitter::Distribution::lognormal;
  }
};

}  // namespace planner
