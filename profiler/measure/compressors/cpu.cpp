// Compressors on one thread of the CPU.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "collectives/compression/error_feedback.hpp"
#include "core/statistics.hpp"
#include "profiler/common/host.hpp"
#include "profiler/measure/compressors/gradients.hpp"
#include "profiler/measure/compressors/measure.hpp"

namespace profiler {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

class CpuCalls : public CompressorCalls {
 public:
  CpuCalls(const compression::Compressor& compressor, const compression::State& state, std::size_t elements,
           Gradients& gradients)
      : compressor_(compressor), gradients_(gradients), state_(state), sum_(elements) {}

  double encode() override {
    const auto gradient = gradients_.values().subspan(gradients_.next_window(), sum_.size());
    bytes_ = compression::encode(compressor_, gradient, state_, feedback_);
    return static_cast<double>(bytes_.size());
  }
  void decode() override { compressor_.add_decoded(bytes_, sum_); }

 private:
  const compression::Compressor& compressor_;
  Gradients& gradients_;
  compression::State state_;
  compression::ErrorFeedback feedback_;
  compression::Bytes bytes_;
  std::vector<float> sum_;
};

/// The number of calls in a sample, so that a sample takes much longer than reading the clock.
int calls_per_sample(double us_per_call) {
  constexpr double kMinUs = 50;
  constexpr double kMax = 64;
  return static_cast<int>(std::clamp(std::ceil(kMinUs / std::max(us_per_call, 1e-3)), 1.0, kMax));
}

class Cpu : public CompressorDevice {
 public:
  Cpu(std::size_t max, std::uint64_t seed) : gradients_(max, seed) {}

  std::string name() const override { return processor_name(); }
  std::unique_ptr<CompressorCalls> calls(const compression::Compressor& compressor,
                                         const compression::State& state, std::size_t elements) override {
    return std::make_unique<CpuCalls>(compressor, state, elements, gradients_);
  }
  core::CodeTime timed(int samples, const std::function<void()>& call) override {
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

 private:
  Gradients gradients_;
};

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> out;
  for (const compression::Compressor& compressor : compression::compressors()) out.push_back(compressor.name);
  return out;
}

}  // namespace

CompressorBackend cpu_compressors() {
  return {.name = "cpu",
          .sample = "samples on one thread",
          .compressors = all_names,
          .open = [](std::size_t max, std::uint64_t seed) -> std::unique_ptr<CompressorDevice> {
            return std::make_unique<Cpu>(max, seed);
          }};
}

}  // namespace profiler
