#include "profiler/layers/cuda/verify.hpp"

#include <algorithm>
#include <cmath>

#include "collectives/compression/half.hpp"
#include "profiler/layers/cpu/executor.hpp"

namespace profiler::cuda {
namespace {

double length(std::span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

/// `min` replaces the norm of the CPU's values if that is smaller: sums that cancel out have no significant
/// digits left.
double difference(std::span<const float> got, std::span<const float> expected, float scale, double min) {
  double squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double off =
        static_cast<double>(got[i]) / static_cast<double>(scale) - static_cast<double>(expected[i]);
    squares += off * off;
  }
  const double size = std::max(length(expected), min);
  return squares == 0 ? 0 : std::sqrt(squares) / size;  // NaN stays NaN, which counts as a difference
}

class Comparison {
 public:
  Comparison(Device& device, const ModelWork& work, std::int64_t batch, int threads)
      : work_(work),
        type_(device.arithmetic().type),
        cpu_(work, batch, threads, instruction_sets().front()),
        gpu_(device, work, batch) {
    for (const LayerWork& layer : work.layers) {
      if (!layer.runs()) round(cpu_.result(layer.index));
      if (!has_float32_weights(layer.layer->kind))
        for (std::size_t i = 0; i < layer.layer->tensors.size(); ++i) round(cpu_.weight({layer.index, i}));
    }
  }

  double forward(std::size_t layer) {
    cpu_.forward(layer);
    gpu_.forward(layer);
    const double out = difference(gpu_.result(layer), cpu_.result(layer), 1, 0);
    round(cpu_.result(layer));
    gpu_.set_result(layer, cpu_.result(layer));
    return out;
  }

  double backward(const LayerWork& work) {
    give_gradients(work.index);
    for (const InputWork& input : work.inputs)
      if (input.wants_gradient) give_gradients(input.source);
    for (const WeightWork& weight : work.weights) {
      if (!has_float32_weights(work.layer->kind)) round(cpu_.weight_gradient(weight.tensor), scale());
      gpu_.set_weight_gradient(weight.tensor, scaled(cpu_.weight_gradient(weight.tensor)));
    }
    cpu_.backward(work.index);
    gpu_.backward(work.index);
    gpu_.give_weight_gradients(work.index);
    constexpr double kMinPart = 1e-2;
    const double min = kMinPart * length(cpu_.result_gradient(work.index));
    double out = 0;
    const auto consider = [&](double value) { out = std::isnan(value) || value > out ? value : out; };
    for (const InputWork& input : work.inputs)
      if (input.wants_gradient)
        consider(
            difference(gpu_.result_gradient(input.source), cpu_.result_gradient(input.source), scale(), min));
    for (const WeightWork& weight : work.weights)
      consider(
          difference(gpu_.weight_gradient(weight.tensor), cpu_.weight_gradient(weight.tensor), scale(), min));
    return out;
  }

 private:
  float scale() const { return gpu_.loss_scale(); }
  /// Rounds to what the device can represent, so that both sides read the same: a sum that is 0 except for
  /// rounding, like the gradient of a bias before a batch norm, then has the same rounding. `scale` is a
  /// power of 2.
  void round(std::span<float> values, float scale = 1) const {
    if (type_ == Type::float32) return;
    for (float& value : values) {
      const float whole = value * scale;
      value = (type_ == Type::float16 ? compression::from_float16(compression::to_float16(whole))
                                      : compression::from_bfloat16(compression::to_bfloat16(whole))) /
              scale;
    }
  }
  std::vector<float> scaled(std::span<const float> values) const {
    std::vector<float> out(values.begin(), values.end());
    for (float& value : out) value *= gpu_.loss_scale();
    return out;
  }
  void give_gradients(std::size_t layer) {
    round(cpu_.result_gradient(layer), scale());
    gpu_.set_result_gradient(layer, scaled(cpu_.result_gradient(layer)));
  }

  const ModelWork& work_;
  Type type_;
  CpuExecutor cpu_;
  Executor gpu_;
};

}  // namespace

std::vector<LayerDifference> compare_with_cpu(Device& device, const ModelWork& work, std::int64_t batch,
                                              int threads) {
  Comparison comparison(device, work, batch, threads);
  std::vector<LayerDifference> out;
  for (const LayerWork& layer : work.layers)
    if (layer.runs()) out.push_back({layer.layer->name, comparison.forward(layer.index), 0});
  auto of = out.rbegin();
  for (auto layer = work.layers.rbegin(); layer != work.layers.rend(); ++layer)
    if (layer->runs()) (of++)->backward = comparison.backward(*layer);
  return out;
}

double tolerance(const Arithmetic& arithmetic) {
  switch (arithmetic.type) {
    case Type::float32: return arithmetic.tf32 ? 5e-3 : 1e-4;
    case Type::float16: return 1e-2;
    case Type::bfloat16: break;
  }
  return 5e-2;
}

}  // namespace profiler::cuda
