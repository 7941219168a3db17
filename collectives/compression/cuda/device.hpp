// Compression on a GPU for callers that know no CUDA: the selections and encodings of compression/, with the
// same results. Means of |x| are summed in an order of their own (the same on any device), so they may differ
// from the CPU's in their last bits: a scale by a rounding, and MSTopK where a threshold of its bisection
// lies between.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/cuda/engine.hpp"
#include "collectives/compression/selectors.hpp"

namespace compression::cuda {

/// One GPU. Its calls return when the work is done; one thread at a time may use it.
class Device {
 public:
  /// Throws NoDevice: there is none, or this program was built without CUDA.
  explicit Device(int ordinal = 0) : engine_(open_engine(ordinal)) {}
  explicit Device(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  Engine& engine() { return *engine_; }
  DeviceInfo info() const { return engine_->info(); }

 private:
  std::unique_ptr<Engine> engine_;
};

/// Device memory, for as long as its device lives.
class Buffer {
 public:
  Buffer(Device& device, std::size_t bytes)
      : engine_(&device.engine()), memory_(engine_->allocate(bytes)), bytes_(bytes) {}
  Buffer(Device& device, std::span<const std::byte> content) : Buffer(device, content.size()) {
    engine_->upload(memory_, content.data(), content.size());
  }
  Buffer(Device& device, std::span<const float> content) : Buffer(device, std::as_bytes(content)) {}
  Buffer(Buffer&& other) noexcept
      : engine_(other.engine_), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { engine_->release(memory_); }

  float* floats() const { return static_cast<float*>(memory_); }
  const std::byte* bytes() const { return static_cast<const std::byte*>(memory_); }
  std::size_t size() const { return bytes_; }
  void download(std::span<float> to) const { engine_->download(to.data(), memory_, to.size_bytes()); }

 private:
  Engine* engine_;
  void* memory_;
  std::size_t bytes_;
};

// As the functions of the same names in select.hpp and selectors.hpp, which say what is kept and thrown; at
// most 2^31 - 1 elements. What is returned lies in device memory and is overwritten by the next call.
DeviceKept top_k(Device& device, DeviceFloats x, std::size_t k);
DeviceKept at_least(Device& device, DeviceFloats x, float threshold);
DeviceKept mstopk(Device& device, DeviceFloats x, std::size_t k, std::uint64_t seed,
                  int samplings = kSamplings);
DeviceKept dgc(Device& device, DeviceFloats x, std::size_t k, std::uint64_t seed);
DeviceKept random_k(Device& device, DeviceFloats x, std::size_t k, std::uint64_t seed);
/// A pass for the moments, and one for each threshold that is tried; the last keeps.
DeviceKept gaussian_k(Device& device, DeviceFloats x, std::size_t k);
/// One pass where the threshold is reused, three or so where it is computed.
DeviceKept reuse_threshold(Device& device, DeviceFloats x, std::size_t k, ReusedThreshold& state);

/// The names of the compressors that run on a device, in the order of compression::compressors().
std::vector<std::string_view> compressor_names();
/// Whether the compressor of this name keeps some elements, as those of select() do.
bool is_sparse(std::string_view name);

/// Selects as the sparse compressor of this name does, and changes `state` as it does. Throws
/// std::invalid_argument for another name.
DeviceKept select(Device& device, std::string_view name, DeviceFloats x, State& state);

/// The encodings' bytes in device memory, overwritten by the next call.
DeviceBytes efsignsgd(Device& device, DeviceFloats x);
DeviceBytes onebit(Device& device, DeviceFloats x);
DeviceBytes halves(Device& device, DeviceFloats x, Half kind);
/// The encoding by the compressor of this name, which is not sparse. Throws std::invalid_argument for another
/// name.
DeviceBytes encode_dense(Device& device, std::string_view name, DeviceFloats x);

SparseVector download(Device& device, const DeviceKept& kept);
Bytes download(Device& device, const DeviceBytes& bytes);

/// What Compressor::add_decoded and subtract_decoded of the compressor of this name do, with bytes and
/// elements in device memory; its own are those of the formats: sparse ones, efsignsgd, onebit, fp16 and
/// bf16. Throws std::invalid_argument where the bytes are no encoding (nothing has been changed then) or the
/// name is another.
void add_decoded(Device& device, std::string_view name, DeviceBytes bytes, float* out, std::size_t elements);
void subtract_decoded(Device& device, std::string_view name, DeviceBytes bytes, float* from,
                      std::size_t elements);

/// out += x: what error feedback does before it encodes.
inline void add(Device& device, DeviceFloats x, float* out) { device.engine().add(x, out); }

/// What Compressor::encode of the compressor of this name gives, and changes in `state`;
/// std::invalid_argument where there is none.
Bytes encode(Device& device, std::string_view name, std::span<const float> x, State& state);

}  // namespace compression::cuda
