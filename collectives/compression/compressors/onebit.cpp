// 1-bit SGD (Seide et al. 2014): one bit per element, and the means of the non-negative and of the negative
// elements. Encoding: the first mean, the second mean without its sign (float32), then the signs. An infinity
// makes its half of the elements infinite, a NaN makes the non-negative elements NaN, so a broken gradient is
// not hidden.

#include "collectives/compression/bits.hpp"
#include "collectives/compression/compressor.hpp"
#include "collectives/compression/sign_wire.hpp"
#include "collectives/compression/sums.hpp"

namespace compression {
namespace {

constexpr const char* kName = "onebit";
constexpr std::size_t kScales = 2 * sizeof(float);

float mean_of(double sum, double count) {
  return count == 0 ? 0 : plain_nan(static_cast<float>(sum / count));
}

Bytes encode(std::span<const float> x, State& /*state*/) {
  const double negatives =
      sum_of(x, [](float each) { return static_cast<double>(only_if(is_negative(each), 1)); });
  const double below =
      sum_of(x, [](float each) { return static_cast<double>(only_if(is_negative(each), -each)); });
  const double above =
      sum_of(x, [](float each) { return static_cast<double>(only_if(!is_negative(each), each)); });
  Bytes bytes(kScales + sign_bytes(x.size()));
  put_float(bytes.data(), mean_of(above, static_cast<double>(x.size()) - negatives));
  put_float(bytes.data() + sizeof(float), mean_of(below, negatives));
  put_signs(bytes.data() + kScales, x);
  return bytes;
}

std::array<float, 2> values_of(std::span<const std::byte> bytes, std::size_t elements) {
  check_signs(kName, bytes, 2, elements);
  return {get_float(bytes.data()), -get_float(bytes.data() + sizeof(float))};
}

void add_decoded(std::span<const std::byte> bytes, std::span<float> out) {
  const std::array<float, 2> values = values_of(bytes, out.size());
  add_signs(bytes.data() + kScales, values, out);
}

void subtract_decoded(std::span<const std::byte> bytes, std::span<float> from) {
  const std::array<float, 2> values = values_of(bytes, from.size());
  subtract_signs(bytes.data() + kScales, values, from);
}

WireSize wire_bytes(std::size_t elements, double /*density*/) {
  const auto bytes = static_cast<std::int64_t>(kScales + sign_bytes(elements));
  return {.min = bytes, .max = bytes};
}

}  // namespace

Compressor onebit_compressor() {
  return {.name = kName,
          .summary = "signs and a scale for each",
          .encode = encode,
          .add_decoded = add_decoded,
          .subtract_decoded = subtract_decoded,
          .wire_bytes = wire_bytes};
}

}  // namespace compression
