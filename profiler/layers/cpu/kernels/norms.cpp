// Normalization: over a channel of the whole batch, over a row's features, over neighbouring channels.

#include <algorithm>
#include <cmath>

#include "profiler/layers/cpu/kernels/arrays.hpp"

namespace profiler::cpu {
namespace {

/// batch_norm's input as blocks of `inner` elements of one channel; each channel has `outer` blocks, which
/// are `channels` blocks apart.
struct Channels {
  std::int64_t outer;
  std::int64_t channels;
  std::int64_t inner;

  double count() const { return static_cast<double>(outer * inner); }
};

Channels channels(const Pass& pass) {
  const core::Shape& in = pass.in();
  if (in.size() == 3) return {.outer = pass.batch, .channels = in[0], .inner = in[1] * in[2]};
  return {.outer = pass.in_count() / in.back(), .channels = in.back(), .inner = 1};
}

/// Calls work(first element of a block) for each block of a channel.
template <typename Work>
void each_block(const Channels& c, std::int64_t channel, const Work& work) {
  for (std::int64_t i = 0; i < c.outer; ++i) work((i * c.channels + channel) * c.inner);
}

double epsilon(const Pass& pass) { return pass.as<core::Norm>().epsilon; }

void put_value(const GradientRoom& room, std::int64_t at, double value) {
  room.data[at] = static_cast<float>(room.add ? static_cast<double>(room.data[at]) + value : value);
}

struct Rows {
  std::int64_t rows;
  std::int64_t features;
};

Rows rows(const Pass& pass) {
  const std::int64_t features = pass.in().back();
  return {.rows = pass.in_count() / features, .features = features};
}

/// layer_norm with a mean and a bias, rms_norm without.
void rows_forward(const Pass& pass, bool has_mean) {
  const auto [count, features] = rows(pass);
  const auto size = static_cast<float>(features);
  const auto min = static_cast<float>(epsilon(pass));
  constexpr std::int64_t kGrain = 16;
  run_ranges(*pass.pool, count, kGrain, [&, n = features](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      const ConstArray x = array(pass.inputs[0] + row * n, n);
      Array y = array(pass.output + row * n, n);
      const float mean = has_mean ? x.sum() / size : 0;
      const float inverse = 1 / std::sqrt((x - mean).square().sum() / size + min);
      y = (x - mean) * inverse * array(pass.weights[0], n);
      if (has_mean) y += array(pass.weights[1], n);
      pass.kept[2 * row] = mean;
      pass.kept[2 * row + 1] = inverse;
    }
  });
}

void rows_backward(const Pass& pass, bool has_mean) {
  const auto [count, features] = rows(pass);
  const std::int64_t n = features;
  const auto size = static_cast<float>(n);
  const GradientRoom& room = pass.input_gradients[0];
  constexpr std::int64_t kGrain = 16;
  const int threads = pass.pool->threads();
  array(pass.scratch, 2 * n * threads).setZero();
  run_ranges(*pass.pool, count, kGrain, [&](std::int64_t begin, std::int64_t end, int part) {
    Array weight_sum = array(pass.scratch + 2 * n * part, n);
    Array bias_sum = array(pass.scratch + 2 * n * part + n, n);
    for (std::int64_t row = begin; row < end; ++row) {
      const float mean = pass.kept[2 * row];
      const float inverse = pass.kept[2 * row + 1];
      const ConstArray dy = array(pass.output_gradient + row * n, n);
      const auto normal = (array(pass.inputs[0] + row * n, n) - mean) * inverse;
      weight_sum += dy * normal;
      bias_sum += dy;
      if (room.data == nullptr) continue;
      const auto slope = dy * array(pass.weights[0], n);
      const float along = (slope * normal).sum() / size;
      const float mean_slope = has_mean ? slope.sum() / size : 0;
      put(room, row * n, n, (slope - mean_slope - normal * along) * inverse);
    }
  });
  Eigen::ArrayXf total = array(pass.scratch, 2 * n);
  for (int part = 1; part < threads; ++part) total += array(pass.scratch + 2 * n * part, 2 * n);
  put(pass.weight_gradients[0], 0, n, total.head(n));
  if (has_mean) put(pass.weight_gradients[1], 0, n, total.tail(n));
}

/// lrn: the channels that contribute to channel `at`.
struct ChannelRange {
  std::int64_t begin;
  std::int64_t end;
};

ChannelRange seen(std::int64_t at, std::int64_t size, std::int64_t channels) {
  return {.begin = std::max<std::int64_t>(0, at - size / 2),
          .end = std::min(channels, at + (size - 1) / 2 + 1)};
}

/// Returns the channels to which channel `at` contributes.
ChannelRange seen_by(std::int64_t at, std::int64_t size, std::int64_t channels) {
  return {.begin = std::max<std::int64_t>(0, at - (size - 1) / 2),
          .end = std::min(channels, at + size / 2 + 1)};
}

}  // namespace

KernelRoom batch_norm_room(const LayerWork& work, double /*batch*/, int /*threads*/) {
  return {.kept = 2 * static_cast<double>(work.weights[0].shape[0])};
}

