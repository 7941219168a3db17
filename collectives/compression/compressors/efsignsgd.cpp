// EFSignSGD (Karimireddy et al. 2019): the signs, scaled by the mean of |x|. Encoding: the scale (float32),
// then the signs. One infinity makes all elements infinite, one NaN makes them NaN, so a broken gradient is
// not hidden.

#include <cmath>

#include "collectives/compression/bits.hpp"
#include "collectives/compression/compressor.hpp"
#include "collectives/compression/sign_wire.hpp"
#include "collectives/compression/sums.hpp"

namespace compression {
namespace {

constexpr const char* kName = "efsignsgd";
constexpr std::size_t kScale = sizeof(float);

Bytes encode(std::span<const float> x, State& /*state*/) {
  Bytes bytes(kScale + sign_bytes(x.size()));
  const double sum = sum_of(x, [](float each) { return std::abs(static_cast<double>(each)); });
  put_float(bytes.data(), x.empty() ? 0 : plain_nan(static_cast<float>(sum / static_cast<double>(x.size()))));
  put_signs(bytes.data() + kScale, x);
  return bytes;
}

std::array<float, 2> values_of(std::span<const std::byte> bytes, std::size_t elements) {
  check_signs(kName, bytes, 1, elements);
  const float scale = get_float(bytes.data());
  return {scale, -scale};
}

void add_decoded(std::span<const std::byte> bytes, std::span<float> out) {
  const std::array<float, 2> values = values_of(bytes, out.size());
  add_signs(bytes.data() + kScale, values, out);
}

void subtract_decoded(std::span<const std::byte> bytes, std::span<float> from) {
  const std::array<float, 2> values = values_of(bytes, from.size());
  subtract_signs(bytes.data() + kScale, values, from);
}

WireSize wire_bytes(std::size_t elements, double /*density*/) {
  const auto bytes = static_cast<std::int64_t>(kScale + sign_bytes(elements));
  return {.min = bytes, .max = bytes};
}

}  // namespace

Compressor efsignsgd_compressor() {
  return {.name = kName,
          .summary = "signs and a scale",
          .encode = encode,
          .add_decoded = add_decoded,
          .subtract_decoded = subtract_decoded,
          .wire_bytes = wire_bytes};
}

}  // namespace compression
