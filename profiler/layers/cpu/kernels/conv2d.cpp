// conv2d: windows of the input are laid out as columns of a matrix (im2col), which is multiplied with the
// weights. Works in pieces that fit the cache: rows of one sample's output forward, a few input channels
// backward.

#include <algorithm>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

/// Floats in the columns of a piece; a quarter of a MiB.
constexpr std::int64_t kPiece = 1 << 16;
/// A narrower matrix would read the weights too often.
constexpr std::int64_t kMinColumns = 128;

struct Sizes {
  std::int64_t in_channels;  ///< of a group, like the next
  std::int64_t out_channels;
  std::int64_t groups;
  std::int64_t in_height;
  std::int64_t in_width;
  std::int64_t out_height;
  std::int64_t out_width;
  core::Conv2d conv;

  std::int64_t window() const { return conv.kernel.height * conv.kernel.width; }
  std::int64_t in_plane() const { return in_height * in_width; }
  std::int64_t out_plane() const { return out_height * out_width; }
  /// The input's channels are already the columns.
  bool is_pointwise() const {
    return window() == 1 && conv.stride == core::Extent{1, 1} && conv.padding == core::Extent{0, 0};
  }
};

Sizes sizes(const LayerWork& work) {
  const auto& conv = std::get<core::Conv2d>(work.layer->parameters);
  const core::Shape& in = work.inputs[0].shape;
  const core::Shape& out = work.layer->output;
  return {.in_channels = in[0] / conv.groups,
          .out_channels = conv.out_channels / conv.groups,
          .groups = conv.groups,
          .in_height = in[1],
          .in_width = in[2],
          .out_height = out[1],
          .out_width = out[2],
          .conv = conv};
}

/// Number of output rows whose columns are laid out at once.
std::int64_t rows_at_once(const Sizes& s) {
  const std::int64_t fitting = kPiece / (s.in_channels * s.window());
  const std::int64_t columns = std::max(kMinColumns, fitting);
  return std::clamp<std::int64_t>((columns + s.out_width - 1) / s.out_width, 1, s.out_height);
}

/// Number of input channels whose columns are laid out at once.
std::int64_t channels_at_once(const Sizes& s, int threads) {
  const std::int64_t fitting = kPiece / (s.window() * s.out_plane());
  const std::int64_t share = (s.in_channels + threads - 1) / threads;
  return std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(1, share));
}

/// Output columns from `begin` to `end` read only input inside the padding.
struct ColumnRange {
  std::int64_t begin;
  std::int64_t end;
};

ColumnRange inside(const Sizes& s, std::int64_t offset) {
  const std::int64_t stride = s.conv.stride.width;
  const std::int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const std::int64_t end = offset >= s.in_width ? 0 : (s.in_width - offset + stride - 1) / stride;
  return {.begin = std::min(begin, s.out_width), .end = std::clamp(end, begin, std::max(begin, s.out_width))};
}

/// Calls work(row of the columns, output row, input row or -1 in the padding, first input column).
template <typename Work>
void each_window_row(const Sizes& s, std::int64_t channels, std::int64_t first_row, std::int64_t end_row,
                     const Work& work) {
  std::int64_t line = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t ky = 0; ky < s.conv.kernel.height; ++ky)
      for (std::int64_t kx = 0; kx < s.conv.kernel.width; ++kx, ++line)
        for (std::int64_t y = first_row; y < end_row; ++y) {
          const std::int64_t in_y =
              y * s.conv.stride.height - s.conv.padding.height + ky * s.conv.dilation.height;
          const bool is_inside = in_y >= 0 && in_y < s.in_height;
          work(line, y, is_inside ? channel * s.in_height + in_y : -1,
               kx * s.conv.dilation.width - s.conv.padding.width);
        }
}

