#include "core/estimate/layer_times.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

namespace core {
namespace {

/// Libraries need rows of a multiple of 16 bytes for their usual kernels on tensor cores. cuBLASLt reached 22
/// and 12 % of an H200's peak with vocabularies of 30,522 and 50,257 elements of two bytes.
constexpr double kAlignedBytes = 16;
constexpr double kHalfAlignedBytes = 4;
constexpr double kHalfAligned = 0.22 / kShareOfTensorCorePeak;
constexpr double kUnaligned = 0.12 / kShareOfTensorCorePeak;
/// Operands that lie across the sum that they are multiplied in have to be transposed on the way to tensor
/// cores: those of the gradients of weights, but for matrices of two bytes, which tensor cores read either
/// way.
constexpr double kTransposedOperands = 0.5;
/// Winograd's F(2 x 2, 3 x 3) multiplies that much less.
constexpr double kWinograd = 2.25;
constexpr double kFewestChannelsOfWinograd = 16;
/// Convolutions on float32 lanes read both operands of a multiply-add from shared memory, at 2 bytes a lane
/// and clock.
constexpr double kSharedBytesOfConvolution = 2;
/// Images whose planes have a multiple of so many pixels are multiplied by 1 x 1 kernels as they lie.
constexpr double kAlignedPlane = 16;
/// Sorting positions by expert, three grouped products, the gated product, and the weighted sum.
constexpr double kExpertLaunches = 6;
/// Products of fused attention's backward pass, of which one computes the scores again, by those of its
/// forward pass.
constexpr double kFusedBackward = 2.5;

double count(const Shape& shape) { return static_cast<double>(element_count(shape)); }

bool is_multiple(double value, double of) { return std::fmod(value, of) == 0; }

/// The element counts of a layer, for the whole batch.
struct Sizes {
  double batch = 0;
  double inputs = 0;
  double output = 0;
  double weights = 0;  ///< including shared ones
  bool has_bias = false;
  bool input_gradient = false;
};

/// Has one function for each kind of layer with kernels of its own.
class Passes {
 public:
  Passes(const Model& model, const Layer& layer, const Kernels& kernels, const Sizes& sizes)
      : model_(model), layer_(layer), kernels_(kernels), sizes_(sizes) {}

  LayerTimes times() const {
    switch (layer_.kind) {
      case LayerKind::input: return {};
      case LayerKind::conv2d: return convolution(std::get<Conv2d>(layer_.parameters));
      case LayerKind::linear: return linear();
      case LayerKind::attention: return attention(std::get<Attention>(layer_.parameters));
      case LayerKind::experts: return roofline(kExpertLaunches, sizes_.weights);
      case LayerKind::lstm: return lstm(std::get<Lstm>(layer_.parameters));
      case LayerKind::lookahead: return roofline(1, sizes_.weights);
      case LayerKind::batch_norm: return batch_norm();
      case LayerKind::layer_norm:
      case LayerKind::rms_norm: return layer_norm();
      case LayerKind::cross_entropy: return cross_entropy();
      case LayerKind::max_pool:
      case LayerKind::avg_pool:
      case LayerKind::adaptive_avg_pool:
      case LayerKind::lrn: return pooling();
      case LayerKind::embedding:
      case LayerKind::position_embedding: return lookup();
      case LayerKind::concat: return joined();
      case LayerKind::add:
        return {stream(sizes_.inputs + sizes_.output), 0};  // both gradients are the output's
      case LayerKind::multiply: return product_of_elements();
      case LayerKind::dropout: return dropout();
      case LayerKind::relu:
      case LayerKind::gelu:
      case LayerKind::silu:
      case LayerKind::tanh:
      case LayerKind::hardtanh: return {stream(2 * sizes_.output), stream(3 * sizes_.output)};
      case LayerKind::flatten:
      case LayerKind::transpose:
      case LayerKind::positional_encoding:
      case LayerKind::rotary: return {stream(2 * sizes_.output), stream(2 * sizes_.output)};
      case LayerKind::select: return {stream(2 * sizes_.output), stream(sizes_.output + sizes_.inputs)};
    }
    return {};
  }

