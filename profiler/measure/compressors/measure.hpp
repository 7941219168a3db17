// Times the compressors of collectives/compression/ on the CPU or a GPU of this machine; a planner needs
// their costs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/compressor_costs.hpp"
#include "profiler/measure/compressors/backend.hpp"

namespace profiler {

struct CompressorOptions {
  std::vector<std::string> compressors = {};  ///< empty: all that the backend implements
  /// The sizes of gradients, growing.
  std::vector<std::int64_t> elements = {1 << 10, 1 << 12, 1 << 14, 1 << 16,
                                        1 << 18, 1 << 20, 1 << 22, 1 << 24};
  std::vector<double> densities = {0.001, 0.01, 0.1};  ///< growing; for those that leave elements out
  int samples = 9;                                     ///< for each size
  std::uint64_t seed = 1;                              ///< for the gradients
};

/// Called before each compressor and density; `total` is how many there are.
using CompressorProgress = std::function<void(std::size_t total, const std::string& what)>;

/// The table of backends; the first is the default.
std::span<const CompressorBackend> compressor_backends();

/// Measures every encoding with error feedback, on gradients that differ from call to call, and every
/// decoding as one contribution is added to a sum. Times are medians of samples, ratios are those of the
/// bytes written. The result contains `command`. Asks for compressors that the backend implements; throws
/// where its device is missing.
core::CompressorCosts measure_compressors(const CompressorBackend& backend, const CompressorOptions& options,
                                          const std::string& command,
                                          const CompressorProgress& progress = {});

// To add a backend: write <name>.cpp and list it in measure.cpp.
CompressorBackend cpu_compressors();
CompressorBackend cuda_compressors();

}  // namespace profiler
