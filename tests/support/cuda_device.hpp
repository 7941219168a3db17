// Detects whether this machine has a GPU that can run the program's own kernels.

#pragma once

#include <string>

#include "collectives/compression/cuda/device.hpp"

namespace support {

/// Returns "no CUDA device: ...", or an empty string if there is one. Detected once.
inline std::string no_cuda_device() {
  static const std::string why = [] {
    try {
      const compression::cuda::Device device;
      return std::string();
    } catch (const compression::cuda::NoDevice& error) {
      return std::string(error.what());
    }
  }();
  return why;
}

}  // namespace support
