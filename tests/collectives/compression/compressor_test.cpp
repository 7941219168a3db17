// Compressors: encoding and decoding, each by name, and error feedback.

#include "collectives/compression/compressor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include "collectives/compression/error_feedback.hpp"
#include "collectives/compression/sparse_wire.hpp"
#include "tests/collectives/compression/vectors.hpp"

namespace compression {
namespace {

using support::bits_of;
using support::kInfinity;
using support::kNan;
using support::Random;

Bytes bytes_of(const std::vector<unsigned>& values) {
  Bytes out;
  for (const unsigned each : values) out.push_back(static_cast<std::byte>(each));
  return out;
}

std::string hex(const Bytes& bytes) {
  std::string out;
  for (const std::byte each : bytes) {
    out += "0123456789abcdef"[std::to_integer<unsigned>(each) >> 4U];
    out += "0123456789abcdef"[std::to_integer<unsigned>(each) & 15U];
  }
  return out;
}

Bytes encode(std::string_view name, const std::vector<float>& x, double density = 0.5) {
  State state = {.density = density};
  return find_compressor(name)->encode(x, state);
}

std::vector<float> decode(const Compressor& compressor, const Bytes& bytes, std::size_t elements) {
  std::vector<float> out(elements);
  compressor.add_decoded(bytes, out);
  return out;
}

bool is_sparse(const Compressor& compressor) {
  return compressor.wire_bytes(1000, 0.1).max < compressor.wire_bytes(1000, 0.5).max;
}

TEST_CASE("compressors: found by name, each once") {
  const std::vector<std::string_view> names = {"top-k",     "mstopk",    "dgc",    "random-k", "gaussian-k",
                                               "threshold", "efsignsgd", "onebit", "fp16",     "bf16"};
  CHECK(compressors().size() == names.size());
  for (const std::string_view name : names) {
    CAPTURE(name);
    REQUIRE(find_compressor(name) != nullptr);
    CHECK(find_compressor(name)->name == name);
    CHECK_FALSE(find_compressor(name)->summary.empty());
    CHECK(find_compressor(name)->sums() == (name == "fp16" || name == "bf16"));
  }
  CHECK(find_compressor("none") == nullptr);
}

TEST_CASE("compressors: k is the density's part, at least one") {
  CHECK(kept_elements(1000, 0.01) == 10);
  CHECK(kept_elements(149, 0.01) == 1);
  CHECK(kept_elements(150, 0.01) == 2);
  CHECK(kept_elements(3, 0.01) == 1);
  CHECK(kept_elements(0, 0.01) == 0);
  CHECK(kept_elements(3, 0) == 0);
  CHECK(kept_elements(3, 1) == 3);
  for (const double density : {-0.1, 1.1, std::nan("")})
    CHECK_THROWS_AS(kept_elements(3, density), std::invalid_argument);
  CHECK_THROWS_WITH_AS(encode("dgc", {1}, 2), "density: expected a number from 0 to 1, got 2",
                       std::invalid_argument);
}

TEST_CASE("compressors: the bytes on the wire are these") {
  CHECK(swapped<std::uint16_t>(0x1234) == 0x3412);
  CHECK(swapped<std::uint32_t>(0x12345678) == 0x78563412);
  const std::vector<float> x = {1, -3, 0.5F, 2};
  // indexes 1 and 3, then -3 and 2
  const std::string sparse = "0100000003000000000040c000000040";
  for (const std::string_view name : {"top-k", "mstopk", "dgc", "gaussian-k", "threshold"}) {
    CAPTURE(name);
    CHECK(hex(encode(name, x)) == sparse);
  }
  // the mean of |x| is 1.625, and element 1 is negative
  CHECK(hex(encode("efsignsgd", x)) == "0000d03f02");
  // the means are 3.5 / 3 and -3
  CHECK(hex(encode("onebit", x)) == "5555953f0000404002");
  CHECK(hex(encode("fp16", x)) == "003c00c200380040");
  CHECK(hex(encode("bf16", x)) == "803f40c0003f0040");
  // nine elements take a bit of a second byte
  CHECK(hex(encode("efsignsgd", {-1, 1, 1, 1, 1, 1, 1, 1, -1})) == "0000803f0101");
  CHECK(encode("random-k", x).size() == 16);
  for (const Compressor& each : compressors()) {
    CAPTURE(each.name);
    CHECK(hex(encode(each.name, {})) == (each.name == "efsignsgd" ? "00000000"
                                         : each.name == "onebit"  ? "0000000000000000"
                                                                  : ""));
  }
}

TEST_CASE("compressors: as many bytes as said before, for any elements") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<float> x =
        support::vector_of(random, seed % support::kKinds, support::length_of(seed, random));
    for (const Compressor& each : compressors()) {
      CAPTURE(each.name);
      for (const double density : {0.0, 0.01, 0.1, 0.9, 1.0}) {
        CAPTURE(density);
        State state = {.density = density, .seed = seed};
        const WireSize size = each.wire_bytes(x.size(), density);
        const auto bytes = static_cast<std::int64_t>(each.encode(x, state).size());
        REQUIRE(bytes >= size.min);
        REQUIRE(bytes <= size.max);
      }
    }
  }
}

