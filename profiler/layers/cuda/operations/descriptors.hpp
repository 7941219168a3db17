// Builds cuDNN's shape descriptors in one line.

#pragma once

#include <limits>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "profiler/layers/cuda/operation.hpp"

namespace profiler::cuda {

using Tensor = Dnn<cudnnTensorDescriptor_t>;

constexpr float kOne = 1;
constexpr float kZero = 0;

inline const float* blend(const Sink& sink) { return sink.add ? &kOne : &kZero; }

/// cuDNN counts in int.
inline int narrow(const Device& device, std::int64_t size) {
  if (size > std::numeric_limits<int>::max())
    throw core::EnvironmentError(
        fmt::format("{}: {} elements in a row are more than cuDNN can count", device.at(), size));
  return static_cast<int>(size);
}

inline Tensor tensor_of(Device& device, cudnnDataType_t type, std::int64_t n, std::int64_t c, std::int64_t h,
                        std::int64_t w) {
  Tensor out = device.make(device.libraries().cudnnCreateTensorDescriptor,
                           device.libraries().cudnnDestroyTensorDescriptor, "cudnnCreateTensorDescriptor");
  FUSEWISE_CALL(device, cudnnSetTensor4dDescriptor, out.get(), CUDNN_TENSOR_NCHW, type, narrow(device, n),
                narrow(device, c), narrow(device, h), narrow(device, w));
  return out;
}

inline Tensor tensor_of(Device& device, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return tensor_of(device, device.dnn_type(), n, c, h, w);
}

/// An image of [channels, height, width] for each sample.
inline Tensor images(const Pass& pass, const core::Shape& shape) {
  return tensor_of(*pass.device, pass.batch, shape[0], shape[1], shape[2]);
}

}  // namespace profiler::cuda
