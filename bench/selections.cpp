// Benchmarks the selection of the elements of largest magnitude against the standard library's; and
// compressors.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "bench/benches.hpp"
#include "bench/measure.hpp"
#include "collectives/compression/error_feedback.hpp"
#include "collectives/compression/selectors.hpp"
#include "sim/draws.hpp"

namespace bench {
namespace {

using compression::SparseVector;

constexpr std::size_t kElements = std::size_t{1} << 24U;
constexpr std::size_t kKept = kElements / 1000;
constexpr int kRepetitions = 5;

/// Layers of a million elements with different scales, as in a model.
std::vector<float> gradient_like() {
  std::vector<float> out(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    const auto scale = static_cast<double>(1 + sim::hash(2, i >> 20U) % 10);
    out[i] = static_cast<float>(sim::standard_normal(sim::hash(1, i)) * scale * 1e-3);
  }
  return out;
}

/// The k-th largest by std::nth_element on a copy of the bits, which is faster than on indexes.
SparseVector by_nth_element(const std::vector<float>& x) {
  std::vector<std::uint32_t> bits(x.size());
  std::ranges::transform(x, bits.begin(), compression::magnitude);
  std::nth_element(bits.begin(), bits.begin() + kKept - 1, bits.end(), std::greater<>());
  return compression::at_least(x, std::bit_cast<float>(bits[kKept - 1]));
}

/// Prints the time beside that of the standard library.
void compare(const std::string& name, double plain_ms, const std::function<SparseVector()>& select) {
  SparseVector kept;
  const Measurement result = measure(kRepetitions, [&] { kept = select(); });
  report(fmt::format("{}: {} of {} elements", name, kept.indexes.size(), kElements), result);
  const double ratio = result.ms / plain_ms;
  fmt::print("{:<80} {:>10.3f} x nth_element  bound 1{}\n", name, ratio, ratio > 1 ? ", OVER" : "");
}

/// With error feedback. All allocations, and the gradient, must stay within three gradients.
void encode_and_decode(const compression::Compressor& compressor, std::vector<float>& x) {
  constexpr double kGradientMb = kElements * sizeof(float) / 1e6;
  compression::Bytes bytes;
  const Measurement encoding = measure(1, [&] {
    compression::State state = {.density = 0.001};
    compression::ErrorFeedback feedback;
    for (int i = 0; i < 2; ++i) {
      bytes = compression::Bytes();
      bytes = compression::encode(compressor, x, state, feedback);
    }
  });
  report(fmt::format("{}: two encodings of {} elements with error feedback", compressor.name, kElements),
         encoding, {.mb = 2 * kGradientMb});
  const Measurement decoding = measure(kRepetitions, [&] { compressor.add_decoded(bytes, x); });
  report(fmt::format("{}: decoding", compressor.name), decoding);
}

}  // namespace

void selections() {
  std::vector<float> x = gradient_like();
  SparseVector kept;
  const Measurement plain = measure(kRepetitions, [&] { kept = by_nth_element(x); });
  report(fmt::format("std::nth_element: {} of {} elements", kept.indexes.size(), kElements), plain);
  compare("top-k", plain.ms, [&] { return compression::top_k(x, kKept); });
  compare("mstopk", plain.ms, [&] { return compression::mstopk(x, kKept, 1); });
  for (const compression::Compressor& each : compression::compressors()) encode_and_decode(each, x);
}

}  // namespace bench
