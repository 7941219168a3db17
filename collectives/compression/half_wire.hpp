// Builds a compressor with two bytes per element from the two conversions.

#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/compressor.hpp"

namespace compression {

/// Traits: kName, kSummary, to(float) -> uint16, from(uint16) -> float.
template <typename Traits>
struct HalfWire {
  static constexpr std::size_t kWord = 2;

  static float at(std::span<const std::byte> bytes, std::size_t i) {
    return Traits::from(get<std::uint16_t>(bytes.data() + i * kWord));
  }

  static void check(std::size_t bytes, std::size_t elements) {
    if (bytes != elements * kWord) refuse(Traits::kName, "2 bytes for each element", bytes);
  }

  /// A separate function: elsewhere the compiler does not see that the bytes do not alias the loop's bounds.
  static void round(std::span<const float> x, std::byte* to) {
    for (std::size_t i = 0; i < x.size(); ++i) put(to + i * kWord, Traits::to(x[i]));
  }

  static Bytes encode(std::span<const float> x, State& /*state*/) {
    Bytes bytes(x.size() * kWord);
    round(x, bytes.data());
    return bytes;
  }

  static void add_decoded(std::span<const std::byte> bytes, std::span<float> out) {
    check(bytes.size(), out.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += at(bytes, i);
  }

  static void subtract_decoded(std::span<const std::byte> bytes, std::span<float> from) {
    check(bytes.size(), from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const float value = at(bytes, i);
      from[i] = only_if(is_finite(value), from[i] - value);
    }
  }

  /// Summing in float32 and rounding again is exact enough: float32 has more than twice the digits.
  static void sum(std::span<std::byte> into, std::span<const std::byte> other) {
    check(other.size(), into.size() / kWord);
    if (into.size() % kWord != 0) refuse(Traits::kName, "2 bytes for each element", into.size());
    for (std::size_t i = 0; i < into.size() / kWord; ++i)
      put(into.data() + i * kWord, Traits::to(plain_nan(at(into, i) + at(other, i))));
  }

  static WireSize wire_bytes(std::size_t elements, double /*density*/) {
    const auto bytes = static_cast<std::int64_t>(elements * kWord);
    return {.min = bytes, .max = bytes};
  }

  static Compressor compressor() {
    return {.name = Traits::kName,
            .summary = Traits::kSummary,
            .encode = encode,
            .add_decoded = add_decoded,
            .subtract_decoded = subtract_decoded,
            .wire_bytes = wire_bytes,
            .sum = sum};
  }
};

}  // namespace compression