/// Lays out `channels` planes from `in` on.
void lay_out(const Sizes& s, const float* in, std::int64_t channels, std::int64_t first_row,
             std::int64_t end_row, float* columns) {
  const std::int64_t width = s.out_width;
  const std::int64_t stride = s.conv.stride.width;
  each_window_row(s, channels, first_row, end_row,
                  [&](std::int64_t line, std::int64_t y, std::int64_t in_row, std::int64_t offset) {
                    float* out = columns + (line * (end_row - first_row) + (y - first_row)) * width;
                    if (in_row < 0) {
                      std::fill_n(out, width, 0.0F);
                      return;
                    }
                    const ColumnRange range = inside(s, offset);
                    const float* row = in + in_row * s.in_width;
                    std::fill_n(out, range.begin, 0.0F);
                    if (stride == 1)
                      std::copy_n(row + range.begin + offset, range.end - range.begin, out + range.begin);
                    else
                      for (std::int64_t x = range.begin; x < range.end; ++x)
                        out[x] = row[x * stride + offset];
                    std::fill(out + range.end, out + width, 0.0F);
                  });
}

/// Adds columns to the positions from which lay_out() read them.
void add_back(const Sizes& s, const float* columns, std::int64_t channels, float* in) {
  const std::int64_t width = s.out_width;
  const std::int64_t stride = s.conv.stride.width;
  each_window_row(s, channels, 0, s.out_height,
                  [&](std::int64_t line, std::int64_t y, std::int64_t in_row, std::int64_t offset) {
                    if (in_row < 0) return;
                    const float* from = columns + (line * s.out_height + y) * width;
                    const ColumnRange range = inside(s, offset);
                    float* row = in + in_row * s.in_width;
                    if (stride == 1)
                      array(row + range.begin + offset, range.end - range.begin) +=
                          array(from + range.begin, range.end - range.begin);
                    else
                      for (std::int64_t x = range.begin; x < range.end; ++x)
                        row[x * stride + offset] += from[x];
                  });
}

std::int64_t scratch_of_thread(const Sizes& s, int threads) {
  const std::int64_t forward = s.in_channels * s.window() * rows_at_once(s) * s.out_width;
  const std::int64_t backward = channels_at_once(s, threads) * s.window() * s.out_plane();
  return std::max(forward, backward);
}

float* scratch(const Pass& pass, const Sizes& s, int thread) {
  return pass.scratch + thread * scratch_of_thread(s, pass.pool->threads());
}

/// Computes the output of some rows of one sample and group.
void forward_rows(const Pass& pass, const Sizes& s, std::int64_t image, std::int64_t first_row,
                  std::int64_t end_row, int thread) {
  const std::int64_t group = image % s.groups;
  const std::int64_t lines = s.in_channels * s.window();
  const std::int64_t count = (end_row - first_row) * s.out_width;
  const float* in = pass.inputs[0] + image * s.in_channels * s.in_plane();
  float* out = pass.output + image * s.out_channels * s.out_plane() + first_row * s.out_width;
  const float* columns = in + first_row * s.out_width;
  std::int64_t stride = s.in_plane();
  if (!s.is_pointwise()) {
    float* laid_out = scratch(pass, s, thread);
    lay_out(s, in, s.in_channels, first_row, end_row, laid_out);
    columns = laid_out;
    stride = count;
  }
  if (s.conv.bias)
    for (std::int64_t channel = 0; channel < s.out_channels; ++channel)
      array(out + channel * s.out_plane(), count) = pass.weights[1][group * s.out_channels + channel];
  pass.product({.a = pass.weights[0] + group * s.out_channels * lines,
                .a_stride = lines,
                .b = columns,
                .b_stride = stride,
                .c = out,
                .c_stride = s.out_plane(),
                .rows = s.out_channels,
                .columns = count,
                .inner = lines,
                .add = s.conv.bias});
}

/// Computes the gradient of some input channels of one sample.
void input_gradient(const Pass& pass, const Sizes& s, std::int64_t image, std::int64_t first,
                    std::int64_t end, int thread) {
  const GradientRoom& room = pass.input_gradients[0];
  const std::int64_t lines = s.in_channels * s.window();
  float* in = room.data + (image * s.in_channels + first) * s.in_plane();
  Product product = {.a = pass.weights[0] + image % s.groups * s.out_channels * lines + first * s.window(),
                     .a_stride = lines,
                     .b = pass.output_gradient + image * s.out_channels * s.out_plane(),
                     .b_stride = s.out_plane(),
                     .c = in,
                     .c_stride = s.out_plane(),
                     .rows = (end - first) * s.window(),
                     .columns = s.out_plane(),
                     .inner = s.out_channels,
                     .a_transposed = true,
                     .add = room.add};
  if (s.is_pointwise()) return pass.product(product);
  product.c = scratch(pass, s, thread);
  product.add = false;
  pass.product(product);
  if (!room.add) array(in, (end - first) * s.in_plane()).setZero();
  add_back(s, product.c, end - first, in);
}

