// Compressors on a GPU, with gradients and sums in its memory. The host's part of a call is included.

#include "profiler/measure/compressors/cuda.hpp"

#include <utility>

#include "core/statistics.hpp"
#include "profiler/measure/compressors/gradients.hpp"
#include "profiler/measure/compressors/measure.hpp"

namespace profiler {
namespace {

namespace cuda = compression::cuda;

class CudaCalls : public CompressorCalls {
 public:
  CudaCalls(cuda::Device& device, std::string_view name, const compression::State& state,
            std::size_t elements, const cuda::Buffer& values, Gradients& gradients)
      : device_(device),
        name_(name),
        is_sparse_(cuda::is_sparse(name)),
        state_(state),
        elements_(elements),
        values_(values),
        gradients_(gradients),
        residual_(device, std::vector<float>(elements)),
        sum_(device, std::vector<float>(elements)) {}

  double encode() override {
    const cuda::DeviceFloats residual = {.data = residual_.floats(), .count = elements_};
    cuda::add(device_, {.data = values_.floats() + gradients_.next_window(), .count = elements_},
              residual_.floats());
    if (is_sparse_) {
      kept_ = cuda::select(device_, name_, residual, state_);
      device_.engine().add_kept(kept_, residual_.floats(), true);
      constexpr double kBytesPerKept = 8;
      return kBytesPerKept * static_cast<double>(kept_.count);
    }
    bytes_ = cuda::encode_dense(device_, name_, residual);
    cuda::subtract_decoded(device_, name_, bytes_, residual_.floats(), elements_);
    return static_cast<double>(bytes_.count);
  }
  void decode() override {
    if (is_sparse_)
      device_.engine().add_kept(kept_, sum_.floats(), false);
    else
      cuda::add_decoded(device_, name_, bytes_, sum_.floats(), elements_);
  }

 private:
  cuda::Device& device_;
  std::string_view name_;
  bool is_sparse_;
  compression::State state_;
  std::size_t elements_;
  const cuda::Buffer& values_;
  Gradients& gradients_;
  cuda::Buffer residual_;
  cuda::Buffer sum_;
  cuda::DeviceKept kept_;
  cuda::DeviceBytes bytes_;
};

class Cuda : public CompressorDevice {
 public:
  Cuda(cuda::Device device, std::size_t max, std::uint64_t seed)
      : device_(std::move(device)), gradients_(max, seed), values_(device_, gradients_.values()) {}

  std::string name() const override { return device_.info().name; }
  std::unique_ptr<CompressorCalls> calls(const compression::Compressor& compressor,
                                         const compression::State& state, std::size_t elements) override {
    return std::make_unique<CudaCalls>(device_, compressor.name, state, elements, values_, gradients_);
  }
  core::CodeTime timed(int samples, const std::function<void()>& call) override {
    constexpr int kWarmUps = 3;
    constexpr double kUsPerMs = 1e3;
    for (int i = 0; i < kWarmUps; ++i) call();
    std::vector<double> us;
    for (int i = 0; i < samples; ++i) us.push_back(device_.engine().timed_ms(call) * kUsPerMs);
    const core::Statistics of_all = core::statistics(us);
    return {.us = of_all.median, .spread_us = of_all.spread};
  }

 private:
  cuda::Device device_;
  Gradients gradients_;
  cuda::Buffer values_;
};

}  // namespace

std::unique_ptr<CompressorDevice> cuda_compressor_device(cuda::Device device, std::size_t max,
                                                         std::uint64_t seed) {
  return std::make_unique<Cuda>(std::move(device), max, seed);
}

CompressorBackend cuda_compressors() {
  return {.name = "cuda",
          .sample = "calls between two CUDA events, the host's part included, in device memory",
          .compressors = cuda::compressor_names,
          .open = [](std::size_t max, std::uint64_t seed) {
            return cuda_compressor_device(cuda::Device(), max, seed);
          }};
}

}  // namespace profiler
