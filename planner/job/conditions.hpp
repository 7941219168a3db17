// The conditions of a scenario other than profile, network, workers and schedules.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/job/data_types.hpp"
#include "planner/job/memory_options.hpp"
#include "planner/job/recompute.hpp"
#include "sim/cluster/topology.hpp"

namespace planner {

/// While a worker's channel is busy, its compute runs 1 + compute_slowdown times slower, and vice versa.
struct Overlap {
  double compute_slowdown = 0;
  double communication_slowdown = 0;

  bool slows() const { return compute_slowdown > 0 || communication_slowdown > 0; }
  bool operator==(const Overlap&) const = default;
};

/// Multiplies each compute task by its own random factor of mean 1.
struct Jitter {
  enum class Distribution {
    lognormal,  ///< sigma: standard deviation of the logarithm
    normal,     ///< sigma: standard deviation; negative times become zero
    measured,   ///< lognormal; each layer uses the measured spread of its profile, or sigma if that is
                ///< greater
  };

  Distribution distribution = Distribution::lognormal;
  double sigma = 0;
  std::uint64_t seed = 1;

  bool any() const { return sigma > 0 || distribution == Distribution::measured; }
  bool operator==(const Jitter&) const = default;
};

/// The spread where nothing is known of a cluster's GPUs. Sinha et al. (SC 2022, arXiv 2208.11035) found that
/// times on GPUs of one kind varied by 8 % in the mean; that is taken as the whole range of a box plot, which
/// is four interquartile ranges of a normal distribution.
constexpr double kUsualWorkerSpread = 0.0148;

struct Straggler {
  std::int64_t worker = 0;
  double slowdown = 1;
};

/// From `at_us` on, a worker computes nothing and joins no collective; it resumes interrupted tasks when it
/// is back.
struct Failure {
  std::int64_t worker = 0;
  double at_us = 0;
  std::optional<double> down_us = {};  ///< absent if it never recovers
};

/// The level of detail at which collectives are simulated.
enum class Fidelity {
  closed,   ///< by formula: starts when all workers have issued it, ends everywhere at once
  steps,    ///< round by round, rank by rank, on dedicated links
  messages  ///< message by message, on links that may be shared
};

/// Differences between links beyond the network's description; for fidelities `steps` and `messages`.
struct LinkConditions {
  double sigma = 0;  ///< of the lognormal factor of mean 1 on each message
  std::uint64_t seed = 1;
  std::vector<Straggler> slow;  ///< workers whose messages take longer by their factor
};

/// The `expected` part of the error for schedules that violate Conditions::needs_channel_in_order().
constexpr std::string_view kPipelineInOrder =
    "a pipeline whose channel runs in order, with failures, other jitter than lognormal or other fidelity "
    "than closed";

struct Conditions {
  std::int64_t iterations = 3;
  std::int64_t accumulation_steps = 1;
  double read_us = 0;
  bool read_is_overlapped = true;
  double waiting_us = 0;  ///< in each iteration, for slower workers that are not simulated
  double optimizer_us = 0;
  double lars_us = 0;
  double lamb_us = 0;  ///< like update_us, for another optimizer: rates by layer, which workers may share out
  bool parallel_tensor_operator = false;
  std::vector<Straggler> stragglers = {};
  /// Standard deviation of the compute times of workers, as a share of their mean, where no stragglers are
  /// listed: worker 0 is then as slow as the slowest of all workers is expected to be. Absent if nobody said.
  std::optional<double> worker_spread = {};
  Overlap overlap = {};
  Jitter jitter = {};
  std::vector<Failure> failures = {};
  DataTypes data_types = {};
  std::optional<MemoryOptions> memory = {};  ///< set if the memory of a worker is asked for
  /// The profile of a Setting is then one that recomputed() returned.
  std::optional<Recompute> recompute = {};

  Fidelity fidelity = Fidelity::closed;
  LinkConditions links;
  std::optional<cluster::TopologySpec> topology = {};  ///< for fidelity `messages`; absent if no link is
                                                       ///< shared
  /// For fidelity `messages`: the number of channels per worker, used round-robin, each in order.
  std::uint32_t channels = 1;

  bool has_stragglers() const { return !stragglers.empty() || worker_spread.value_or(0) > 0; }

  /// Whether the slowest worker cannot represent all workers.
  bool workers_differ() const { return jitter.any() || !failures.empty() || fidelity != Fidelity::closed; }

  /// Whether only pipelines with an ordered channel can be simulated. If a channel goes by layer, workers may
  /// run collectives in different orders, so all workers are one simulation, which supports only lognormal
  /// factors.
  bool needs_channel_in_order() const {
    return !failures.empty() || fidelity != Fidelity::closed ||
           jitter.distribution != Jitter::Distribution::lognormal;
  }
};

}  // namespace planner
