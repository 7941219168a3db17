// float16 and bfloat16 against definitions in exact arithmetic.

#include "collectives/compression/half.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include "tests/collectives/compression/vectors.hpp"

namespace compression {
namespace {

using support::bits_of;

/// A 16-bit format with `fraction_bits` bits for the fraction.
struct Format {
  int fraction_bits;
  int bias;
  std::uint16_t (*to)(float);
  float (*from)(std::uint16_t);

  std::uint32_t infinity() const { return 0x7fffU >> fraction_bits << fraction_bits; }
};

const Format kFormats[] = {{10, 15, to_float16, from_float16}, {7, 127, to_bfloat16, from_bfloat16}};

/// The value by the definition of the format; infinity is treated as the number after the largest.
double value_of(const Format& format, std::uint32_t half) {
  const int exponent = static_cast<int>(half >> format.fraction_bits);
  const int fraction = static_cast<int>(half & ((1U << format.fraction_bits) - 1));
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  return std::ldexp(whole, std::max(exponent, 1) - format.bias - format.fraction_bits);
}

/// Returns the nearest of all values, ties to even. Requires x >= 0 and no NaN.
std::uint32_t nearest(const Format& format, double x) {
  std::uint32_t low = 0;
  std::uint32_t high = format.infinity();
  if (x >= value_of(format, high)) return high;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value_of(format, middle) <= x ? low : high) = middle;
  }
  const double below = x - value_of(format, low);
  const double above = value_of(format, high) - x;
  if (below == above) return low % 2 == 0 ? low : high;
  return below < above ? low : high;
}

void check(const Format& format, float x) {
  CAPTURE(format.fraction_bits);
  CAPTURE(bits_of(x));
  const std::uint32_t sign = std::signbit(x) ? 0x8000U : 0;
  const std::uint32_t half = format.to(x);
  if (std::isnan(x)) {
    REQUIRE((half & 0x8000U) == sign);
    REQUIRE((half & 0x7fffU) > format.infinity());
  } else {
    REQUIRE(half == (sign | nearest(format, std::abs(static_cast<double>(x)))));
  }
}

TEST_CASE("half: every half is the number it should be, and comes back") {
  for (const Format& format : kFormats) {
    for (std::uint32_t half = 0; half < 0x10000U; ++half) {
      const float x = format.from(static_cast<std::uint16_t>(half));
      const std::uint32_t key = half & 0x7fffU;
      CAPTURE(half);
      REQUIRE(std::signbit(x) == (half >= 0x8000U));
      if (key > format.infinity()) {
        REQUIRE(std::isnan(x));
        const std::uint32_t quiet = 1U << (format.fraction_bits - 1);
        REQUIRE(format.to(x) == (half | quiet));
        continue;
      }
      if (key == format.infinity())
        REQUIRE(std::isinf(x));
      else
        REQUIRE(std::abs(static_cast<double>(x)) == value_of(format, key));
      REQUIRE(format.to(x) == half);
    }
  }
}

TEST_CASE("half: floats go to the nearest, halfway to the even one") {
  for (const Format& format : kFormats) {
    for (std::uint32_t half = 0; half < format.infinity(); ++half) {
      const auto middle =
          static_cast<float>((value_of(format, half) + value_of(format, half + 1)) / 2);  // exact
      for (const float x :
           {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, support::kInfinity)}) {
        check(format, x);
        check(format, -x);
      }
    }
    support::Random random(1);
    for (int i = 0; i < 100'000; ++i) check(format, support::element(random, 10, 0));
    for (const std::uint32_t bits : {0U, 1U, 0x007fffffU, 0x7f7fffffU, 0x7f800000U, 0x7f800001U, 0x7fffffffU})
      for (const std::uint32_t sign : {0U, 0x80000000U}) check(format, std::bit_cast<float>(bits | sign));
  }
}

TEST_CASE("half: known numbers") {
  CHECK(to_float16(1) == 0x3c00);
  CHECK(to_float16(-2) == 0xc000);
  CHECK(to_float16(65504) == 0x7bff);
  CHECK(to_float16(65519.996F) == 0x7bff);
  CHECK(to_float16(65520) == 0x7c00);
  CHECK(to_float16(0x1p-24F) == 1);
  CHECK(to_float16(0x1p-25F) == 0);
  CHECK(to_bfloat16(1) == 0x3f80);
  CHECK(to_bfloat16(std::numeric_limits<float>::max()) == 0x7f80);
}

}  // namespace
}  // namespace compression
