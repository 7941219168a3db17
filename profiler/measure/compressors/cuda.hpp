// Compressors on an open CUDA device; tests open one whose kernels run on the host.

#pragma once

#include <memory>

#include "collectives/compression/cuda/device.hpp"
#include "profiler/measure/compressors/backend.hpp"

namespace profiler {

std::unique_ptr<CompressorDevice> cuda_compressor_device(compression::cuda::Device device, std::size_t max,
                                                         std::uint64_t seed);

}  // namespace profiler
