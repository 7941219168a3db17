#include "bench/cuda/costs.hpp"

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "bench/cuda/timing.hpp"

namespace bench {
namespace {

namespace cuda = compression::cuda;

constexpr std::size_t kGradients = 3;  // to rotate among

/// Gradients of the largest size; smaller ones use the first elements.
class Gradients {
 public:
  Gradients(cuda::Device& device, std::size_t max) {
    for (std::size_t i = 0; i < kGradients; ++i)
      buffers_.emplace_back(device, std::span<const float>(gradient_like(max, i + 1)));
  }
  cuda::DeviceFloats next(std::size_t elements) {
    return {.data = buffers_[++calls_ % kGradients].floats(), .count = elements};
  }

 private:
  std::vector<cuda::Buffer> buffers_;
  std::size_t calls_ = 0;
};

core::CodeTime us_of(const Timing& timing) {
  constexpr double kUsPerMs = 1e3;
  return {.us = timing.median_ms * kUsPerMs, .spread_us = timing.quartile_range_ms * kUsPerMs};
}

/// Runs one compressor on gradients of one size, call after call.
class Calls {
 public:
  Calls(cuda::Device& device, const compression::Compressor& compressor, std::optional<double> density,
        std::size_t elements, Gradients& gradients)
      : device_(device),
        name_(compressor.name),
        is_sparse_(density.has_value()),
        gradients_(gradients),
        residual_(device, std::vector<float>(elements)),
        sum_(device, std::vector<float>(elements)),
        elements_(elements) {
    state_.density = density.value_or(1);
  }

  void encode() {
    const cuda::DeviceFloats left = {.data = residual_.floats(), .count = elements_};
    cuda::add(device_, gradients_.next(elements_), residual_.floats());
    if (is_sparse_) {
      kept_ = cuda::select(device_, name_, left, state_);
      device_.engine().add_kept(kept_, residual_.floats(), true);
      constexpr double kBytesPerKept = 8;
      written_ += kBytesPerKept * static_cast<double>(kept_.count);
    } else {
      bytes_ = encoded(left);
      cuda::subtract_decoded(device_, name_, bytes_, residual_.floats(), elements_);
      written_ += static_cast<double>(bytes_.count);
    }
    ++encodings_;
  }
  void decode() {
    if (is_sparse_)
      device_.engine().add_kept(kept_, sum_.floats(), false);
    else
      cuda::add_decoded(device_, name_, bytes_, sum_.floats(), elements_);
  }
  double mean_bytes() const { return written_ / encodings_; }

 private:
  cuda::DeviceBytes encoded(cuda::DeviceFloats x) {
    if (name_ == "efsignsgd") return cuda::efsignsgd(device_, x);
    if (name_ == "onebit") return cuda::onebit(device_, x);
    return cuda::halves(device_, x, name_ == "fp16" ? cuda::Half::float16 : cuda::Half::bfloat16);
  }

  cuda::Device& device_;
  std::string name_;
  bool is_sparse_;
  Gradients& gradients_;
  cuda::Buffer residual_;
  cuda::Buffer sum_;
  std::size_t elements_;
  compression::State state_;
  cuda::DeviceKept kept_;
  cuda::DeviceBytes bytes_;
  double written_ = 0;
  double encodings_ = 0;
};

/// Returns whether an encoding of zero kept elements is empty.
bool leaves_out(const compression::Compressor& compressor) {
  constexpr std::size_t kAny = 1024;
  return compressor.wire_bytes(kAny, 0).max == 0;
}

core::CodeCurve curve_of(cuda::Device& device, const compression::Compressor& compressor,
                         std::optional<double> density, const CostOptions& options, Gradients& gradients) {
  core::CodeCurve out = {.density = density, .points = {}};
  for (const std::int64_t elements : options.elements) {
    Calls calls(device, compressor, density, static_cast<std::size_t>(elements), gradients);
    core::CodePoint point = {.elements = elements};
    point.encode = us_of(time(
        device, [&](std::size_t) { calls.encode(); }, options.repetitions));
    point.decode = us_of(time(
        device, [&](std::size_t) { calls.decode(); }, options.repetitions));
    point.bytes = calls.mean_bytes();
    out.points.push_back(point);
  }
  return out;
}

}  // namespace

core::CompressorCosts costs_on(cuda::Device& device, const CostOptions& options, const std::string& command) {
  core::CompressorCosts out = {
      .device = device.info().name,
      .command = command,
      .origin = {.kind = core::OriginKind::measured,
                 .source = fmt::format(
                     "medians of {} calls between two CUDA events, the host's part and error feedback "
                     "included, gradients in device memory, normally distributed in layers of other scales",
                     options.repetitions)},
      .compressors = {}};
  Gradients gradients(device, static_cast<std::size_t>(options.elements.back()));
  for (const compression::Compressor& compressor : compression::compressors()) {
    core::MeasuredCompressor measured = {.name = std::string(compressor.name), .curves = {}};
    if (compressor.sums()) measured.collective = core::CollectiveKind::all_reduce;
    if (leaves_out(compressor))
      for (const double density : options.densities)
        measured.curves.push_back(curve_of(device, compressor, density, options, gradients));
    else
      measured.curves.push_back(curve_of(device, compressor, std::nullopt, options, gradients));
    out.compressors.push_back(std::move(measured));
  }
  return out;
}

}  // namespace bench
