// The table of gradient compressors: each encodes floats as bytes for the network and decodes them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/compression/selectors.hpp"
#include "collectives/compression/wire.hpp"

namespace compression {

/// The state that one worker keeps for one tensor (or group of tensors) between calls.
struct State {
  /// k / n: the fraction of elements that sparse compressors keep; from 0 to 1. A kept element takes 8 bytes,
  /// so the `ratio` of bytes in a scenario is twice this. Ignored by the others.
  double density = 0.01;
  /// Seed of random numbers: random-k selects the same indexes on all workers with the same seed and number
  /// of previous calls.
  std::uint64_t seed = 1;
  std::uint64_t calls = 0;
  ReusedThreshold reused = {};  ///< used by `threshold`
};

/// The number of bytes of an encoding; `min` equals `max` if it does not depend on the values.
struct WireSize {
  std::int64_t min = 0;
  std::int64_t max = 0;
  bool operator==(const WireSize&) const = default;
};

/// All functions throw std::invalid_argument for a density outside 0 to 1, for more than 2^32 elements, and
/// for bytes that do not encode that many elements (nothing is changed then).
struct Compressor {
  std::string_view name;
  std::string_view summary;
  Bytes (*encode)(std::span<const float> x, State& state) = nullptr;
  /// Adds the decoded values to `out`, so that the contributions of all workers sum up there.
  void (*add_decoded)(std::span<const std::byte> bytes, std::span<float> out) = nullptr;
  /// Subtracts the decoded values from the encoded ones, which leaves the error. The error is 0 where the
  /// decoded value is not finite: a broken gradient is sent once and does not break the following ones.
  void (*subtract_decoded)(std::span<const std::byte> bytes, std::span<float> from) = nullptr;
  WireSize (*wire_bytes)(std::size_t elements, double density) = nullptr;
  /// Sums encodings element by element, as an all-reduce does: into += other, rounded to the encoding.
  /// nullptr: encodings cannot be summed and must be gathered.
  void (*sum)(std::span<std::byte> into, std::span<const std::byte> other) = nullptr;

  bool sums() const { return sum != nullptr; }
};

std::span<const Compressor> compressors();

/// Returns nullptr if there is no such name.
const Compressor* find_compressor(std::string_view name);

/// Returns k: density x elements rounded to the nearest integer, but at least 1 if both are positive.
std::size_t kept_elements(std::size_t elements, double density);

}  // namespace compression
