#include "core/estimate/device.hpp"

#include <algorithm>
#include <array>

namespace core {
namespace {

// Boost clocks. A K80 board has two GPUs; this is one of them. Shared memory has 32 banks of 4 bytes a clock,
// a K80's of 8 (CUDA's programming guide); a multiprocessor has 192 (K80), 128 (H100, H200) or 64 lanes for
// float32.
constexpr std::array<Device, 8> kDevices = {{
    {"k80", "NVIDIA Tesla K80 (one of its two GPUs)", 4.37, 4.37, 4.37, 4.37, 240, 13, 256.0 / 192, 12},
    {"p100", "NVIDIA Tesla P100 PCIe 16 GB", 9.3, 18.7, 9.3, 9.3, 732, 56, 2, 16},
    {"v100", "NVIDIA Tesla V100 SXM2", 15.7, 125, 15.7, 15.7, 900, 80, 2, 32},
    {"t4", "NVIDIA T4", 8.1, 65, 8.1, 8.1, 320, 40, 2, 16},
    {"rtx2080ti", "NVIDIA GeForce RTX 2080 Ti", 13.4, 53.8, 13.4, 13.4, 616, 68, 2, 11},
    {"a100", "NVIDIA A100 SXM4 80 GB", 19.5, 312, 312, 156, 2039, 108, 2, 80},
    {"h100", "NVIDIA H100 SXM5", 66.9, 989.4, 989.4, 494.7, 3350, 132, 1, 80},
    {"h200", "NVIDIA H200 SXM", 66.9, 989.4, 989.4, 494.7, 4800, 132, 1, 141},
}};

}  // namespace

std::span<const Device> devices() { return kDevices; }

std::optional<Device> device(std::string_view name) {
  const auto* const found = std::ranges::find(kDevices, name, &Device::name);
  return found == kDevices.end() ? std::nullopt : std::optional(*found);
}

double peak_tflops(const Device& device, Dtype dtype, bool tf32) {
  switch (dtype) {
    case Dtype::float16: return device.float16_tflops;
    case Dtype::bfloat16: return device.bfloat16_tflops;
    case Dtype::float32: break;
  }
  return tf32 ? device.tf32_tflops : device.float32_tflops;
}

bool has_tensor_cores(const Device& device, Dtype dtype, bool tf32) {
  // Lanes for float32 do at most two operations of half the size instead of one.
  return peak_tflops(device, dtype, tf32) > 2.1 * device.float32_tflops;
}

}  // namespace core
