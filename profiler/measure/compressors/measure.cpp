#include "profiler/measure/compressors/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "collectives/compression/error_feedback.hpp"
#include "profiler/common/host.hpp"
#include "core/statistics.hpp"
#include "sim/draws.hpp"

namespace profiler {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Gradients of any size up to one, another for each call: windows into one vector, some elements further on.
class Gradients {
 public:
  Gradients(std::size_t max, std::uint64_t seed) : values_(max + kWindows * kStep) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const auto scale = static_cast<double>(1 + sim::hash(seed + 1, i / kLayer) % 10);
      values_[i] = static_cast<float>(sim::standard_normal(sim::hash(seed, i)) * scale * 1e-3);
    }
  }

  std::span<const float> next(std::size_t elements) {
    window_ = (window_ + 1) % kWindows;
    return {values_.data() + window_ * kStep, elements};
  }

 private:
  static constexpr std::size_t kLayer = 100'000;  // elements of one scale
  static constexpr std::size_t kStep = 64;        // as aligned as the first
  static constexpr std::size_t kWindows = 61;

  std::vector<float> values_;
  std::size_t window_ = 0;
};

/// One compressor on gradients of one size, call after call.
class Calls {
 public:
  Calls(const compression::Compressor& compressor, double density, std::uint64_t seed, std::size_t elements,
        Gradients& gradients)
      : compressor_(compressor), gradients_(gradients), elements_(elements), sum_(elements) {
    state_.density = density;
    state_.seed = seed;
  }

  void encode() {
    bytes_ = compression::encode(compressor_, gradients_.next(elements_), state_, feedback_);
    written_ += static_cast<double>(bytes_.size());
    ++encodings_;
  }
  void decode() { compressor_.add_decoded(bytes_, sum_); }

  double mean_bytes() const { return written_ / encodings_; }

 private:
  const compression::Compressor& compressor_;
  Gradients& gradients_;
  std::size_t elements_;
  compression::State state_;
  compression::ErrorFeedback feedback_;
  compression::Bytes bytes_;
  std::vector<float> sum_;
  double written_ = 0;
  double encodings_ = 0;
};

/// Calls in a sample, so that a sample is much longer than looking at the clock.
int calls_per_sample(double us_per_call) {
  constexpr double kMinUs = 50;
  constexpr double kMax = 64;
  return static_cast<int>(std::clamp(std::ceil(kMinUs / std::max(us_per_call, 1e-3)), 1.0, kMax));
}

template <typename Call>
core::CodeTime timed(int samples, Call call) {
  call();  // memory is touched for the first time, thresholds are found
  const auto begin = Clock::now();
  call();
  const int calls = calls_per_sample(us_since(begin));
  std::vector<double> each;
  each.reserve(static_cast<std::size_t>(samples));
  for (int sample = 0; sample < samples; ++sample) {
    const auto sample_begin = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    each.push_back(us_since(sample_begin) / calls);
  }
  const core::Statistics of_all = core::statistics(each);
  return {.us = of_all.median, .spread_us = of_all.spread};
}

core::CodePoint measured_point(const compression::Compressor& compressor, double density,
                               const CompressorOptions& options, std::int64_t elements,
                               Gradients& gradients) {
  Calls calls(compressor, density, options.seed, static_cast<std::size_t>(elements), gradients);
  core::CodePoint out = {.elements = elements};
  out.encode = timed(options.samples, [&] { calls.encode(); });
  out.decode = timed(options.samples, [&] { calls.decode(); });
  out.bytes = calls.mean_bytes();
  return out;
}

/// An encoding that chooses is empty where nothing is to be kept.
bool leaves_out(const compression::Compressor& compressor) {
  constexpr std::size_t kAny = 1024;
  return compressor.wire_bytes(kAny, 0).max == 0;
}

core::MeasuredCompressor measured(const compression::Compressor& compressor, const CompressorOptions& options,
                                  Gradients& gradients, const CompressorProgress& progress) {
  core::MeasuredCompressor out = {.name = std::string(compressor.name), .curves = {}};
  if (compressor.sums()) out.collective = core::CollectiveKind::all_reduce;
  const bool is_sparse = leaves_out(compressor);
  for (const double density : is_sparse ? options.densities : std::vector<double>{1}) {
    if (progress)
      progress(is_sparse ? fmt::format("{} at density {}", compressor.name, density)
                         : std::string(compressor.name));
    core::CodeCurve curve;
    if (is_sparse) curve.density = density;
    for (const std::int64_t elements : options.elements)
      curve.points.push_back(measured_point(compressor, density, options, elements, gradients));
    out.curves.push_back(std::move(curve));
  }
  return out;
}

}  // namespace

core::CompressorCosts measure_compressors(const CompressorOptions& options, const std::string& command,
                                          const CompressorProgress& progress) {
  core::CompressorCosts out = {
      .device = processor_name(),
      .command = command,
      .origin = {.kind = core::OriginKind::measured,
                 .source =
                     fmt::format("medians of {} samples on one thread, error feedback included, gradients "
                                 "normally distributed in layers of other scales",
                                 options.samples)},
      .compressors = {}};
  Gradients gradients(static_cast<std::size_t>(options.elements.back()), options.seed);
  for (const compression::Compressor& compressor : compression::compressors()) {
    const bool is_wanted =
        options.compressors.empty() || std::find(options.compressors.begin(), options.compressors.end(),
                                                 compressor.name) != options.compressors.end();
    if (is_wanted) out.compressors.push_back(measured(compressor, options, gradients, progress));
  }
  return out;
}

}  // namespace profiler
