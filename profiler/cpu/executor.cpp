#include "profiler/cpu/executor.hpp"

#include <algorithm>
#include <cmath>

#include "sim/draws.hpp"

namespace profiler {
namespace {

using models::LayerKind;
using models::TensorRef;

/// What made-up numbers are for, beside seed, layer and index.
enum class Drawn : std::uint64_t { input, weight, token, dropout };

double bytes_of(double elements) { return elements * static_cast<double>(sizeof(float)); }

KernelRoom room_of(const LayerWork& work, double batch, int threads) {
  const Kernel& found = kernel(work.layer->kind);
  return found.room != nullptr ? found.room(work, batch, threads) : KernelRoom{};
}

bool is_of_tokens(const models::Layer& layer) {
  const auto* input = std::get_if<models::Input>(&layer.parameters);
  return input != nullptr && input->element == models::Element::token;
}

/// Uniform with mean 0 and standard deviation `scale`, or around 1 for the factors of a norm.
void fill(std::span<float> values, std::uint64_t state, float scale, float mean) {
  constexpr unsigned kShift = 40;
  constexpr float kSteps = 16'777'216;  // 2^24
  const float width = 2 * 1.7320508F * scale;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto draw = static_cast<float>(sim::hash_on(state, i) >> kShift) / kSteps;
    values[i] = mean + width * (draw - 0.5F);
  }
}

void fill(std::span<std::int32_t> tokens, std::uint64_t state, std::int64_t values) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(sim::hash_on(state, i) % static_cast<std::uint64_t>(values));
}

bool is_norm(LayerKind kind) {
  return kind == LayerKind::batch_norm || kind == LayerKind::layer_norm || kind == LayerKind::rms_norm;
}

/// What each output of a matrix sums over decides the size of its elements, so that results stay near 1.
float scale_of(const models::Shape& shape) {
  if (shape.size() < 2) return 0.1F;
  std::int64_t inner = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) inner *= shape[i];
  return 1 / std::sqrt(static_cast<float>(inner));
}

std::size_t size(double count) { return static_cast<std::size_t>(count); }

}  // namespace

double cpu_bytes(const ModelWork& work, double batch, int threads) {
  double bytes = 0;
  double scratch = 0;
  for (const LayerWork& each : work.layers) {
    const models::Layer& layer = *each.layer;
    const double elements = batch * static_cast<double>(models::element_count(layer.output));
    if (layer.kind == LayerKind::input) bytes += bytes_of(elements);
    if (!each.runs()) continue;
    const KernelRoom room = room_of(each, batch, threads);
    bytes += bytes_of(2 * elements + room.kept);
    scratch = std::max(scratch, room.scratch);
    if (layer.kind == LayerKind::cross_entropy) bytes += bytes_of(room.scratch);  // labels
    for (const models::Tensor& tensor : layer.tensors)
      bytes += bytes_of(2 * static_cast<double>(tensor.elements));
  }
  return bytes + bytes_of(scratch);
}

CpuExecutor::CpuExecutor(const ModelWork& work, std::int64_t batch, int threads, const InstructionSet& set,
                         std::uint64_t seed)
    : work_(&work),
      batch_(batch),
      pool_(threads),
      product_(set.product),
      results_(work.layers.size()),
      gradients_(work.layers.size()),
      kept_(work.layers.size()),
      tokens_(work.layers.size()),
      weights_(work.layers.size()),
      weight_gradients_(work.layers.size()),
      passes_(work.layers.size()) {
  double scratch = 0;
  for (std::size_t i = 0; i < work.layers.size(); ++i) {
    allocate(i, seed);
    if (work.layers[i].runs())
      scratch = std::max(scratch, room_of(work.layers[i], static_cast<double>(batch), threads).scratch);
  }
  scratch_.resize(size(scratch));
  for (std::size_t i = 0; i < work.layers.size(); ++i) {
    if (!work.layers[i].runs()) continue;
    connect(i, seed);
    const Kernel& found = kernel(work.layers[i].layer->kind);
    if (found.prepare != nullptr) found.prepare(passes_[i]);
  }
}

