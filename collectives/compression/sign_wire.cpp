#include "collectives/compression/sign_wire.hpp"

#include <algorithm>
#include <cmath>

namespace compression {
namespace {

template <typename Visit>
void for_each_sign(const std::byte* signs, std::size_t elements, Visit visit) {
  for (std::size_t from = 0; from < elements; from += 8) {
    const auto byte = std::to_integer<unsigned>(signs[from / 8]);
    const std::size_t count = std::min<std::size_t>(8, elements - from);
    for (std::size_t i = 0; i < count; ++i) visit(from + i, byte >> i & 1U);
  }
}

}  // namespace

void put_signs(std::byte* to, std::span<const float> x) {
  for (std::size_t from = 0; from < x.size(); from += 8) {
    unsigned byte = 0;
    const std::size_t count = std::min<std::size_t>(8, x.size() - from);
    for (std::size_t i = 0; i < count; ++i) byte |= static_cast<unsigned>(is_negative(x[from + i])) << i;
    to[from / 8] = static_cast<std::byte>(byte);
  }
}

void check_signs(const char* name, std::span<const std::byte> bytes, std::size_t scales,
                 std::size_t elements) {
  const std::size_t header = scales * sizeof(float);
  if (bytes.size() != header + sign_bytes(elements))
    refuse(name, "scales and a bit for each element", bytes.size());
  for (std::size_t i = 0; i < scales; ++i)
    if (std::signbit(get_float(bytes.data() + i * sizeof(float)))) refuse(name, "non-negative scales", i);
  if (elements % 8 != 0 && std::to_integer<unsigned>(bytes.back()) >> elements % 8 != 0)
    refuse(name, "0 beyond the last element", std::to_integer<std::size_t>(bytes.back()));
}

void add_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> out) {
  for_each_sign(signs, out.size(), [&](std::size_t i, unsigned negative) { out[i] += values[negative]; });
}

void subtract_signs(const std::byte* signs, std::array<float, 2> values, std::span<float> from) {
  const std::array<bool, 2> finite = {is_finite(values[0]), is_finite(values[1])};
  for_each_sign(signs, from.size(), [&](std::size_t i, unsigned negative) {
    from[i] = finite[negative] ? from[i] - values[negative] : 0;
  });
}

}  // namespace compression
