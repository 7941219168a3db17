// What the data sheets of GPUs say.

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/profile.hpp"

namespace core {

struct Device {
  std::string_view name;       ///< "v100"
  std::string_view full_name;  ///< "NVIDIA Tesla V100 SXM2"
  double float32_tflops = 0;   ///< without tensor cores
  double float16_tflops = 0;   ///< with tensor cores where there are any, without sparsity
  double bfloat16_tflops = 0;  ///< float32's where the device has no bfloat16
  double tf32_tflops = 0;      ///< float32's where the device has no TF32
  double memory_gbytes_per_s = 0;
  double multiprocessors = 0;
  /// What a multiprocessor's shared memory gives in a clock, for each float32 multiply-add that it could do.
  double shared_bytes = 0;
  double memory_gbytes = 0;  ///< of the version that has most
};

std::span<const Device> devices();
std::optional<Device> device(std::string_view name);

/// `tf32`: products of float32 may be rounded to TF32.
double peak_tflops(const Device& device, Dtype dtype, bool tf32 = false);
/// Whether that peak is one of tensor cores.
bool has_tensor_cores(const Device& device, Dtype dtype, bool tf32 = false);

}  // namespace core
