// Pooling: each output is the maximum or the mean of a window of one plane.

#include <algorithm>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

/// A window of a plane, clipped to the input, and the number of elements in its mean.
struct Window {
  std::int64_t top;
  std::int64_t bottom;
  std::int64_t left;
  std::int64_t right;
  std::int64_t count;
};

struct Side {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t count;  ///< including covered padding
};

Side side(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
          std::int64_t size) {
  const std::int64_t begin = at * stride - padding;
  const std::int64_t end = std::min(begin + kernel, size + padding);
  return {.begin = std::max<std::int64_t>(begin, 0), .end = std::min(end, size), .count = end - begin};
}

Window window_of(const core::Pool2d& pool, const core::Shape& in, std::int64_t y, std::int64_t x) {
  const Side rows = side(y, pool.kernel.height, pool.stride.height, pool.padding.height, in[1]);
  const Side columns = side(x, pool.kernel.width, pool.stride.width, pool.padding.width, in[2]);
  const std::int64_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
  return {.top = rows.begin,
          .bottom = rows.end,
          .left = columns.begin,
          .right = columns.end,
          .count = pool.count_padding ? rows.count * columns.count : inside};
}

Window window_of(const core::AdaptivePool2d& pool, const core::Shape& in, std::int64_t y, std::int64_t x) {
  const auto first = [](std::int64_t at, std::int64_t size, std::int64_t parts) { return at * size / parts; };
  const auto end = [](std::int64_t at, std::int64_t size, std::int64_t parts) {
    return ((at + 1) * size + parts - 1) / parts;
  };
  Window out = {.top = first(y, in[1], pool.output.height),
                .bottom = end(y, in[1], pool.output.height),
                .left = first(x, in[2], pool.output.width),
                .right = end(x, in[2], pool.output.width),
                .count = 0};
  out.count = (out.bottom - out.top) * (out.right - out.left);
  return out;
}

/// Calls work(window, output index, first element of its input plane) plane by plane.
template <typename Parameters, typename Work>
void each_window(const Pass& pass, const Work& work) {
  const auto& pool = std::get<Parameters>(pass.layer().parameters);
  const core::Shape& in = pass.in();
  const core::Shape& out = pass.out();
  pass.pool->run(pass.batch * out[0], [&](std::int64_t plane, int) {
    for (std::int64_t y = 0; y < out[1]; ++y)
      for (std::int64_t x = 0; x < out[2]; ++x)
        work(window_of(pool, in, y, x), (plane * out[1] + y) * out[2] + x, plane * in[1] * in[2]);
  });
}

void zero_unless_added(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (!room.add)
    each_element(pass, pass.in_count(),
                 [&](std::int64_t begin, std::int64_t count) { array(room.data + begin, count).setZero(); });
}

template <typename Parameters>
void mean_forward(const Pass& pass) {
  const std::int64_t width = pass.in()[2];
  each_window<Parameters>(pass, [&](const Window& window, std::int64_t out, std::int64_t plane) {
    float sum = 0;
    for (std::int64_t y = window.top; y < window.bottom; ++y)
      for (std::int64_t x = window.left; x < window.right; ++x) sum += pass.inputs[0][plane + y * width + x];
    pass.output[out] = sum / static_cast<float>(window.count);
  });
}

template <typename Parameters>
void mean_backward(const Pass& pass) {
  float* gradient = pass.input_gradients[0].data;
  if (gradient == nullptr) return;
  zero_unless_added(pass);
  const std::int64_t width = pass.in()[2];
  each_window<Parameters>(pass, [&](const Window& window, std::int64_t out, std::int64_t plane) {
    const float part = pass.output_gradient[out] / static_cast<float>(window.count);
    for (std::int64_t y = window.top; y < window.bottom; ++y)
      for (std::int64_t x = window.left; x < window.right; ++x) gradient[plane + y * width + x] += part;
  });
}

}  // namespace

/// Stores the index of each window's maximum in its plane; exact up to 2^24 elements.
KernelRoom max_pool_room(const LayerWork& work, double batch, int /*threads*/) {
  return {.kept = batch * static_cast<double>(core::element_count(work.layer->output))};
}

void max_pool_forward(const Pass& pass) {
  const std::int64_t width = pass.in()[2];
  auto* const places = reinterpret_cast<std::int32_t*>(pass.kept);
  each_window<core::Pool2d>(pass, [&](const Window& window, std::int64_t out, std::int64_t plane) {
    std::int64_t best = window.top * width + window.left;
    for (std::int64_t y = window.top; y < window.bottom; ++y)
      for (std::int64_t x = window.left; x < window.right; ++x)
        if (pass.inputs[0][plane + y * width + x] > pass.inputs[0][plane + best]) best = y * width + x;
    pass.output[out] = pass.inputs[0][plane + best];
    places[out] = static_cast<std::int32_t>(best);
  });
}

void max_pool_backward(const Pass& pass) {
  float* gradient = pass.input_gradients[0].data;
  if (gradient == nullptr) return;
  zero_unless_added(pass);
  const auto* const places = reinterpret_cast<const std::int32_t*>(pass.kept);
  each_window<core::Pool2d>(pass, [&](const Window&, std::int64_t out, std::int64_t plane) {
    gradient[plane + places[out]] += pass.output_gradient[out];
  });
}

void avg_pool_forward(const Pass& pass) { mean_forward<core::Pool2d>(pass); }
void avg_pool_backward(const Pass& pass) { mean_backward<core::Pool2d>(pass); }
void adaptive_avg_pool_forward(const Pass& pass) { mean_forward<core::AdaptivePool2d>(pass); }
void adaptive_avg_pool_backward(const Pass& pass) { mean_backward<core::AdaptivePool2d>(pass); }

}  // namespace profiler::cpu
