// A layer of a model after expansion: its operation, shapes and tensors.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace core {

/// The shape of one sample, without the batch dimension. An image is [channels, height, width], a sequence
/// [length, features].
using Shape = std::vector<std::int64_t>;

/// Returns the number of elements, saturated at one more than a file may hold (1e12).
std::int64_t element_count(const Shape& shape);
/// "[64, 56, 56]"
std::string text(const Shape& shape);

enum class LayerKind {
  input,  ///< an input of the model; the first layers of a model, never written as a layer in a file
  conv2d,
  max_pool,
  avg_pool,
  adaptive_avg_pool,
  batch_norm,
  lrn,
  linear,
  relu,
  gelu,
  silu,
  tanh,
  hardtanh,
  dropout,
  add,
  multiply,
  concat,
  flatten,
  transpose,
  select,
  layer_norm,
  rms_norm,
  embedding,
  position_embedding,
  positional_encoding,
  rotary,
  attention,
  experts,
  lstm,
  lookahead,
  cross_entropy,
};

std::string_view name(LayerKind kind);

/// Height and width.
struct Extent {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Extent&) const = default;
};

enum class Element { real, token };

/// input: tokens are integers from 0 to vocabulary - 1.
struct Input {
  Element element = Element::real;
  std::int64_t vocabulary = 0;
};

struct Conv2d {
  std::int64_t out_channels = 0;
  Extent kernel;
  Extent stride;
  Extent padding;  ///< on both sides
  Extent dilation;
  std::int64_t groups = 1;
  bool bias = true;
};

/// max_pool, avg_pool
struct Pool2d {
  Extent kernel;
  Extent stride;
  Extent padding;
  bool ceil_mode = false;     ///< the last window may reach beyond the padded input
  bool count_padding = true;  ///< avg_pool: the padding's zeros count in the mean
};

struct AdaptivePool2d {
  Extent output;
};

/// batch_norm, layer_norm, rms_norm. batch_norm normalizes each channel of an image, or the last dimension of
/// other inputs; the others normalize the last dimension.
struct Norm {
  double epsilon = 0;
};

/// lrn, across channels: x / (k + alpha / size * sum of squares over `size` channels) ^ beta
struct LocalResponseNorm {
  std::int64_t size = 0;
  double alpha = 0;
  double beta = 0;
  double k = 0;
};

/// A matrix product over the last dimension.
struct Linear {
  std::int64_t out_features = 0;
  bool bias = true;
};

struct Gelu {
  bool tanh = false;  ///< the approximation by tanh
};

/// hardtanh: min(max(x, min), max)
struct Hardtanh {
  double min = 0;
  double max = 0;
};

struct Dropout {
  double probability = 0;
};

struct Concat {
  std::size_t axis = 0;
};

/// Joins the dimensions from `from` on into one.
struct Flatten {
  std::size_t from = 0;
};

/// Dimension i of the output is dimension axes[i] of the input.
struct Transpose {
  std::vector<std::size_t> axes;
};

/// The part of the input at `index` of its first dimension, which is removed.
struct Select {
  std::int64_t index = 0;
};

/// embedding: a row of the table for each token. position_embedding: the first rows, one for each position.
struct Embedding {
  std::int64_t entries = 0;
  std::int64_t features = 0;
  bool scaled = false;  ///< multiplied by the square root of `features`
};

/// Rotates pairs of features of each head by an angle that grows with the position.
struct Rotary {
  std::int64_t heads = 0;
  double base = 0;
};

/// softmax(q k' / sqrt(features of a head)) v for each head. One input: q, k and v concatenated in its last
/// dimension; three inputs: q, k, v. Neighbouring heads of q share one of k and v where these have fewer.
struct Attention {
  std::int64_t heads = 0;
  std::int64_t key_value_heads = 0;  ///< divides heads
  bool causal = false;               ///< a position sees only itself and earlier ones
  double dropout = 0;                ///< of the softmax's output
};

/// A mixture of gated experts, each down(silu(gate(x)) * up(x)): every position is computed by the `chosen`
/// experts that its second input, the router's output, scores highest, and takes their weighted sum.
struct Experts {
  std::int64_t experts = 0;
  std::int64_t chosen = 0;
  std::int64_t hidden = 0;  ///< features between the matrices of an expert
};

/// `layers` stacked layers; a bidirectional one concatenates both directions.
struct Lstm {
  std::int64_t hidden = 0;
  std::int64_t layers = 1;
  bool bidirectional = false;
};

/// A weighted sum over each feature's position and the next `context` ones, with weights per feature.
struct Lookahead {
  std::int64_t context = 0;
};

/// cross_entropy: softmax of the last dimension against one label from 0 to its size - 1; mean over positions
/// and samples. The model's loss is the weighted sum of its losses.
struct Loss {
  double weight = 1;
};

using Parameters =
    std::variant<std::monostate, Input, Conv2d, Pool2d, AdaptivePool2d, Norm, LocalResponseNorm, Linear, Gelu,
                 Hardtanh, Dropout, Concat, Flatten, Transpose, Select, Embedding, Rotary, Attention, Experts,
                 Lstm, Lookahead, Loss>;

struct Tensor {
  std::string name;  ///< "layer1.0.conv1.weight"
  Shape shape;
  std::int64_t elements = 0;
};

/// A tensor of an earlier layer.
struct TensorRef {
  std::size_t layer = 0;
  std::size_t tensor = 0;
};

struct Layer {
  std::string name;
  LayerKind kind = LayerKind::input;
  Parameters parameters;
  std::vector<std::size_t> inputs;  ///< indices of earlier layers
  Shape output;
  std::vector<Tensor> tensors;             ///< tensors that it owns
  std::optional<TensorRef> shared_weight;  ///< replaces its "weight", which it then does not own
  double forward_flops = 0;                ///< for one sample; a multiply-add counts 2
  std::int64_t activation_elements = 0;    ///< stored for the backward pass, one sample
  bool is_view = false;                    ///< moves and computes nothing: only a view of its input
};

}  // namespace core
