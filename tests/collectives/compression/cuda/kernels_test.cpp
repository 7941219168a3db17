// The GPU's kernels, run on the host lane by lane, beside the CPU's functions.

#include <stdexcept>

#include <doctest/doctest.h>

#include "collectives/compression/half.hpp"
#include "collectives/compression/sign_wire.hpp"
#include "sim/draws.hpp"
#include "tests/collectives/compression/cuda/compare.hpp"
#include "tests/collectives/compression/cuda/host_lanes.hpp"

namespace compression::cuda {
namespace {

using support::kInfinity;
using support::kNan;
using support::Random;

TEST_CASE("gpu kernels: words read as on the CPU") {
  Random random(1);
  std::vector<std::uint32_t> words = {0,           1,           0x7f7fffffU, 0x7f800000U, 0x7f800001U,
                                      0x80000000U, 0x80000001U, 0xff7fffffU, 0xff800000U, 0xffffffffU};
  for (int i = 0; i < 20'000; ++i) words.push_back(random.below(1U << 31U) << 1U | random.below(2));
  for (const std::uint32_t bits : words) {
    const auto x = std::bit_cast<float>(bits);
    CAPTURE(bits);
    REQUIRE(magnitude_of(x) == magnitude(x));
    REQUIRE(is_below_zero(x) == is_negative(x));
    REQUIRE(support::bits_of(without_payload(x)) == support::bits_of(plain_nan(x)));
    REQUIRE(to_float16_bits(x) == to_float16(x));
    REQUIRE(to_bfloat16_bits(x) == to_bfloat16(x));
    const auto half = static_cast<std::uint16_t>(bits >> 7U);
    REQUIRE(support::bits_of(from_half(Half::float16, half)) == support::bits_of(from_float16(half)));
    REQUIRE(support::bits_of(from_half(Half::bfloat16, half)) == support::bits_of(from_bfloat16(half)));
    REQUIRE(hash_of(bits) == sim::hash(bits));
    REQUIRE(hash_of(bits, std::uint64_t{bits} * 3) == sim::hash(bits, std::uint64_t{bits} * 3));
  }
}

TEST_CASE("gpu kernels: all lengths about a warp, a round and a tile, on the host") {
  Device device(support::host_engine(1));
  std::uint32_t seed = 0;
  for (const std::size_t elements : {0U, 1U, 31U, 32U, 33U, 1023U, 1025U, 4097U}) {
    support::compare_all(device, seed % support::kKinds, elements, seed, seed % 4,
                         support::some_ks(elements));
    ++seed;
  }
}

TEST_CASE("gpu kernels: gradients, ties, outliers, infinities and NaN over several tiles, on the host") {
  for (std::uint32_t kind = 0; kind < support::kKinds; ++kind) {
    Device device(support::host_engine(kind));
    const std::size_t elements = 8500 + 7 * kind;  // three tiles
    support::compare_all(device, kind, elements, 100 + kind, kind % 2,
                         std::vector{elements / 50, elements / 3});
  }
}

TEST_CASE("gpu kernels: many tiles, few kept, on the host") {
  Random random(3);
  const std::vector<float> x = support::vector_of(random, 1, 300'001);
  Device device(support::host_engine(5));
  const support::Compared compared(device, x, 0);
  compared.top_k(300);
  compared.mstopk(3000, 9, kSamplings);
  compared.dgc(3000, 9);
  compared.random_k(3000, 9);
  compared.at_least(20);
  compared.signs("onebit");
}

TEST_CASE("gpu kernels: random-k draws as Floyd's steps one by one, whatever is drawn again, on the host") {
  Device device(support::host_engine(7));
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const std::vector<float> x(1 + seed * 11, 1);
    const support::Compared compared(device, x, 0);
    for (const std::size_t k : {x.size() / 2, x.size() - x.size() / 5, x.size() - 1}) {
      CAPTURE(seed);
      compared.random_k(k, seed);
    }
  }
}

TEST_CASE("gpu kernels: a sum has the same bits in whatever order blocks run, on the host") {
  Random random(4);
  const std::vector<float> x = support::vector_of(random, 1, 30'000);
  Device device(support::host_engine(11));
  const Buffer buffer(device, x);
  const double mean = mstopk(device, {buffer.floats(), x.size()}, 10, 1).mean;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    Device other(support::host_engine(seed));
    CHECK(mstopk(other, {buffer.floats(), x.size()}, 10, 1).mean == mean);
  }
}

TEST_CASE("gpu kernels: encodings by name are the compressors' bytes, call after call, on the host") {
  Random random(5);
  const std::vector<float> x = support::vector_of(random, 2, 5000);  // whole numbers: sums are exact
  Device device(support::host_engine(13));
  for (const Compressor& compressor : compressors()) {
    const std::string_view name = compressor.name;
    CAPTURE(name);
    State state = {.density = 0.02, .seed = 3};
    State same_state = state;
    for (int call = 0; call < 3; ++call) {
      REQUIRE(encode(device, name, x, state) == find_compressor(name)->encode(x, same_state));
      REQUIRE(state.calls == same_state.calls);
    }
  }
  State state;
  CHECK_THROWS_WITH_AS(encode(device, "fp17", x, state), "no compressor on a device: fp17",
                       std::invalid_argument);
}

TEST_CASE("gpu kernels: what are no encodings are refused as on the CPU, and change nothing, on the host") {
  Device device(support::host_engine(17));
  const auto refused = [&](const char* name, const Bytes& bytes, std::size_t elements) {
    CAPTURE(name);
    std::vector<float> out(elements, 1);
    const Buffer on_device(device, std::span<const float>(out));
    const Buffer encoded(device, bytes);
    std::string expected;
    std::string got;
    try {
      find_compressor(name)->add_decoded(bytes, out);
    } catch (const std::invalid_argument& error) {
      expected = error.what();
    }
    try {
      add_decoded(device, name, {encoded.bytes(), bytes.size()}, on_device.floats(), elements);
    } catch (const std::invalid_argument& error) {
      got = error.what();
    }
    REQUIRE(!expected.empty());
    CHECK(got == expected);
    std::vector<float> after(elements);
    on_device.download(after);
    CHECK(after == std::vector<float>(elements, 1));
  };
  refused("top-k", Bytes(7), 10);
  refused("top-k", pack({.indexes = {1, 1, 3}, .values = {1, 2, 3}}), 10);
  refused("top-k", pack({.indexes = {1, 9, 10}, .values = {1, 2, 3}}), 10);
  refused("top-k", pack({.indexes = {0, 5, 12, 2}, .values = {1, 2, 3, 4}}), 10);
  refused("efsignsgd", Bytes(5), 10);
  Bytes signs(6);
  signs[5] = std::byte{4};
  refused("efsignsgd", signs, 10);
  signs[5] = std::byte{0};
  put_float(signs.data(), -1);
  refused("efsignsgd", signs, 10);
  signs.resize(9);
  refused("onebit", signs, 8);
  refused("fp16", Bytes(7), 4);
  refused("bf16", Bytes(10), 4);
}

}  // namespace
}  // namespace compression::cuda