TEST_CASE("compressors: sizes that do not depend on the values") {
  const auto exactly = [](std::string_view name, std::size_t elements) {
    const WireSize size = find_compressor(name)->wire_bytes(elements, 0.01);
    return size.min == size.max ? size.max : -1;
  };
  for (const std::string_view name : {"top-k", "mstopk", "random-k"}) CHECK(exactly(name, 100'000) == 8000);
  CHECK(exactly("efsignsgd", 100'001) == 4 + 12'501);
  CHECK(exactly("onebit", 100'001) == 8 + 12'501);
  CHECK(exactly("fp16", 7) == 14);
  CHECK(exactly("bf16", 7) == 14);
  CHECK(find_compressor("dgc")->wire_bytes(100'000, 0.01) == WireSize{8, 10'000});
  CHECK(find_compressor("gaussian-k")->wire_bytes(100'000, 0.01) == WireSize{6000, 10'000});
  CHECK(find_compressor("threshold")->wire_bytes(100'000, 0.01) == WireSize{0, 16'000});
}

/// What the bytes should decode to, from the selection or the definition.
std::vector<float> plain_decoded(std::string_view name, const std::vector<float>& x, double density,
                                 std::uint64_t seed) {
  std::vector<float> out(x.size());
  const std::size_t k = kept_elements(x.size(), density);
  const std::uint64_t draw = sim::hash(seed, 0);
  ReusedThreshold reused;
  SparseVector kept;
  if (name == "top-k") kept = top_k(x, k);
  if (name == "mstopk") kept = mstopk(x, k, draw);
  if (name == "dgc") kept = dgc(x, k, draw);
  if (name == "random-k") kept = random_k(x, k, draw);
  if (name == "gaussian-k") kept = gaussian_k(x, k);
  if (name == "threshold") kept = reuse_threshold(x, k, reused);
  for (std::size_t i = 0; i < kept.indexes.size(); ++i) out[kept.indexes[i]] += kept.values[i];
  return out;
}

TEST_CASE("compressors: sparse ones bring back what they selected, and add it to what is there") {
  for (std::uint32_t seed = 0; seed < 220; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<float> x =
        support::vector_of(random, seed % support::kKinds, support::length_of(seed, random));
    for (const Compressor& each : compressors()) {
      if (!is_sparse(each)) continue;
      CAPTURE(each.name);
      State state = {.density = 0.1, .seed = seed};
      const Bytes bytes = each.encode(x, state);
      const std::vector<float> plain = plain_decoded(each.name, x, 0.1, seed);
      std::vector<float> out = decode(each, bytes, x.size());
      REQUIRE(bits_of(out) == bits_of(plain));
      each.add_decoded(bytes, out);
      for (std::size_t i = 0; i < x.size(); ++i) REQUIRE((out[i] == 2 * plain[i] || std::isnan(plain[i])));
      REQUIRE(pack(unpack(bytes, x.size())) == bytes);
    }
  }
}

TEST_CASE("compressors: signs come back scaled by means") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::vector<float> x =
        support::vector_of(random, seed % support::kFiniteKinds, support::length_of(seed, random));
    double above = 0;
    double below = 0;
    double negatives = 0;
    for (const float each : x) {
      (each < 0 ? below : above) += static_cast<double>(each);
      if (each < 0) ++negatives;
    }
    const auto count = static_cast<double>(x.size());
    const std::vector<float> signs = decode(*find_compressor("efsignsgd"), encode("efsignsgd", x), x.size());
    const std::vector<float> halves = decode(*find_compressor("onebit"), encode("onebit", x), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scale = (above - below) / count;
      REQUIRE(signs[i] == doctest::Approx(x[i] < 0 ? -scale : scale).epsilon(1e-6));
      REQUIRE(halves[i] ==
              doctest::Approx(x[i] < 0 ? below / negatives : above / (count - negatives)).epsilon(1e-6));
    }
  }
}

TEST_CASE("compressors: halves come back as they are rounded") {
  const std::vector<float> x = {1.0009765625F, 1.00048828125F, 70'000, 1e-8F, -0.0F, kNan, -kInfinity};
  std::vector<float> out = decode(*find_compressor("fp16"), encode("fp16", x), x.size());
  CHECK(bits_of(out) == bits_of(std::vector<float>{1.0009765625F, 1, kInfinity, 0, 0, kNan, -kInfinity}));
  out = decode(*find_compressor("bf16"), encode("bf16", x), x.size());
  CHECK(bits_of(out) == bits_of(std::vector<float>{1, 1, 70'144, 0x1.58p-27F, 0, kNan, -kInfinity}));
}

TEST_CASE("compressors: encodings that can be summed give the rounded sum") {
  for (const std::string_view name : {"fp16", "bf16"}) {
    CAPTURE(name);
    const Compressor& compressor = *find_compressor(name);
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
      Random random(seed);
      const std::vector<float> x = support::vector_of(random, seed % support::kFiniteKinds, 50);
      const std::vector<float> y = support::vector_of(random, seed % support::kFiniteKinds, 50);
      Bytes sum = encode(name, x);
      std::vector<float> plain = decode(compressor, sum, x.size());
      compressor.add_decoded(encode(name, y), plain);
      compressor.sum(sum, encode(name, y));
      for (float& each : plain)
        if (std::isnan(each)) each = kNan;
      REQUIRE(bits_of(decode(compressor, sum, 50)) == bits_of(decode(compressor, encode(name, plain), 50)));
    }
    Bytes unlike = encode(name, {kInfinity, -0.0F});
    compressor.sum(unlike, encode(name, {-kInfinity, -0.0F}));
    CHECK(hex(unlike) == (name == "fp16" ? "007e0080" : "c07f0080"));  // a NaN without sign on any machine
    Bytes three(3);
    CHECK_THROWS_AS(compressor.sum(three, Bytes(2)), std::invalid_argument);
    CHECK_THROWS_AS(compressor.sum(three, Bytes(3)), std::invalid_argument);
    CHECK(three == Bytes(3));
  }
}

TEST_CASE("compressors: calls draw anew, states that are alike the same") {
  Random random(1);
  const std::vector<float> x = support::vector_of(random, 0, 2000);
  for (const Compressor& each : compressors()) {
    CAPTURE(each.name);
    State state = {.density = 0.01, .seed = 7};
    State alike = state;
    const Bytes first = each.encode(x, state);
    CHECK(first == each.encode(x, alike));
    const Bytes second = each.encode(x, state);
    CHECK(second == each.encode(x, alike));
    CHECK((first != second) == (each.name == "random-k" || each.name == "dgc"));
  }
  // Elements of equal magnitude, among which mstopk fills up.
  const std::vector<float> equals(2000, 1);
  State state = {.density = 0.01, .seed = 7};
  const Compressor& mstopk = *find_compressor("mstopk");
  const Bytes first = mstopk.encode(equals, state);
  CHECK(first != mstopk.encode(equals, state));
}

TEST_CASE("compressors: bytes that are no encoding are refused and change nothing") {
  struct Example {
    std::string_view name;
    std::vector<unsigned> bytes;
    const char* message;
  };
  const Example examples[] = {
      {"top-k", {0, 0, 0, 0, 0, 0, 0}, "sparse encoding: expected a multiple of 8 bytes, got 7"},
      {"top-k",
       {3, 0, 0, 0, 0, 0, 0, 0},
       "sparse encoding: expected indexes below the number of elements, got 3"},
      {"dgc",
       {255, 255, 255, 255, 0, 0, 0, 0},
       "sparse encoding: expected indexes below the number of elements, got 4294967295"},
      {"mstopk",
       {1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 128, 63, 0, 0, 128, 63},
       "sparse encoding: expected growing indexes, got 1"},
      {"random-k",
       {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 128, 63},
       "sparse encoding: expected growing indexes, got 0"},
      {"efsignsgd", {0, 0, 128, 63}, "efsignsgd: expected scales and a bit for each element, got 4"},
      {"efsignsgd", {0, 0, 128, 63, 0, 0}, "efsignsgd: expected scales and a bit for each element, got 6"},
      {"efsignsgd", {0, 0, 128, 191, 0}, "efsignsgd: expected non-negative scales, got 0"},
      {"efsignsgd", {0, 0, 128, 63, 8}, "efsignsgd: expected 0 beyond the last element, got 8"},
      {"onebit", {0, 0, 128, 63, 0, 0, 128, 191, 0}, "onebit: expected non-negative scales, got 1"},
      {"onebit", {0, 0, 128, 63, 0, 0, 128, 63, 255}, "onebit: expected 0 beyond the last element, got 255"},
      {"onebit", {}, "onebit: expected scales and a bit for each element, got 0"},
      {"fp16", {0, 0, 0, 0, 0}, "fp16: expected 2 bytes for each element, got 5"},
      {"bf16", {0, 0, 0, 0, 0, 0, 0, 0}, "bf16: expected 2 bytes for each element, got 8"},
  };
  for (const Example& example : examples) {
    CAPTURE(example.message);
    const Compressor& compressor = *find_compressor(example.name);
    std::vector<float> out = {1, 2, 3};
    CHECK_THROWS_WITH_AS(compressor.add_decoded(bytes_of(example.bytes), out), example.message,
                         std::invalid_argument);
    CHECK_THROWS_WITH_AS(compressor.subtract_decoded(bytes_of(example.bytes), out), example.message,
                         std::invalid_argument);
    CHECK(out == std::vector<float>{1, 2, 3});
  }
}

TEST_CASE("compressors: any bytes are decoded and taken off again, or refused without a change") {
  std::size_t decoded = 0;
  for (std::uint32_t seed = 0; seed < 5000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Bytes bytes(random.below(40));
    for (std::byte& each : bytes)
      each = static_cast<std::byte>(random.one_in(2) ? random.below(4) : random.below(256));
    std::vector<float> out(random.below(20));
    const std::vector<float> zeros = out;
    for (const Compressor& each : compressors()) {
      CAPTURE(each.name);
      try {
        each.add_decoded(bytes, out);
        each.subtract_decoded(bytes, out);
        ++decoded;
      } catch (const std::invalid_argument&) {
      }
      REQUIRE(out == zeros);
    }
  }
  CHECK(decoded > 0);
}

TEST_CASE("compressors: a broken gradient is not hidden") {
  const auto decoded = [](const Compressor& compressor, float broken) {
    std::vector<float> x(200, 0.5F);
    for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -0.25F;
    x[99] = broken;
    return decode(compressor, encode(compressor.name, x, 0.01), x.size());
  };
  for (const Compressor& each : compressors()) {
    if (each.name == "random-k") continue;
    CAPTURE(each.name);
    CHECK(std::isnan(decoded(each, kNan)[99]));
    CHECK(decoded(each, kInfinity)[99] == kInfinity);
    CHECK(decoded(each, -kInfinity)[99] == -kInfinity);
  }
  // Sign compressors spread it: to all elements, or to those with its sign.
  CHECK(std::isnan(decoded(*find_compressor("efsignsgd"), kNan)[0]));
  CHECK(decoded(*find_compressor("efsignsgd"), kInfinity)[0] == -kInfinity);
  CHECK(decoded(*find_compressor("onebit"), kNan)[0] < 0);
  CHECK(std::isnan(decoded(*find_compressor("onebit"), kNan)[1]));
  // One NaN on every machine: machines differ in the sign of infinity - infinity.
  const float other_nan = std::bit_cast<float>(0xffc12345U);
  CHECK(hex(encode("efsignsgd", {other_nan, kNan})) == "0000c07f00");
  CHECK(hex(encode("efsignsgd", {-kNan, 1})) == "0000c07f00");
  CHECK(hex(encode("onebit", {-kNan, -1})) == "0000c07f0000803f02");
}

/// Runs a few calls and checks each element of each with `is_right(corrected, decoded, residual)`.
template <typename IsRight>
void feed_back(const Compressor& compressor, std::uint32_t seed, std::uint32_t kind,
               const IsRight& is_right) {
  CAPTURE(compressor.name);
  CAPTURE(seed);
  Random random(seed);
  const std::size_t elements = support::length_of(seed, random);
  State state = {.density = 0.05, .seed = seed, .reused = {.recompute_every = 3}};
  ErrorFeedback feedback;
  std::vector<float> before(elements);
  for (int call = 0; call < 5; ++call) {
    CAPTURE(call);
    const std::vector<float> gradient = support::vector_of(random, kind, elements);
    const Bytes bytes = encode(compressor, gradient, state, feedback);
    const std::vector<float> decoded = decode(compressor, bytes, elements);
    REQUIRE(feedback.residual.size() == elements);
    std::size_t i = 0;
    while (i < elements && is_right(before[i] + gradient[i], decoded[i], feedback.residual[i])) ++i;
    REQUIRE(i == elements);  // otherwise the first wrong element
    before = feedback.residual;
  }
}

TEST_CASE("error feedback: what is sent and what stays add up to what there was") {
  for (const Compressor& each : compressors()) {
    const bool is_exact = is_sparse(each) || each.sums();
    for (std::uint32_t seed = 0; seed < 280; ++seed)
      feed_back(each, seed, seed % (support::kFiniteKinds - 1),
                [&](float corrected, float decoded, float residual) {
                  if (!std::isfinite(decoded)) return residual == 0;  // too large for fp16
                  if (is_exact && decoded + residual != corrected) return false;
                  if (is_sparse(each) && residual != 0 && decoded != 0) return false;
                  return residual == corrected - decoded;
                });
  }
}

TEST_CASE("error feedback: what is not finite travels once, and leaves nothing behind") {
  for (const Compressor& each : compressors())
    for (std::uint32_t seed = 0; seed < 100; ++seed)
      feed_back(each, seed, 7 + seed % 4, [&](float corrected, float decoded, float residual) {
        if (!std::isfinite(decoded)) return residual == 0;
        if (!std::isfinite(corrected)) return is_sparse(each);  // not selected, or one too many
        return residual == corrected - decoded;
      });
}

TEST_CASE("error feedback: with random-k a NaN stays until it is drawn") {
  const Compressor& random_k = *find_compressor("random-k");
  State state = {.density = 0.1, .seed = 4};
  ErrorFeedback feedback;
  std::vector<float> gradient(20, 1);
  gradient[4] = kNan;
  int calls = 0;
  bool has_travelled = false;
  while (!has_travelled && calls < 1000) {
    const Bytes bytes = encode(random_k, gradient, state, feedback);
    gradient[4] = 1;
    ++calls;
    has_travelled = std::isnan(decode(random_k, bytes, gradient.size())[4]);
    CHECK(std::isnan(feedback.residual[4]) == !has_travelled);
  }
  CHECK(has_travelled);
  CHECK(calls > 1);
  CHECK(feedback.residual[4] == 0);
}

TEST_CASE("error feedback: over many calls what arrives is what was sent") {
  // a constant gradient of 1, 2, 3, ...: each element's mean arrives, though a tenth of them travels at a
  // time
  std::vector<float> gradient(50);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i + 1);
  for (const Compressor& each : compressors()) {
    CAPTURE(each.name);
    State state = {.density = 0.1};
    ErrorFeedback feedback;
    std::vector<float> arrived(gradient.size());
    constexpr int kCalls = 400;
    for (int call = 0; call < kCalls; ++call)
      each.add_decoded(encode(each, gradient, state, feedback), arrived);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      CAPTURE(i);
      CHECK(arrived[i] > 0);
      CHECK(arrived[i] + feedback.residual[i] == doctest::Approx(gradient[i] * kCalls).epsilon(1e-4));
    }
  }
}

TEST_CASE("error feedback: a residual is for one length") {
  State state;
  ErrorFeedback feedback = {.residual = {1, 2}};
  CHECK_THROWS_WITH_AS(encode(*find_compressor("top-k"), std::vector<float>(3), state, feedback),
                       "residual: expected as many elements as before, got 3", std::invalid_argument);
}

}  // namespace
}  // namespace compression