 private:
  double stream(double elements) const { return kernels_.stream_us(elements); }
  double reduce(double elements) const { return kernels_.reduce_us(elements); }
  const Shape& input(std::size_t i) const { return model_.layers[layer_.inputs[i]].output; }
  double if_wanted(double us) const { return sizes_.input_gradient ? us : 0; }
  double bias_gradient() const { return sizes_.has_bias ? reduce(sizes_.output) : 0; }

  bool is_aligned(double features, double bytes) const {
    return is_multiple(features * kernels_.element_bytes(), bytes);
  }

  /// Images lie channel by channel (NCHW), as frameworks have them unless told otherwise. Tensor cores want
  /// all channels of a pixel side by side (NHWC): operands and result are transposed then, each by a kernel
  /// of its own.
  LayerTimes convolution(const Conv2d& conv) const {
    const Shape& in = input(0);
    const double channels = static_cast<double>(in[0] / conv.groups);
    const double out_channels = static_cast<double>(conv.out_channels / conv.groups);
    const double window = static_cast<double>(conv.kernel.height * conv.kernel.width);
    const double out_positions = sizes_.batch * static_cast<double>(layer_.output[1] * layer_.output[2]);
    const double in_plane = static_cast<double>(in[1] * in[2]);
    const bool tensor_cores = kernels_.tensor_cores() && is_aligned(channels, kAlignedBytes) &&
                              is_aligned(out_channels, kAlignedBytes);
    if (conv.groups > 1 && !tensor_cores) return roofline(1, sizes_.weights);
    const bool is_dense_step = conv.stride == Extent{1, 1};
    const double images = sizes_.inputs + sizes_.output;
    const double transposing = stream(images * 2) + kLaunchUs;

    Product product = {.rows = out_positions,
                       .columns = out_channels,
                       .inner = channels * window,
                       .count = static_cast<double>(conv.groups),
                       .elements = images + sizes_.weights,
                       .on_tensor_cores = tensor_cores,
                       .whole_sums = true};
    if (!tensor_cores) {
      product.speed = std::min(1.0, kernels_.device().shared_bytes / kSharedBytesOfConvolution);
      if (conv.kernel == Extent{3, 3} && is_dense_step && conv.groups == 1 &&
          channels >= kFewestChannelsOfWinograd)
        product.speed *= kWinograd;
    }
    const bool as_it_lies =
        conv.kernel == Extent{1, 1} && is_dense_step && is_multiple(in_plane, kAlignedPlane);
    const double transposed = tensor_cores && !as_it_lies ? transposing : 0;

    Product of_input = product;
    of_input.columns = channels;
    of_input.inner = out_channels * window;
    Product of_weights = product;
    of_weights.rows = out_channels;
    of_weights.columns = channels * window;
    of_weights.inner = out_positions;
    of_weights.whole_sums = false;
    if (tensor_cores) of_weights.speed *= kTransposedOperands;
    return {kernels_.product_us(product) + transposed,
            if_wanted(kernels_.product_us(of_input) + transposed) + kernels_.product_us(of_weights) +
                (tensor_cores ? transposing : 0) + bias_gradient()};
  }

  /// On tensor cores, by how much rows that are not aligned slow a product down.
  double speed_of_rows(double in, double out) const {
    if (is_aligned(in, kAlignedBytes) && is_aligned(out, kAlignedBytes)) return 1;
    return is_aligned(in, kHalfAlignedBytes) && is_aligned(out, kHalfAlignedBytes) ? kHalfAligned
                                                                                   : kUnaligned;
  }

