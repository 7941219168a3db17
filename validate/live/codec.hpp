// Measures encoding, transfer and decoding on the workers of a later run, all at once, as in a run.

#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "collectives/low_rank/power_sgd.hpp"
#include "collectives/transport/transport.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "planner/cost/compressor.hpp"
#include "validate/live/run.hpp"

namespace live {

/// A group that is encoded at once: its bytes, and for PowerSGD its matrices, which are alike.
struct CodeLoad {
  std::int64_t bytes = 0;
  std::vector<low_rank::Matrix> tensors = {};
};

/// The loads with which a compressor's costs are measured: groups of these sizes. For PowerSGD, whose costs
/// are those of matrices, the matrices of the profile that are approximated: one of each number of bytes, at
/// most as many as there are sizes, each as often as a group of some megabytes needs.
std::vector<CodeLoad> code_loads(const planner::Compressor& compressor,
                                 const std::vector<std::int64_t>& sizes, const core::Profile& profile);

/// The times of a group of one size. Each step lasts from when the last worker ended the previous step until
/// the last worker has ended this one. (Without a shared clock: the time of the slowest worker.) If
/// everything happens in transit, the time is per group in a sequence of groups.
struct CodeTimes {
  double encode_us = 0;
  double carry_us = 0;
  double decode_us = 0;
  double ratio = 1;  ///< of the first worker's encoding
};

/// Times by load. Valid on rank 0 only.
struct TimedCompressor {
  planner::Compressor compressor;
  std::vector<CodeTimes> times;
};

struct TimingOptions {
  std::uint32_t rounds = 20;  ///< recorded rounds, each over all loads
  std::uint64_t seed = 1;
  std::chrono::milliseconds deadline{60'000};
};

/// Encodes and decodes in this thread and transfers in another one, as workers do. All ranks call it. Throws
/// EnvironmentError if a result is wrong.
TimedCompressor time_compressor(transport::Transport& transport, const RequestedCompressor& requested,
                                const std::vector<CodeLoad>& loads, std::uint32_t workers_per_node,
                                const TimingOptions& options);

/// The compressor with the measured costs. For sparse all-reduces, PowerSGD, and compression between nodes
/// only, the time beyond the messages is `in_transit`: selection, summation and what lies between two
/// all-reduces run in the communication thread. Without loads the compressor is unchanged.
planner::Compressor measured_compressor(const TimedCompressor& timed, const std::vector<CodeLoad>& loads,
                                        const core::Network& network, std::uint32_t workers);

}  // namespace live
