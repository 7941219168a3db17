// Compressors of gradients, by name: from floats to the bytes that travel, and back.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "collectives/compression/selectors.hpp"
#include "collectives/compression/wire.hpp"

namespace compression {

/// What one worker keeps for one tensor (or group of them) from call to call.
struct State {
  /// k / n: the part of the elements that sparse compressors keep; from 0 to 1. A kept element takes 8 bytes,
  /// so the `ratio` of bytes in a scenario is twice this. Of no matter to the others.
  double density = 0.01;
  /// Of the draws: random-k draws the same indexes on all workers that have the same seed and as many calls
  /// behind them.
  std::uint64_t seed = 1;
  std::uint64_t calls = 0;
  ReusedThreshold reused = {};  ///< of `threshold`
};

/// How many bytes an encoding has; the same where it does not depend on the values.
struct WireSize {
  std::int64_t min = 0;
  std::int64_t max = 0;
  bool operator==(const WireSize&) const = default;
};

/// All throw std::invalid_argument: for a density that is not from 0 to 1, more than 2^32 elements, and for
/// bytes that are no encoding of as many elements (nothing has been changed then).
struct Compressor {
  std::string_view name;
  std::string_view summary;
  Bytes (*encode)(std::span<const float> x, State& state) = nullptr;
  /// Adds what the bytes stand for, so that the contributions of all workers sum up in `out`.
  void (*add_decoded)(std::span<const std::byte> bytes, std::span<float> out) = nullptr;
  /// Takes it off what was encoded, which leaves the error. Where the decoded value is not finite nothing is
  /// left (0): a broken gradient travels once and does not break all that follow.
  void (*subtract_decoded)(std::span<const std::byte> bytes, std::span<float> from) = nullptr;
  WireSize (*wire_bytes)(std::size_t elements, double density) = nullptr;
  /// Where encodings can be summed element by element, as an all-reduce does: into += other, rounded to the
  /// encoding. nullptr: they have to be gathered.
  void (*sum)(std::span<std::byte> into, std::span<const std::byte> other) = nullptr;

  bool sums() const { return sum != nullptr; }
};

std::span<const Compressor> compressors();

/// nullptr: none has this name.
const Compressor* find_compressor(std::string_view name);

/// k: density x elements to the nearest, but at least 1 where neither is 0.
std::size_t kept_elements(std::size_t elements, double density);

}  // namespace compression
