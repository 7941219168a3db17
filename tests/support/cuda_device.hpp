// Whether this machine has a GPU that the program's own kernels run on.

#pragma once

#include <string>

#include "collectives/compression/cuda/device.hpp"

namespace support {

/// "no CUDA device: ..."; empty where there is one. It is found out once.
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
