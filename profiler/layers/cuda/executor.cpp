#include "profiler/layers/cuda/executor.hpp"

#include <algorithm>

#include "collectives/compression/half.hpp"
#include "profiler/layers/made_up.hpp"

namespace profiler::cuda {
namespace {

/// Approximate size of what the driver and the libraries load themselves.
constexpr double kLoadedBytes = 0x1p29;

std::size_t bytes_of(Type type) { return type == Type::float32 ? 4 : 2; }

std::uint16_t narrowed(float value, Type type) {
  return type == Type::float16 ? compression::to_float16(value) : compression::to_bfloat16(value);
}

float widened(std::uint16_t bits, Type type) {
  return type == Type::float16 ? compression::from_float16(bits) : compression::from_bfloat16(bits);
}

std::int64_t label_count(const LayerWork& work, std::int64_t batch) {
  const core::Shape& in = work.inputs[0].shape;
  return batch * (core::element_count(in) / in.back());
}

}  // namespace

double device_bytes(const ModelWork& work, double batch, const Arithmetic& arithmetic) {
  const auto element = static_cast<double>(arithmetic.bytes());
  constexpr auto kToken = static_cast<double>(sizeof(std::int32_t));
  double bytes = static_cast<double>(kWorkspaceBytes) + kLoadedBytes;
  double scratch = 0;
  for (const LayerWork& each : work.layers) {
    const core::Layer& layer = *each.layer;
    const double elements = batch * static_cast<double>(core::element_count(layer.output));
    if (layer.kind == core::LayerKind::input) bytes += elements * (is_of_tokens(layer) ? kToken : element);
    if (!each.runs()) continue;
    const Room room = room_of(each, batch, arithmetic);
    bytes += 2 * elements * element + room.kept + room.own;
    scratch = std::max(scratch, room.scratch);
    if (has_labels(layer)) bytes += kToken * static_cast<double>(label_count(each, 1)) * batch;
    const double of_weight = has_float32_weights(layer.kind) ? 4 : element;
    for (const core::Tensor& tensor : layer.tensors)
      bytes += 2 * of_weight * static_cast<double>(tensor.elements);
  }
  return bytes + scratch;
}

Executor::Executor(Device& device, const ModelWork& work, std::int64_t batch,
                   std::optional<std::uint64_t> seed)
    : device_(&device),
      work_(&work),
      batch_(batch),
      results_(work.layers.size()),
      gradients_(work.layers.size()),
      kept_(work.layers.size()),
      tokens_(work.layers.size()),
      weights_(work.layers.size()),
      weight_gradients_(work.layers.size()),
      passes_(work.layers.size()),
      operations_(work.layers.size()) {
  double scratch = 0;
  for (std::size_t i = 0; i < work.layers.size(); ++i) {
    device.now_at(work.layers[i].layer->name);
    allocate(i, seed);
    if (work.layers[i].runs())
      scratch =
          std::max(scratch, room_of(work.layers[i], static_cast<double>(batch), device.arithmetic()).scratch);
  }
  scratch_ = Memory(device.runtime(), static_cast<std::size_t>(scratch));
  for (std::size_t i = 0; i < work.layers.size(); ++i) {
    if (!work.layers[i].runs()) continue;
    device.now_at(work.layers[i].layer->name);
    connect(i, seed.value_or(0));
    operations_[i] = kind_of(work.layers[i].layer->kind).make(passes_[i]);
    operations_[i]->prepare();
  }
  // The searches for algorithms have overwritten the initial gradients.
  for (const LayerWork& each : work.layers)
    if (each.runs() && each.is_end)
      device.kernels().fill(device.arithmetic().type, gradients_[each.index].memory.data(),
                            loss_scale() / static_cast<float>(batch),
                            static_cast<std::int64_t>(gradients_[each.index].count));
  device.now_at("");
  device.runtime().synchronize();
}

Executor::Numbers Executor::numbers(double count, Type type) {
  const auto elements = static_cast<std::size_t>(count);
  return {.memory = Memory(device_->runtime(), elements * bytes_of(type)), .type = type, .count = elements};
}

std::vector<float> Executor::read(const Numbers& from) {
  std::vector<float> out(from.count);
  if (from.type == Type::float32) {
    device_->runtime().download(out.data(), from.memory.data(), out.size() * sizeof(float));
    return out;
  }
  std::vector<std::uint16_t> bits(from.count);
  device_->runtime().download(bits.data(), from.memory.data(), bits.size() * sizeof(std::uint16_t));
  std::transform(bits.begin(), bits.end(), out.begin(),
                 [&](std::uint16_t half) { return widened(half, from.type); });
  return out;
}

void Executor::write(const Numbers& to, std::span<const float> values) {
  if (to.type == Type::float32) {
    device_->runtime().upload(to.memory.data(), values.data(), values.size_bytes());
    return;
  }
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 [&](float value) { return narrowed(value, to.type); });
  device_->runtime().upload(to.memory.data(), bits.data(), bits.size() * sizeof(std::uint16_t));
}

