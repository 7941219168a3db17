// Layers on images: [channels, height, width].

#include <fmt/format.h>

#include "core/model/kinds.hpp"

namespace core::rules {
namespace {

struct Window {
  Extent kernel;
  Extent stride = {1, 1};
  Extent padding = {0, 0};
  Extent dilation = {1, 1};
  bool ceil_mode = false;
};

/// Returns how many window positions fit along one side; 0 or less if there is none.
std::int64_t positions(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation, bool ceil_mode) {
  const std::int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  if (room < 0) return 0;
  std::int64_t count = room / stride + 1;
  // ceil_mode adds a window over the edge, unless it would begin in the padding behind the input.
  if (ceil_mode && room % stride != 0 && count * stride < in + padding) ++count;
  return count;
}

Shape slide(const Draft& draft, std::int64_t out_channels, const Window& window) {
  const Shape& in = draft.image();
  Shape out = {out_channels,
               positions(in[1], window.kernel.height, window.stride.height, window.padding.height,
                         window.dilation.height, window.ceil_mode),
               positions(in[2], window.kernel.width, window.stride.width, window.padding.width,
                         window.dilation.width, window.ceil_mode)};
  if (out[1] <= 0 || out[2] <= 0)
    draft.refuse("a window that fits into the padded input",
                 fmt::format("a kernel of {} x {} on {} x {}", window.kernel.height, window.kernel.width,
                             in[1], in[2]));
  return out;
}

void pool(Draft& draft) {
  const Extent kernel = draft.extent("kernel");
  const Pool2d pool = {.kernel = kernel,
                       .stride = draft.extent_or("stride", kernel),
                       .padding = draft.extent_or("padding", {0, 0}, 0),
                       .ceil_mode = draft.boolean_or("ceil_mode", false),
                       .count_padding = draft.boolean_or("count_padding", true)};
  if (2 * pool.padding.height > kernel.height || 2 * pool.padding.width > kernel.width)
    draft.refuse("a padding of at most half the kernel",
                 fmt::format("{} x {}", pool.padding.height, pool.padding.width));
  draft.layer.parameters = pool;
  draft.layer.output =
      slide(draft, draft.image()[0],
            {.kernel = kernel, .stride = pool.stride, .padding = pool.padding, .ceil_mode = pool.ceil_mode});
  const Shape window = {kernel.height, kernel.width};
  draft.layer.forward_flops = static_cast<double>(draft.checked_count(draft.layer.output)) *
                              static_cast<double>(draft.checked_count(window));
}

}  // namespace

void conv2d(Draft& draft) {
  const std::int64_t in_channels = draft.image()[0];
  const Conv2d conv = {.out_channels = draft.integer("out_channels"),
                       .kernel = draft.extent("kernel"),
                       .stride = draft.extent_or("stride", {1, 1}),
                       .padding = draft.extent_or("padding", {0, 0}, 0),
                       .dilation = draft.extent_or("dilation", {1, 1}),
                       .groups = draft.integer_or("groups", 1),
                       .bias = draft.boolean_or("bias", true)};
  if (in_channels % conv.groups != 0 || conv.out_channels % conv.groups != 0)
    draft.refuse(fmt::format("channels that divide into {} groups", conv.groups),
                 fmt::format("{} in and {} out", in_channels, conv.out_channels));
  draft.layer.parameters = conv;
  draft.layer.output = slide(
      draft, conv.out_channels,
      {.kernel = conv.kernel, .stride = conv.stride, .padding = conv.padding, .dilation = conv.dilation});
  draft.tensor("weight",
               {conv.out_channels, in_channels / conv.groups, conv.kernel.height, conv.kernel.width});
  const Tensor& weight = draft.layer.tensors.front();
  const Shape plane = {draft.layer.output[1], draft.layer.output[2]};
  draft.layer.forward_flops =
      2.0 * static_cast<double>(weight.elements) * static_cast<double>(draft.checked_count(plane));
  if (conv.bias) draft.tensor("bias", {conv.out_channels});
}

void max_pool(Draft& draft) { pool(draft); }
void avg_pool(Draft& draft) { pool(draft); }

void adaptive_avg_pool(Draft& draft) {
  const Shape& in = draft.image();
  const AdaptivePool2d pool = {.output = draft.extent_or("output", {1, 1})};
  draft.layer.parameters = pool;
  draft.layer.output = {in[0], pool.output.height, pool.output.width};
  draft.layer.forward_flops = static_cast<double>(draft.checked_count(in));
}

void batch_norm(Draft& draft) {
  constexpr double kFlopsPerElement = 4;  // mean, variance, shift, scale
  const Shape& in = draft.input();
  const std::int64_t channels = in.size() == 3 ? in.front() : in.back();
  draft.layer.parameters = Norm{.epsilon = draft.number_or("epsilon", 1e-5, 0, 1)};
  draft.layer.output = in;
  draft.tensor("weight", {channels});
  draft.tensor("bias", {channels});
  draft.layer.forward_flops = kFlopsPerElement * static_cast<double>(draft.checked_count(in));
}

void lrn(Draft& draft) {
  const LocalResponseNorm norm = {.size = draft.integer("size"),
                                  .alpha = draft.number_or("alpha", 1e-4, 0, 1e3),
                                  .beta = draft.number_or("beta", 0.75, 0, 1e3),
                                  .k = draft.number_or("k", 1, 0, 1e3)};
  draft.layer.parameters = norm;
  draft.layer.output = draft.image();
  draft.layer.forward_flops =
      2.0 * static_cast<double>(norm.size) * static_cast<double>(draft.checked_count(draft.layer.output));
}

}  // namespace core::rules
