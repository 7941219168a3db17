// What encoding and decoding take on a GPU, as a fusewise.compressors file has it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/compression/cuda/device.hpp"
#include "core/compressor_costs.hpp"

namespace bench {

struct CostOptions {
  std::vector<std::int64_t> elements = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18,
                                        1 << 20, 1 << 22, 1 << 24, 1 << 27};  ///< growing
  std::vector<double> densities = {0.001, 0.01, 0.1};                         ///< growing
  int repetitions = 15;
};

/// Every compressor of compression::compressors(): encoding with error feedback (the gradient added to the
/// residual, what is sent taken off), decoding as one contribution is added to a sum, both in device memory
/// and with the host's part of it. `command` is written down.
core::CompressorCosts costs_on(compression::cuda::Device& device, const CostOptions& options,
                               const std::string& command);

}  // namespace bench
