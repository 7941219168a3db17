#include "profiler/layers/cpu/executor.hpp"

#include <algorithm>

#include "profiler/layers/made_up.hpp"

namespace profiler {
namespace {

using core::LayerKind;
using core::TensorRef;

double bytes_of(double elements) { return elements * static_cast<double>(sizeof(float)); }

KernelRoom room_of(const LayerWork& work, double batch, int threads) {
  const Kernel& found = kernel(work.layer->kind);
  return found.room != nullptr ? found.room(work, batch, threads) : KernelRoom{};
}

std::size_t size(double count) { return static_cast<std::size_t>(count); }

}  // namespace

double cpu_bytes(const ModelWork& work, double batch, int threads) {
  double bytes = 0;
  double scratch = 0;
  for (const LayerWork& each : work.layers) {
    const core::Layer& layer = *each.layer;
    const double elements = batch * static_cast<double>(core::element_count(layer.output));
    if (layer.kind == LayerKind::input) bytes += bytes_of(elements);
    if (!each.runs()) continue;
    const KernelRoom room = room_of(each, batch, threads);
    bytes += bytes_of(2 * elements + room.kept);
    scratch = std::max(scratch, room.scratch);
    if (has_labels(layer)) bytes += bytes_of(room.scratch);  // labels
    for (const core::Tensor& tensor : layer.tensors)
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
  const core::Layer& layer = *work.layer;
  const auto elements = static_cast<std::size_t>(batch_ * core::element_count(layer.output));
  if (is_of_tokens(layer)) {
    tokens_[index].resize(elements);
    fill_tokens(tokens_[index], seed, work);
    return;
  }
  if (layer.kind == LayerKind::input) {
    results_[index].resize(elements);
    fill_input(results_[index], seed, index);
    return;
  }
  if (!work.runs()) return;
  const KernelRoom room = room_of(work, static_cast<double>(batch_), pool_.threads());
  results_[index].resize(elements);
  gradients_[index].resize(elements);
  kept_[index].resize(size(room.kept));
  if (has_labels(layer)) {
    tokens_[index].resize(size(room.scratch));
    fill_tokens(tokens_[index], seed, work);
  }
  // The mean over samples of the outputs of all final layers.
  if (work.is_end) std::ranges::fill(gradients_[index], 1 / static_cast<float>(batch_));
  for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
    weights_[index].emplace_back(static_cast<std::size_t>(layer.tensors[i].elements));
    weight_gradients_[index].emplace_back(static_cast<std::size_t>(layer.tensors[i].elements));
    fill_weight(weights_[index].back(), seed, layer, index, i);
  }
}

void CpuExecutor::connect(std::size_t index, std::uint64_t seed) {
  const LayerWork& work = work_->layers[index];
  Pass& pass = passes_[index];
  pass.work = &work;
  pass.batch = batch_;
  pass.pool = &pool_;
  pass.product = product_;
  pass.seed = dropout_seed(seed, index);
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
  for (const std::size_t source : work.zero_first) std::ranges::fill(gradients_[source], 0.0F);
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