void Executor::allocate_tokens(std::size_t index, std::size_t count, std::optional<std::uint64_t> seed) {
  tokens_[index] = Memory(device_->runtime(), count * sizeof(std::int32_t));
  if (!seed) return;
  std::vector<std::int32_t> tokens(count);
  fill_tokens(tokens, *seed, work_->layers[index]);
  device_->runtime().upload(tokens_[index].data(), tokens.data(), count * sizeof(std::int32_t));
}

void Executor::allocate(std::size_t index, std::optional<std::uint64_t> seed) {
  const LayerWork& work = work_->layers[index];
  const core::Layer& layer = *work.layer;
  const Type type = device_->arithmetic().type;
  const double elements =
      static_cast<double>(batch_) * static_cast<double>(core::element_count(layer.output));
  if (is_of_tokens(layer)) return allocate_tokens(index, static_cast<std::size_t>(elements), seed);
  if (layer.kind == core::LayerKind::input) {
    results_[index] = numbers(elements, type);
    if (!seed) return;
    std::vector<float> values(results_[index].count);
    fill_input(values, *seed, index);
    write(results_[index], values);
    return;
  }
  if (!work.runs()) return;
  results_[index] = numbers(elements, type);
  gradients_[index] = numbers(elements, type);
  kept_[index] = Memory(
      device_->runtime(),
      static_cast<std::size_t>(room_of(work, static_cast<double>(batch_), device_->arithmetic()).kept));
  if (has_labels(layer)) allocate_tokens(index, static_cast<std::size_t>(label_count(work, batch_)), seed);
  const Type of_weights = has_float32_weights(layer.kind) ? Type::float32 : type;
  for (std::size_t i = 0; i < layer.tensors.size(); ++i) {
    const auto count = static_cast<double>(layer.tensors[i].elements);
    weights_[index].push_back(numbers(count, of_weights));
    weight_gradients_[index].push_back(numbers(count, of_weights));
    if (!seed) continue;
    std::vector<float> values(weights_[index].back().count);
    fill_weight(values, *seed, layer, index, i);
    write(weights_[index].back(), values);
  }
}

void Executor::connect(std::size_t index, std::uint64_t seed) {
  const LayerWork& work = work_->layers[index];
  Pass& pass = passes_[index];
  pass.device = device_;
  pass.work = &work;
  pass.batch = batch_;
  pass.seed = dropout_seed(seed, index);
  pass.output = results_[index].memory.data();
  pass.kept = kept_[index].data();
  pass.scratch = scratch_.data();
  pass.output_gradient = gradients_[index].memory.data();
  for (const InputWork& input : work.inputs) {
    pass.inputs.push_back(results_[input.source].memory.data());
    pass.input_gradients.push_back(
        {.data = input.wants_gradient ? gradients_[input.source].memory.data() : nullptr,
         .add = input.adds_gradient});
  }
  const std::size_t tokens = has_labels(*work.layer) ? index : work.inputs[0].source;
  pass.tokens = static_cast<const std::int32_t*>(tokens_[tokens].data());
  for (const WeightWork& weight : work.weights) {
    const auto [layer, tensor] = weight.tensor;
    pass.weights.push_back(weights_[layer][tensor].memory.data());
    pass.weight_gradients.push_back(
        {.data = weight_gradients_[layer][tensor].memory.data(), .add = weight.adds_gradient});
  }
}

void Executor::forward(std::size_t layer) {
  if (operations_[layer] == nullptr) return;
  device_->now_at(work_->layers[layer].layer->name);
  operations_[layer]->forward();
}

void Executor::backward(std::size_t layer) {
  if (operations_[layer] == nullptr) return;
  device_->now_at(work_->layers[layer].layer->name);
  for (const std::size_t source : work_->layers[layer].zero_first) {
    const Numbers& gradient = gradients_[source];
    device_->runtime().zero(gradient.memory.data(), gradient.memory.bytes());
  }
  operations_[layer]->backward();
}

void Executor::give_weight_gradients(std::size_t layer) {
  if (operations_[layer] != nullptr) operations_[layer]->give_weight_gradients();
}

}  // namespace profiler::cuda
