// Measures encoding and decoding on a GPU, for a fusewise.compressors file.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/compression/cuda/device.hpp"
#include "core/compressor_costs.hpp"

namespace bench {

struct CostOptions {
  std::vector<std::int64_t> elements = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18,
                                        1 << 20, 1 << 22, 1 << 24, 1 << 27};  ///< increasing
  std::vector<double> densities = {0.001, 0.01, 0.1};                         ///< increasing
  int repetitions = 15;
};

/// Measures every compressor of compression::compressors(): encoding with error feedback (adds the gradient
/// to the residual and subtracts what is sent), and decoding one contribution into a sum, both in device
/// memory and including the host's part. `command` is stored in the result.
core::CompressorCosts costs_on(compression::cuda::Device& device, const CostOptions& options,
                               const std::string& command);

}  // namespace bench