void batch_norm_forward(const Pass& pass) {
  const Channels c = channels(pass);
  const double min = epsilon(pass);
  pass.pool->run(c.channels, [&](std::int64_t channel, int) {
    double sum = 0;
    each_block(c, channel, [&](std::int64_t at) {
      sum += static_cast<double>(array(pass.inputs[0] + at, c.inner).sum());
    });
    const auto mean = static_cast<float>(sum / c.count());
    double squares = 0;
    each_block(c, channel, [&](std::int64_t at) {
      squares += static_cast<double>((array(pass.inputs[0] + at, c.inner) - mean).square().sum());
    });
    const auto inverse = static_cast<float>(1 / std::sqrt(squares / c.count() + min));
    const float weight = pass.weights[0][channel] * inverse;
    const float bias = pass.weights[1][channel];
    each_block(c, channel, [&](std::int64_t at) {
      array(pass.output + at, c.inner) = (array(pass.inputs[0] + at, c.inner) - mean) * weight + bias;
    });
    pass.kept[2 * channel] = mean;
    pass.kept[2 * channel + 1] = inverse;
  });
}

void batch_norm_backward(const Pass& pass) {
  const Channels c = channels(pass);
  const GradientRoom& room = pass.input_gradients[0];
  pass.pool->run(c.channels, [&](std::int64_t channel, int) {
    const float mean = pass.kept[2 * channel];
    const float inverse = pass.kept[2 * channel + 1];
    const auto normal = [&](std::int64_t at) {
      return (array(pass.inputs[0] + at, c.inner) - mean) * inverse;
    };
    double sum = 0;
    double along = 0;
    each_block(c, channel, [&](std::int64_t at) {
      const ConstArray dy = array(pass.output_gradient + at, c.inner);
      sum += static_cast<double>(dy.sum());
      along += static_cast<double>((dy * normal(at)).sum());
    });
    put_value(pass.weight_gradients[0], channel, along);
    put_value(pass.weight_gradients[1], channel, sum);
    if (room.data == nullptr) return;
    const float weight = pass.weights[0][channel] * inverse;
    const auto mean_slope = static_cast<float>(sum / c.count());
    const auto mean_along = static_cast<float>(along / c.count());
    each_block(c, channel, [&](std::int64_t at) {
      put(room, at, c.inner,
          (array(pass.output_gradient + at, c.inner) - mean_slope - normal(at) * mean_along) * weight);
    });
  });
}

KernelRoom row_norm_room(const LayerWork& work, double batch, int threads) {
  const auto features = static_cast<double>(work.inputs[0].shape.back());
  const double rows = batch * static_cast<double>(core::element_count(work.inputs[0].shape)) / features;
  return {.kept = 2 * rows, .scratch = 2 * features * threads};
}

void layer_norm_forward(const Pass& pass) { rows_forward(pass, true); }
void layer_norm_backward(const Pass& pass) { rows_backward(pass, true); }
void rms_norm_forward(const Pass& pass) { rows_forward(pass, false); }
void rms_norm_backward(const Pass& pass) { rows_backward(pass, false); }

/// k + alpha / size * sum of squares, for each element.
KernelRoom lrn_room(const LayerWork& work, double batch, int /*threads*/) {
  return {.kept = batch * static_cast<double>(core::element_count(work.layer->output))};
}

void lrn_forward(const Pass& pass) {
  const auto& norm = pass.as<core::LocalResponseNorm>();
  const std::int64_t channels = pass.in()[0];
  const std::int64_t plane = pass.in()[1] * pass.in()[2];
  const auto alpha = static_cast<float>(norm.alpha / static_cast<double>(norm.size));
  const auto beta = static_cast<float>(norm.beta);
  const auto k = static_cast<float>(norm.k);
  pass.pool->run(pass.batch * channels, [&](std::int64_t piece, int) {
    const std::int64_t channel = piece % channels;
    const float* sample = pass.inputs[0] + (piece - channel) * plane;
    Array base = array(pass.kept + piece * plane, plane);
    base.setConstant(k);
    const ChannelRange range = seen(channel, norm.size, channels);
    for (std::int64_t i = range.begin; i < range.end; ++i)
      base += alpha * array(sample + i * plane, plane).square();
    array(pass.output + piece * plane, plane) =
        array(sample + channel * plane, plane) * (-beta * base.log()).exp();
  });
}

void lrn_backward(const Pass& pass) {
  const GradientRoom& room = pass.input_gradients[0];
  if (room.data == nullptr) return;
  const auto& norm = pass.as<core::LocalResponseNorm>();
  const std::int64_t channels = pass.in()[0];
  const std::int64_t plane = pass.in()[1] * pass.in()[2];
  const auto factor = static_cast<float>(-2 * norm.alpha * norm.beta / static_cast<double>(norm.size));
  const auto beta = static_cast<float>(norm.beta);
  pass.pool->run(pass.batch * channels, [&](std::int64_t piece, int) {
    const std::int64_t channel = piece % channels;
    const std::int64_t sample = (piece - channel) * plane;
    const auto at = [&](const float* data, std::int64_t i) {
      return array(data + sample + i * plane, plane);
    };
    Eigen::ArrayXf sum = Eigen::ArrayXf::Zero(plane);
    const ChannelRange range = seen_by(channel, norm.size, channels);
    const float* output = pass.output;
    const float* kept = pass.kept;
    for (std::int64_t i = range.begin; i < range.end; ++i)
      sum += at(pass.output_gradient, i) * at(output, i) / at(kept, i);
    put(room, piece * plane, plane,
        at(pass.output_gradient, channel) * (-beta * at(kept, channel).log()).exp() +
            factor * at(pass.inputs[0], channel) * sum);
  });
}

}  // namespace profiler::cpu
