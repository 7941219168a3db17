// What a device computes beside what compression/ does on the CPU; the same comparisons for a GPU and for its
// kernels on the host.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/compression/cuda/device.hpp"
#include "collectives/compression/error_feedback.hpp"
#include "collectives/compression/selectors.hpp"
#include "collectives/compression/sparse_wire.hpp"
#include "collectives/compression/sums.hpp"
#include "collectives/compression/trials.hpp"
#include "tests/collectives/compression/vectors.hpp"

namespace support {

namespace cuda = compression::cuda;
using compression::SparseVector;
using compression::cuda::Buffer;
using compression::cuda::Device;
using compression::cuda::DeviceFloats;
using compression::cuda::DeviceKept;

/// MSTopK with a mean given, by sorting.
inline SparseVector mstopk_by_mean(std::span<const float> x, std::size_t k, std::uint64_t seed, int samplings,
                                   double mean) {
  const compression::Magnitudes of = compression::magnitudes(x);
  if (k == 0 || k >= x.size() || of.not_finite >= k) return compression::top_k(x, k);
  const std::uint32_t next = compression::magnitude(compression::kth_magnitude(x, k + 1));
  const compression::cuda::Brackets bracket = compression::cuda::bisected(mean, of.greatest, next, samplings);
  std::vector<std::uint32_t> kept;
  std::vector<std::uint32_t> maybe;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    const std::uint32_t key = compression::magnitude(x[i]);
    if (key >= bracket.surely)
      kept.push_back(i);
    else if (key >= bracket.maybe)
      maybe.push_back(i);
  }
  const std::size_t wanted = k - kept.size();
  const auto from = static_cast<std::ptrdiff_t>(sim::hash(seed) % (maybe.size() - wanted + 1));
  kept.insert(kept.end(), maybe.begin() + from, maybe.begin() + from + static_cast<std::ptrdiff_t>(wanted));
  std::ranges::sort(kept);
  SparseVector out;
  for (const std::uint32_t i : kept) {
    out.indexes.push_back(i);
    out.values.push_back(x[i]);
  }
  return out;
}

/// The same but for the order of a sum.
inline bool is_near(double a, double b) { return a == b || std::abs(a - b) <= 1e-12 * std::abs(b); }
inline bool is_next_to(float a, float b) {
  return bits_of(a) == bits_of(b) || bits_of(a) + 1 == bits_of(b) || bits_of(b) + 1 == bits_of(a);
}

/// Asks with `offset` elements before x in the device's memory, which a slice of a tensor has.
class Compared {
 public:
  Compared(Device& device, std::span<const float> x, std::size_t offset)
      : device_(device),
        x_(x),
        buffer_(device, padded(x, offset)),
        on_device_{buffer_.floats() + offset, x.size()} {}

  void top_k(std::size_t k) const {
    REQUIRE(same(here(cuda::top_k(device_, on_device_, k)), compression::top_k(x_, k)));
  }
  void at_least(float threshold) const {
    REQUIRE(same(here(cuda::at_least(device_, on_device_, threshold)), compression::at_least(x_, threshold)));
  }
  void mstopk(std::size_t k, std::uint64_t seed, int samplings) const {
    const DeviceKept kept = cuda::mstopk(device_, on_device_, k, seed, samplings);
    const SparseVector selected = here(kept);
    if (k == 0 || k >= x_.size()) {
      REQUIRE(same(selected, compression::top_k(x_, k)));
      return;
    }
    const double mean = compression::magnitudes(x_).mean;
    REQUIRE(is_near(kept.mean, mean));
    REQUIRE(same(selected, mstopk_by_mean(x_, k, seed, samplings, kept.mean)));
    if (kept.mean == mean) REQUIRE(same(selected, compression::mstopk(x_, k, seed, samplings)));
  }
  void dgc(std::size_t k, std::uint64_t seed) const {
    REQUIRE(same(here(cuda::dgc(device_, on_device_, k, seed)), compression::dgc(x_, k, seed)));
  }
  void random_k(std::size_t k, std::uint64_t seed) const {
    REQUIRE(same(here(cuda::random_k(device_, on_device_, k, seed)), compression::random_k(x_, k, seed)));
  }

  /// Where sums in another order have other bits the threshold may lie elsewhere: then the definition, with
  /// the device's moments.
  void gaussian_k(std::size_t k) const {
    const SparseVector kept = here(cuda::gaussian_k(device_, on_device_, k));
    if (k == 0 || k >= x_.size()) {
      REQUIRE(same(kept, compression::top_k(x_, k)));
      return;
    }
    const compression::Moments plain = compression::moments(x_);
    const cuda::DeviceMoments of = device_.engine().moments(on_device_);
    REQUIRE(is_near(of.deviation * of.deviation + of.mean * of.mean,
                    plain.deviation * plain.deviation + plain.mean * plain.mean));
    const auto threshold =
        compression::adjusted_threshold(k, compression::normal_threshold(of.mean, of.deviation, k, x_.size()),
                                        [&](float trial) { return compression::count_at_least(x_, trial); });
    REQUIRE(same(kept, threshold ? compression::at_least(x_, *threshold) : compression::top_k(x_, k)));
    if (of.mean == plain.mean && of.deviation == plain.deviation)
      REQUIRE(same(kept, compression::gaussian_k(x_, k)));
  }
  /// Computed, reused, too low to be reused, and not finite.
  void reuse_threshold(std::size_t k) const {
    compression::ReusedThreshold state = {.recompute_every = 3};
    compression::ReusedThreshold same_state = state;
    for (const float factor : {1.0F, 1.5F, 0.0F, kNan, 0.9F}) {
      state.threshold *= factor;
      same_state.threshold *= factor;
      REQUIRE(same(here(cuda::reuse_threshold(device_, on_device_, k, state)),
                   compression::reuse_threshold(x_, k, same_state)));
      REQUIRE(bits_of(state.threshold) == bits_of(same_state.threshold));
      REQUIRE(state.calls == same_state.calls);
    }
  }
  void halves(std::string_view name) const {
    compression::State state;
    const compression::Bytes expected = compression::find_compressor(name)->encode(x_, state);
    const cuda::Half kind = name == "fp16" ? cuda::Half::float16 : cuda::Half::bfloat16;
    REQUIRE(here(cuda::halves(device_, on_device_, kind)) == expected);
    decoding(name, expected);
  }

