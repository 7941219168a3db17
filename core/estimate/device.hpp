// Peak performance of GPUs, from their vendors' data sheets.

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
  double memory_gbytes_per_s = 0;
};

std::span<const Device> devices();
std::optional<Device> device(std::string_view name);

double peak_tflops(const Device& device, Dtype dtype);

}  // namespace core