  LayerTimes linear() const {
    const double in = static_cast<double>(input(0).back());
    const double out = static_cast<double>(layer_.output.back());
    const double rows = sizes_.output / out;
    Product product = {.rows = rows,
                       .columns = out,
                       .inner = in,
                       .elements = sizes_.inputs + sizes_.output + in * out,
                       .on_tensor_cores = kernels_.tensor_cores()};
    if (product.on_tensor_cores) product.speed = speed_of_rows(in, out);
    Product of_input = product;
    of_input.columns = in;
    of_input.inner = out;
    Product of_weights = product;
    of_weights.rows = out;
    of_weights.columns = in;
    of_weights.inner = rows;
    if (product.on_tensor_cores && kernels_.dtype() == Dtype::float32)
      of_weights.speed = std::min(of_weights.speed, kTransposedOperands);
    return {kernels_.product_us(product),
            if_wanted(kernels_.product_us(of_input)) + kernels_.product_us(of_weights) + bias_gradient()};
  }

  /// Fused attention reads the heads where they are and has the scores in registers alone. Otherwise the
  /// heads are separated and joined again, and kernels of their own scale, mask, normalize and drop the
  /// scores, as in attention that is written with a framework's operations.
  LayerTimes attention(const Attention& attention) const {
    const double heads = static_cast<double>(attention.heads);
    const double queries = static_cast<double>(layer_.output[0]);
    const double keys = static_cast<double>(layer_.inputs.size() == 1 ? layer_.output[0] : input(1)[0]);
    const double features = static_cast<double>(layer_.output[1]) / heads;
    const double scores = sizes_.batch * heads * queries * keys;
    const double scores_of_sample = scores / sizes_.batch;
    const bool is_fused =
        static_cast<double>(layer_.activation_elements) < count(layer_.output) + scores_of_sample / 2;
    const double operands = sizes_.batch * heads * (queries + keys) * features;
    const Product of_scores = {.rows = queries,
                               .columns = keys,
                               .inner = features,
                               .count = sizes_.batch * heads,
                               .elements = operands + (is_fused ? 0 : scores),
                               .on_tensor_cores = kernels_.tensor_cores(),
                               .whole_sums = true};
    Product of_values = of_scores;
    of_values.columns = features;
    of_values.inner = keys;
    const double products = kernels_.product_us(of_scores) + kernels_.product_us(of_values);
    if (is_fused) return {products, kFusedBackward * products};

    const double apart = stream(2 * (sizes_.inputs + sizes_.output));
    const double scaled = stream(2 * scores);
    const double masked = attention.causal ? stream(2 * scores) : 0;
    const double dropped = attention.dropout > 0 ? stream(elements_with_mask(scores)) : 0;
    return {products + apart + scaled + masked + dropped + reduce(2 * scores),
            2 * products + apart + scaled + masked + dropped + reduce(3 * scores)};
  }

  /// Each step needs a launch and reads the recurrent half of the weights again.
  LayerTimes lstm(const Lstm& lstm) const {
    const double steps = static_cast<double>(layer_.output.front());
    return roofline(steps * static_cast<double>(lstm.layers) * (lstm.bidirectional ? 2 : 1),
                    sizes_.weights * (1 + (steps - 1) / 2));
  }

  /// A layer that is told from its operations alone. With weights it computes two gradients instead of one.
  LayerTimes roofline(double launches, double weights) const {
    const double flops = layer_.forward_flops * sizes_.batch;
    const double kept =
        std::max(sizes_.output, sizes_.batch * static_cast<double>(layer_.activation_elements));
    const double gradients = weights > 0 ? 2 : 1;
    return {
        kernels_.roofline_us(flops, sizes_.inputs + 2 * kept - sizes_.output + weights, launches),
        kernels_.roofline_us(gradients * flops, sizes_.output + kept + gradients * (sizes_.inputs + weights),
                             gradients * launches)};
  }

  /// Reads its input for the mean and variance, and again to normalize it; backward reads input and gradient
  /// for two sums, and again for the gradient. PyTorch has kernels of its own for bfloat16, which take as
  /// long as for float32.
  LayerTimes batch_norm() const {
    const double bytes = sizes_.output * (kernels_.dtype() == Dtype::bfloat16 ? 4 : kernels_.element_bytes());
    return {kernels_.reduce_bytes_us(3 * bytes), kernels_.reduce_bytes_us(5 * bytes)};
  }

