// What encoding, carrying and decoding take on the workers that will run, all at once, as in a run.

#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "collectives/transport/transport.hpp"
#include "core/network.hpp"
#include "planner/cost/compressor.hpp"
#include "validate/live/run.hpp"

namespace live {

/// Of a group of one size: each from when the last worker had ended the step before until the last has ended
/// this one. (Where clocks differ: what it took the slowest.) Where all is done on the way, of one of several
/// groups that follow each other.
struct CodeTimes {
  double encode_us = 0;
  double carry_us = 0;
  double decode_us = 0;
  double ratio = 1;  ///< of the first worker's encoding
};

/// By size. Of no meaning elsewhere than on rank 0.
struct TimedCompressor {
  planner::Compressor compressor;
  std::vector<CodeTimes> times;
};

struct TimingOptions {
  std::uint32_t rounds = 20;  ///< that are recorded, in several sweeps over all sizes
  std::uint64_t seed = 1;
  std::chrono::milliseconds deadline{60'000};
};

/// Encodes and decodes in this thread and carries in another one, as workers do. All ranks call it.
/// EnvironmentError where what comes out is wrong.
TimedCompressor time_compressor(transport::Transport& transport, const Asked& asked,
                                const std::vector<std::int64_t>& sizes, std::uint32_t workers_per_node,
                                const TimingOptions& options);

/// The compressor with what was measured for costs. What sparse all-reduces, and those that compress between
/// nodes alone, take beyond their messages is `in_transit`: they select and sum in the communication thread.
planner::Compressor measured_compressor(const TimedCompressor& timed, const std::vector<std::int64_t>& sizes,
                                        const core::Network& network, std::uint32_t workers);

}  // namespace live