void CpuExecutor::allocate(std::size_t index, std::uint64_t seed) {
  const LayerWork& work = work_->layers[index];
  const models::Layer& layer = *work.layer;
  const auto elements = static_cast<std::size_t>(batch_ * models::element_count(layer.output));
  const auto state = [&](Drawn what) { return sim::hash(seed, index, static_cast<std::uint64_t>(what)); };
  if (is_of_tokens(layer)) {
    tokens_[index].resize(elements);
    fill(tokens_[index], state(Drawn::token), std::get<models::Input>(layer.parameters).vocabulary);
    return;
  }
  if (layer.kind == LayerKind::input) {
    results_[index].resize(elements);
    fill(results_[index], state(Drawn::input), 1, 0);
    return;
  }
  if (!work.runs()) return;
  const KernelRoom room = room_of(work, static_cast<double>(batch_), pool_.threads());
  results_[index].resize(elements);
  gradients_[index].resize(elements);
  kept_[index].resize(size(room.kept));
  if (layer.kind == LayerKind::cross_entropy) {
    tokens_[index].resize(size(room.scratch));
    fill(tokens_[index], state(Drawn::token), work.inputs[0].shape.back());
  }
  // the mean over samples of what each ends with
  if (work.is_end)
    std::fill(gradients_[index].begin(), gradients_[index].end(), 1 / static_cast<float>(batch_));
  for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
    weights_[index].emplace_back(static_cast<std::size_t>(layer.tensors[i].elements));
    weight_gradients_[index].emplace_back(static_cast<std::size_t>(layer.tensors[i].elements));
    const float mean = is_norm(layer.kind) && i == 0 ? 1 : 0;
    fill(weights_[index].back(), sim::hash_on(state(Drawn::weight), i), scale_of(layer.tensors[i].shape),
         mean);
  }
}

void CpuExecutor::connect(std::size_t index, std::uint64_t seed) {
  const LayerWork& work = work_->layers[index];
  Pass& pass = passes_[index];
  pass.work = &work;
  pass.batch = batch_;
  pass.pool = &pool_;
  pass.product = product_;
  pass.seed = sim::hash(seed, index, static_cast<std::uint64_t>(Drawn::dropout));
  pass.output = results_[index].data();
  pass.kept = kept_[index].data();
  pass.scratch = scratch_.data();
  pass.output_gradient = gradients_[index].data();
  for (const InputWork& input : work.inputs) {
    pass.inputs.push_back(results_[input.source].data());
    pass.input_gradients.push_back({.data = input.wants_gradient ? gradients_[input.source].data() : nullptr,
                                    .add = input.adds_gradient});
  }
  const std::size_t tokens = tokens_[index].empty() ? work.inputs[0].source : index;
  pass.tokens = tokens_[tokens].data();
  for (const WeightWork& weight : work.weights) {
    const auto [layer, tensor] = weight.tensor;
    pass.weights.push_back(weights_[layer][tensor].data());
    pass.weight_gradients.push_back(
        {.data = weight_gradients_[layer][tensor].data(), .add = weight.adds_gradient});
  }
}

void CpuExecutor::forward(std::size_t layer) {
  if (work_->layers[layer].runs()) kernel(work_->layers[layer].layer->kind).forward(passes_[layer]);
}

void CpuExecutor::backward(std::size_t layer) {
  const LayerWork& work = work_->layers[layer];
  if (!work.runs()) return;
  for (const std::size_t source : work.zero_first)
    std::fill(gradients_[source].begin(), gradients_[source].end(), 0.0F);
  kernel(work.layer->kind).backward(passes_[layer]);
}

double CpuExecutor::loss() const {
  double sum = 0;
  for (const LayerWork& work : work_->layers)
    if (work.runs() && work.is_end)
      for (const float value : results_[work.index]) sum += static_cast<double>(value);
  return sum / static_cast<double>(batch_);
}

}  // namespace profiler
