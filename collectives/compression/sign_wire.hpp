// One bit per element, after one or two scales: bit i % 8 of byte i / 8 is set if element i is negative; bits
// beyond the last element are 0.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/compressor.hpp"
#include "collectives/compression/wire.hpp"

namespace compression {

constexpr std::size_t sign_bytes(std::size_t elements) { return (elements + 7) / 8; }

/// `to` has sign_bytes(x.size()) bytes. -0 and NaN are not negative.
void put_signs(std::byte* to, std::span<const float> x);

/// Throws std::invalid_argument unless `bytes` consists of `scales` non-negative floats and the signs of
/// `elements`.
void check_signs(const char* name, std::span<const std::byte> bytes, std::size_t scales,
                 std::size_t elements);

/// Adds values[1] for each negative element and values[0] for the others.
void add_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> out);

/// Subtracts them; sets 0 where the value is not finite.
void subtract_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> from);

/// A compressor of scales and signs. Traits: kName, kSummary, scales(x) -> an array of floats, and
/// values(scales), what an element that is not negative and one that is stand for.
template <typename Traits>
struct SignWire {
  using Scales = decltype(Traits::scales({}));
  static constexpr std::size_t kHeader = sizeof(Scales);

  static Bytes encode(std::span<const float> x, State& /*state*/) {
    Bytes bytes(kHeader + sign_bytes(x.size()));
    const Scales scales = Traits::scales(x);
    for (std::size_t i = 0; i < scales.size(); ++i) put_float(bytes.data() + i * sizeof(float), scales[i]);
    put_signs(bytes.data() + kHeader, x);
    return bytes;
  }

  static std::array<float, 2> values_of(std::span<const std::byte> bytes, std::size_t elements) {
    Scales scales;
    check_signs(Traits::kName, bytes, scales.size(), elements);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = get_float(bytes.data() + i * sizeof(float));
    return Traits::values(scales);
  }

  static void add_decoded(std::span<const std::byte> bytes, std::span<float> out) {
    const std::array<float, 2> values = values_of(bytes, out.size());
    add_signs(bytes.data() + kHeader, values, out);
  }

  static void subtract_decoded(std::span<const std::byte> bytes, std::span<float> from) {
    const std::array<float, 2> values = values_of(bytes, from.size());
    subtract_signs(bytes.data() + kHeader, values, from);
  }

  static WireSize wire_bytes(std::size_t elements, double /*density*/) {
    const auto bytes = static_cast<std::int64_t>(kHeader + sign_bytes(elements));
    return {.min = bytes, .max = bytes};
  }

  static Compressor compressor() {
    return {.name = Traits::kName,
            .summary = Traits::kSummary,
            .encode = encode,
            .add_decoded = add_decoded,
            .subtract_decoded = subtract_decoded,
            .wire_bytes = wire_bytes};
  }
};

}  // namespace compression