  /// A row is in registers while its sums are made. The gradients of the weights are sums over rows: another
  /// kernel.
  LayerTimes layer_norm() const {
    return {reduce(2 * sizes_.output), reduce(3 * sizes_.output) + reduce(2 * sizes_.output)};
  }

  /// Logarithms of the softmax, and the labels' part of them; backward fills in the labels' gradient first.
  LayerTimes cross_entropy() const {
    return {reduce(2 * sizes_.inputs) + kLaunchUs, reduce(3 * sizes_.inputs) + stream(sizes_.inputs)};
  }

  LayerTimes pooling() const {
    const double moved = sizes_.inputs + sizes_.output;
    return {reduce(moved), reduce(2 * moved)};
  }

  /// Backward, the gradient of the table is filled with zeros and added to.
  LayerTimes lookup() const {
    return {stream(2 * sizes_.output), stream(2 * sizes_.output) + stream(sizes_.weights)};
  }

  /// One copy for each input.
  LayerTimes joined() const {
    const double copies =
        stream(2 * sizes_.output) + static_cast<double>(layer_.inputs.size() - 1) * kLaunchUs;
    return {copies, copies};
  }

  /// The gradient of an input is a product with the others.
  LayerTimes product_of_elements() const {
    const double forward = stream(sizes_.inputs + sizes_.output);
    return {forward, static_cast<double>(layer_.inputs.size()) * forward};
  }

  double elements_with_mask(double elements) const { return elements * (2 + 1 / kernels_.element_bytes()); }

  LayerTimes dropout() const {
    const double pass = stream(elements_with_mask(sizes_.output));
    return {pass, pass};
  }

  const Model& model_;
  const Layer& layer_;
  const Kernels& kernels_;
  const Sizes& sizes_;
};

Sizes sizes_of(const Model& model, const Layer& layer, double batch) {
  Sizes sizes = {.batch = batch, .output = batch * count(layer.output)};
  for (const std::size_t input : layer.inputs) sizes.inputs += batch * count(model.layers[input].output);
  for (const Tensor& tensor : layer.tensors) sizes.weights += static_cast<double>(tensor.elements);
  if (const auto& shared = layer.shared_weight)
    sizes.weights += static_cast<double>(model.layers[shared->layer].tensors[shared->tensor].elements);
  sizes.has_bias = layer.tensors.size() + (layer.shared_weight ? 1 : 0) > 1;
  return sizes;
}

}  // namespace

std::vector<LayerTimes> layer_times(const Model& model, const Kernels& kernels, std::int64_t batch_size) {
  const std::size_t layers = model.layers.size();
  std::vector<LayerTimes> out;
  out.reserve(layers);
  std::vector<bool> has_gradient(layers);
  std::vector<std::size_t> source(layers);  // what a view is of
  std::vector<double> readers(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    const Layer& layer = model.layers[i];
    Sizes sizes = sizes_of(model, layer, static_cast<double>(batch_size));
    source[i] = layer.is_view && !layer.inputs.empty() ? source[layer.inputs.front()] : i;
    for (const std::size_t input : layer.inputs) {
      sizes.input_gradient = sizes.input_gradient || has_gradient[input];
      if (!layer.is_view) ++readers[source[input]];
    }
    has_gradient[i] = sizes.input_gradient || sizes.weights > 0;
    out.push_back(Passes(model, layer, kernels, sizes).times());
    if (!has_gradient[i]) out.back().backward_us = 0;
  }
  // Where a result is read more than once, its gradients are added up, one after another.
  for (std::size_t i = 0; i < layers; ++i)
    if (has_gradient[i] && readers[i] > 1)
      out[i].backward_us += (readers[i] - 1) * kernels.stream_us(3 * static_cast<double>(batch_size) *
                                                                 count(model.layers[i].output));
  return out;
}

}  // namespace core
