// A backend on which compressors are measured: it runs them in its own memory and times them by its own
// clock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/compression/compressor.hpp"
#include "core/compressor_costs.hpp"

namespace profiler {

/// Calls of one compressor on gradients of one size.
class CompressorCalls {
 public:
  virtual ~CompressorCalls() = default;
  /// Encodes the next gradient with error feedback: the residual is added first, and what is sent is
  /// subtracted from it. Returns the number of bytes written.
  virtual double encode() = 0;
  /// Adds the last encoding to a sum.
  virtual void decode() = 0;
};

class CompressorDevice {
 public:
  virtual ~CompressorDevice() = default;
  virtual std::string name() const = 0;
  virtual std::unique_ptr<CompressorCalls> calls(const compression::Compressor& compressor,
                                                 const compression::State& state, std::size_t elements) = 0;
  /// The first calls are not counted.
  virtual core::CodeTime timed(int samples, const std::function<void()>& call) = 0;
};

struct CompressorBackend {
  std::string_view name;
  std::string_view sample;  ///< what one sample is, for `origin`
  /// The names of those of compression::compressors() that it implements.
  std::vector<std::string_view> (*compressors)() = nullptr;
  /// Opens the device first, as drawing gradients of up to `max` elements takes long. Throws
  /// "no CUDA device: ..." where there is none.
  std::unique_ptr<CompressorDevice> (*open)(std::size_t max, std::uint64_t seed) = nullptr;
};

}  // namespace profiler
