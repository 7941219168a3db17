// Times the compressors of compression/ on this machine: what a planner needs to know of their costs.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/compressor_costs.hpp"

namespace profiler {

struct CompressorOptions {
  std::vector<std::string> compressors = {};  ///< all where empty
  /// Sizes of gradients, growing.
  std::vector<std::int64_t> elements = {1 << 10, 1 << 12, 1 << 14, 1 << 16,
                                        1 << 18, 1 << 20, 1 << 22, 1 << 24};
  std::vector<double> densities = {0.001, 0.01, 0.1};  ///< growing; of those that leave elements out
  int samples = 9;                                     ///< of each size
  std::uint64_t seed = 1;                              ///< of the gradients
};

/// Called before each compressor and density.
using CompressorProgress = std::function<void(const std::string& what)>;

/// On one thread, every encoding with error feedback (the residual added, what is sent taken off), on
/// gradients that differ from call to call; every decoding as one contribution is added to a sum. Medians of
/// samples that each take at least some microseconds; the first calls are not counted. Ratios are of bytes
/// really written. `command` is written down. Asks for names of compression::compressors().
core::CompressorCosts measure_compressors(const CompressorOptions& options, const std::string& command,
                                          const CompressorProgress& progress = {});

}  // namespace profiler
