// What single kernels take on a device: the larger of their arithmetic and their memory traffic, and a
// launch.

#pragma once

#include "core/estimate/device.hpp"
#include "core/profile.hpp"

namespace core {

// Typical shares of data sheet figures, of large kernels of NVIDIA's libraries and of PyTorch; docs/gpu.md
// says what estimates are worth with them, on GPUs and for models that none of them is from.
constexpr double kShareOfPeak = 0.7;            // matrix products in float32 by cuBLAS
constexpr double kShareOfTensorCorePeak = 0.6;  // aligned matrix products on tensor cores
constexpr double kShareOfBandwidth = 0.8;       // kernels that stream; copies reach 0.75 to 0.9
constexpr double kShareOfReducing = 0.55;       // of the bandwidth, by kernels that wait for sums in between
constexpr double kLaunchUs = 5;

/// A matrix product, or a convolution as one: `rows` x `inner` times `inner` x `columns`.
struct Product {
  double rows = 0;
  double columns = 0;
  double inner = 0;
  double count = 1;     ///< products of this shape in one kernel
  double elements = 0;  ///< that are read and written
  bool on_tensor_cores = false;
  bool whole_sums = false;  ///< a sum over `inner` is not divided between multiprocessors
  double speed = 1;         ///< as a multiple of the usual share of the peak
};

class Kernels {
 public:
  Kernels(const Device& device, Dtype dtype, bool tf32) : device_(device), dtype_(dtype), tf32_(tf32) {}

  const Device& device() const { return device_; }
  Dtype dtype() const { return dtype_; }
  bool tensor_cores() const { return has_tensor_cores(device_, dtype_, tf32_); }
  double peak() const { return peak_tflops(device_, dtype_, tf32_); }
  double share_of_peak() const { return tensor_cores() ? kShareOfTensorCorePeak : kShareOfPeak; }
  double element_bytes() const { return static_cast<double>(bytes_per_element(dtype_)); }

  /// Moves so many elements.
  double stream_us(double elements) const {
    return bytes_us(elements * element_bytes(), kShareOfBandwidth) + kLaunchUs;
  }
  double reduce_us(double elements) const { return reduce_bytes_us(elements * element_bytes()); }
  double reduce_bytes_us(double bytes) const { return bytes_us(bytes, kShareOfReducing) + kLaunchUs; }
  double product_us(const Product& product) const;
  /// So many operations and moved elements in so many kernels.
  double roofline_us(double flops, double elements, double launches) const;

 private:
  double bytes_us(double bytes, double share) const {
    return bytes / (device_.memory_gbytes_per_s * 1e3 * share);
  }

  const Device& device_;
  Dtype dtype_;
  bool tf32_;
};

}  // namespace core