  /// Bytes, and adding and subtracting them.
  void signs(std::string_view name) const {
    compression::State state;
    const compression::Compressor& plain = *compression::find_compressor(name);
    const compression::Bytes expected = plain.encode(x_, state);
    const compression::Bytes bytes =
        here(name == "onebit" ? cuda::onebit(device_, on_device_) : cuda::efsignsgd(device_, on_device_));
    REQUIRE(bytes.size() == expected.size());
    const std::size_t scales = name == "onebit" ? 2 : 1;
    for (std::size_t i = 0; i < scales; ++i)
      REQUIRE(is_next_to(compression::get_float(&bytes[4 * i]), compression::get_float(&expected[4 * i])));
    REQUIRE(std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(4 * scales), bytes.end(),
                       expected.begin() + static_cast<std::ptrdiff_t>(4 * scales)));
    decoding(name, expected);
  }

  /// To what lies where the device likes it, whatever the gradient's own place.
  void added() const {
    std::vector<float> sum(x_.begin(), x_.end());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x_[i];
    const Buffer out(device_, x_);
    cuda::add(device_, on_device_, out.floats());
    std::vector<float> got(x_.size());
    out.download(got);
    REQUIRE(same_or_nan(got, sum));
  }

  /// Of bytes that encode as many elements.
  void decoding(std::string_view name, std::span<const std::byte> bytes) const {
    const compression::Compressor& plain = *compression::find_compressor(name);
    std::vector<float> sum(x_.begin(), x_.end());
    plain.add_decoded(bytes, sum);
    std::vector<float> left = sum;
    plain.subtract_decoded(bytes, left);
    const Buffer on_device(device_, bytes);
    const cuda::DeviceBytes encoded = {on_device.bytes(), bytes.size()};
    const Buffer out(device_, x_);
    std::vector<float> got(x_.size());
    cuda::add_decoded(device_, name, encoded, out.floats(), x_.size());
    out.download(got);
    REQUIRE(same_or_nan(got, sum));
    cuda::subtract_decoded(device_, name, encoded, out.floats(), x_.size());
    out.download(got);
    REQUIRE(same_or_nan(got, left));
  }

 private:
  // which NaN a sum gives differs between machines
  static bool same_or_nan(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b, [](float one, float other) {
      return bits_of(one) == bits_of(other) || (std::isnan(one) && std::isnan(other));
    });
  }
  static std::vector<float> padded(std::span<const float> x, std::size_t offset) {
    std::vector<float> out(offset, kNan);
    out.insert(out.end(), x.begin(), x.end());
    return out;
  }
  SparseVector here(const DeviceKept& kept) const { return cuda::download(device_, kept); }
  compression::Bytes here(const cuda::DeviceBytes& bytes) const { return cuda::download(device_, bytes); }

  Device& device_;
  std::span<const float> x_;
  Buffer buffer_;
  DeviceFloats on_device_;
};

/// None, few, many and all.
inline std::vector<std::size_t> some_ks(std::size_t elements) {
  return {0,
          1,
          2,
          elements / 1000,
          elements / 100,
          elements / 100 + 1,
          elements / 3,
          elements - elements / 8,
          elements,
          elements + 1};
}

/// Every call on a vector of this kind and length.
inline void compare_all(Device& device, std::uint32_t kind, std::size_t elements, std::uint32_t seed,
                        std::size_t offset, std::span<const std::size_t> ks) {
  CAPTURE(kind);
  CAPTURE(elements);
  CAPTURE(seed);
  Random random(seed);
  const std::vector<float> x = vector_of(random, kind, elements);
  const Compared compared(device, x, offset);
  for (const std::size_t k : ks) {
    CAPTURE(k);
    compared.top_k(k);
    compared.mstopk(k, seed, k % 2 == 0 ? compression::kSamplings : 3);
    compared.dgc(k, seed);
    compared.random_k(k, seed);
  }
  // every trial is a pass, which lanes on the host take long for
  compared.gaussian_k(ks[ks.size() / 2]);
  compared.reuse_threshold(ks[ks.size() / 2]);
  for (const float threshold : {-1.0F, 0.0F, 0.25F, 1.0F, kInfinity, kNan}) compared.at_least(threshold);
  compared.signs("efsignsgd");
  compared.signs("onebit");
  compared.halves("fp16");
  compared.halves("bf16");
  compared.added();
  compression::State state = {.density = 0.1};
  compared.decoding("top-k", compression::find_compressor("top-k")->encode(x, state));
}

}  // namespace support