/// Computes the gradient of the weights from some input channels of a group, over all samples.
void weight_gradient(const Pass& pass, const Sizes& s, std::int64_t group, std::int64_t first,
                     std::int64_t end, int thread) {
  const GradientRoom& room = pass.weight_gradients[0];
  const std::int64_t lines = s.in_channels * s.window();
  for (std::int64_t sample = 0; sample < pass.batch; ++sample) {
    const std::int64_t image = sample * s.groups + group;
    const float* columns = pass.inputs[0] + (image * s.in_channels + first) * s.in_plane();
    if (!s.is_pointwise()) {
      float* laid_out = scratch(pass, s, thread);
      lay_out(s, columns, end - first, 0, s.out_height, laid_out);
      columns = laid_out;
    }
    pass.product({.a = pass.output_gradient + image * s.out_channels * s.out_plane(),
                  .a_stride = s.out_plane(),
                  .b = columns,
                  .b_stride = s.out_plane(),
                  .c = room.data + group * s.out_channels * lines + first * s.window(),
                  .c_stride = lines,
                  .rows = s.out_channels,
                  .columns = (end - first) * s.window(),
                  .inner = s.out_plane(),
                  .b_transposed = true,
                  .add = room.add || sample > 0});
  }
}

void bias_gradient(const Pass& pass, const Sizes& s) {
  const GradientRoom& room = pass.weight_gradients[1];
  const std::int64_t channels = s.groups * s.out_channels;
  pass.pool->run(channels, [&](std::int64_t channel, int) {
    double sum = 0;
    for (std::int64_t sample = 0; sample < pass.batch; ++sample)
      sum += static_cast<double>(
          array(pass.output_gradient + (sample * channels + channel) * s.out_plane(), s.out_plane()).sum());
    room.data[channel] = static_cast<float>(room.add ? static_cast<double>(room.data[channel]) + sum : sum);
  });
}

}  // namespace

KernelRoom conv2d_room(const LayerWork& work, double /*batch*/, int threads) {
  const Sizes s = sizes(work);
  return {.scratch = s.is_pointwise()
                         ? 0
                         : static_cast<double>(threads) * static_cast<double>(scratch_of_thread(s, threads))};
}

void conv2d_forward(const Pass& pass) {
  const Sizes s = sizes(*pass.work);
  const std::int64_t step = rows_at_once(s);
  const std::int64_t steps = (s.out_height + step - 1) / step;
  pass.pool->run(pass.batch * s.groups * steps, [&](std::int64_t piece, int thread) {
    const std::int64_t first = piece % steps * step;
    forward_rows(pass, s, piece / steps, first, std::min(first + step, s.out_height), thread);
  });
}

void conv2d_backward(const Pass& pass) {
  const Sizes s = sizes(*pass.work);
  const std::int64_t step = channels_at_once(s, pass.pool->threads());
  const std::int64_t steps = (s.in_channels + step - 1) / step;
  const auto end_of = [&](std::int64_t first) { return std::min(first + step, s.in_channels); };
  if (pass.input_gradients[0].data != nullptr)
    pass.pool->run(pass.batch * s.groups * steps, [&](std::int64_t piece, int thread) {
      const std::int64_t first = piece % steps * step;
      input_gradient(pass, s, piece / steps, first, end_of(first), thread);
    });
  pass.pool->run(s.groups * steps, [&](std::int64_t piece, int thread) {
    const std::int64_t first = piece % steps * step;
    weight_gradient(pass, s, piece / steps, first, end_of(first), thread);
  });
  if (s.conv.bias) bias_gradient(pass, s);
}

}  // namespace profiler::cpu
