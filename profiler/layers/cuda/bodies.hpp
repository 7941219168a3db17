// The work of one thread of a kernel: for a single element, or with others for a row. C++17 without
// exceptions or containers, for the device and, in the tests, for the host.

#pragma once

#include <cmath>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "collectives/compression/cuda/words.hpp"
#include "profiler/layers/cuda/kernels.hpp"

namespace profiler::cuda {

template <typename T>
FUSEWISE_BOTH inline float number(const T& x) {
  return static_cast<float>(x);
}

template <typename T>
FUSEWISE_BOTH inline void add_to(T* to, float x) {
#if defined(__CUDA_ARCH__)
  atomicAdd(to, static_cast<T>(x));
#else
  *to = static_cast<T>(number(*to) + x);
#endif
}

/// A sink with a static type.
template <typename T>
struct Out {
  T* data;
  bool add;

  FUSEWISE_BOTH void put(std::int64_t i, float x) const {
    data[i] = static_cast<T>(add ? number(data[i]) + x : x);
  }
};

/// Returns the dropout factor of element i: random numbers of 16 bits, four from one word.
FUSEWISE_BOTH inline float factor_of(const Drop& drop, std::int64_t i) {
  const std::uint64_t bits = compression::cuda::hash_of(drop.seed, static_cast<std::uint64_t>(i / 4));
  const std::uint64_t draw = (bits >> (16U * static_cast<unsigned>(i % 4))) & 0xffffU;
  return draw < drop.below ? 0.0F : drop.kept;
}

// ---- by element -------------------------------------------------------------------------------------------

template <typename T>
struct FillBody {
  T* out;
  float value;
  FUSEWISE_BOTH void operator()(std::int64_t i) const { out[i] = static_cast<T>(value); }
};

constexpr float kSqrtHalf = 0.70710678F;
constexpr float kSqrtTwoOverPi = 0.79788456F;
constexpr float kInverseSqrtTwoPi = 0.39894228F;
constexpr float kCubic = 0.044715F;

FUSEWISE_BOTH inline float mapped(const Map& map, float x) {
  switch (map.function) {
    case Function::relu: return fmaxf(x, 0.0F);
    case Function::tanh: return tanhf(x);
    case Function::gelu: return 0.5F * x * (1 + erff(x * kSqrtHalf));
    case Function::gelu_tanh: return 0.5F * x * (1 + tanhf(kSqrtTwoOverPi * (x + kCubic * x * x * x)));
    case Function::silu: return x / (1 + expf(-x));
    case Function::hardtanh: return fminf(fmaxf(x, map.min), map.max);
  }
  return x;
}

FUSEWISE_BOTH inline float slope_of(const Map& map, float x) {
  switch (map.function) {
    case Function::relu: return x > 0 ? 1.0F : 0.0F;
    case Function::tanh: {
      const float t = tanhf(x);
      return 1 - t * t;
    }
    case Function::gelu:
      return 0.5F * (1 + erff(x * kSqrtHalf)) + x * kInverseSqrtTwoPi * expf(-0.5F * x * x);
    case Function::gelu_tanh: {
      const float t = tanhf(kSqrtTwoOverPi * (x + kCubic * x * x * x));
      return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kSqrtTwoOverPi * (1 + 3 * kCubic * x * x);
    }
    case Function::silu: {
      const float s = 1 / (1 + expf(-x));
      return s * (1 + x * (1 - s));
    }
    case Function::hardtanh: return x > map.min && x < map.max ? 1.0F : 0.0F;
  }
  return 0;
}

template <typename T>
struct MapBody {
  Map map;
  const T* in;
  T* out;
  FUSEWISE_BOTH void operator()(std::int64_t i) const { out[i] = static_cast<T>(mapped(map, number(in[i]))); }
};

template <typename T>
struct MapBackBody {
  Map map;
  const T* in;
  const T* gradient;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    to.put(i, number(gradient[i]) * slope_of(map, number(in[i])));
  }
};

template <typename T>
struct DropBody {
  Drop drop;
  const T* in;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const { to.put(i, factor_of(drop, i) * number(in[i])); }
};

template <typename T>
struct AccumulateBody {
  const T* in;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const { to.put(i, number(in[i])); }
};

template <typename T>
struct AddBody {
  const T* a;
  const T* b;
  T* out;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    out[i] = static_cast<T>(number(a[i]) + number(b[i]));
  }
};

template <typename T>
struct MultiplyBody {
  const T* a;
  const T* b;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const { to.put(i, number(a[i]) * number(b[i])); }
};

/// Index has 32 bits if that is enough: a 64-bit division takes several times as long.
template <typename T, typename Index>
struct MoveBody {
  Move move;
  const T* in;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    auto rest = static_cast<Index>(i);
    std::int64_t from_at = 0;
    std::int64_t to_at = 0;
    for (int d = move.dimensions - 1; d >= 0; --d) {
      const auto size = static_cast<Index>(move.sizes[d]);
      const auto at = static_cast<std::int64_t>(rest % size);
      rest /= size;
      from_at += at * move.from_strides[d];
      to_at += at * move.to_strides[d];
    }
    to.put(to_at, number(in[from_at]));
  }
};

template <typename T>
struct EmbedBody {
  const std::int32_t* tokens;
  const T* table;
  T* out;
  std::int64_t features;
  float factor;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    out[i] = static_cast<T>(factor * number(table[tokens[i / features] * features + i % features]));
  }
};

template <typename T>
struct EmbedBackBody {
  const std::int32_t* tokens;
  const T* gradient;
  T* to;
  std::int64_t features;
  float factor;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    add_to(to + tokens[i / features] * features + i % features, factor * number(gradient[i]));
  }
};

template <typename T>
struct SumRowsBody {
  const T* in;
  Out<T> to;
  std::int64_t rows;
  std::int64_t columns;
  FUSEWISE_BOTH void operator()(std::int64_t column) const {
    float sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += number(in[row * columns + column]);
    to.put(column, sum);
  }
};

template <typename T>
struct AddTableBody {
  const T* in;
  const float* table;
  T* out;
  std::int64_t period;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    out[i] = static_cast<T>(number(in[i]) + table[i % period]);
  }
};

/// Rotates one pair.
template <typename T>
struct RotateBody {
  Rotation r;
  const T* in;
  const float* angles;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t pair = i % r.pairs;
    const std::int64_t head = i / r.pairs % r.heads;
    const std::int64_t row = i / r.pairs / r.heads;
    const float* of_row = angles + row % r.length * 2 * r.pairs;
    const float cosine = of_row[pair];
    const float sine = r.direction * of_row[r.pairs + pair];
    const std::int64_t at = (row * r.heads + head) * 2 * r.pairs + pair;
    const float x = number(in[at]);
    const float y = number(in[at + r.pairs]);
    to.put(at, x * cosine - y * sine);
    to.put(at + r.pairs, y * cosine + x * sine);
  }
};

/// Sums one feature over one part of the rows.
template <typename T>
struct RowNormPartsBody {
  RowNorm norm;
  const T* in;
  const T* gradient;
  const float* kept;
  float* partial;
  std::int64_t parts;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t n = norm.features;
    const std::int64_t part = i / n;
    const std::int64_t feature = i % n;
    const std::int64_t end = (part + 1) * norm.rows / parts;
    float weight = 0;
    float bias = 0;
    for (std::int64_t row = part * norm.rows / parts; row < end; ++row) {
      const float slope = number(gradient[row * n + feature]);
      weight += slope * (number(in[row * n + feature]) - kept[2 * row]) * kept[2 * row + 1];
      bias += slope;
    }
    partial[i] = weight;
    partial[parts * n + i] = bias;
  }
};

template <typename T>
struct SumPartsBody {
  const float* partial;
  Out<T> to;
  std::int64_t parts;
  std::int64_t columns;
  FUSEWISE_BOTH void operator()(std::int64_t column) const {
    float sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * columns + column];
    to.put(column, sum);
  }
};

template <typename T>
struct LossBackBody {
  Loss loss;
  const T* logarithms;
  const std::int32_t* labels;
  const T* gradient;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t row = i / loss.classes;
    const float hit = labels[row] == i % loss.classes ? 1.0F : 0.0F;
    const float factor =
        loss.weight / static_cast<float>(loss.positions) * number(gradient[row / loss.positions]);
    to.put(i, factor * (expf(number(logarithms[i])) - hit));
  }
};

template <typename T>
struct AheadBody {
  LookaheadSizes a;
  const T* in;
  const T* weight;
  T* out;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t feature = i % a.features;
    const std::int64_t at = i / a.features % a.length;
    float sum = 0;
    for (std::int64_t step = 0; step < a.steps && at + step < a.length; ++step)
      sum += number(weight[feature * a.steps + step]) * number(in[i + step * a.features]);
    out[i] = static_cast<T>(sum);
  }
};

template <typename T>
struct AheadBackBody {
  LookaheadSizes a;
  const T* gradient;
  const T* weight;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t feature = i % a.features;
    const std::int64_t at = i / a.features % a.length;
    float sum = 0;
    for (std::int64_t step = 0; step < a.steps && step <= at; ++step)
      sum += number(weight[feature * a.steps + step]) * number(gradient[i - step * a.features]);
    to.put(i, sum);
  }
};

/// Neighbouring threads have neighbouring features.
template <typename T>
struct AheadWeightBody {
  LookaheadSizes a;
  const T* in;
  const T* gradient;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t feature = i % a.features;
    const std::int64_t step = i / a.features;
    float sum = 0;
    for (std::int64_t sample = 0; sample < a.batch; ++sample)
      for (std::int64_t at = 0; at + step < a.length; ++at) {
        const std::int64_t row = sample * a.length + at;
        sum += number(gradient[row * a.features + feature]) * number(in[(row + step) * a.features + feature]);
      }
    to.put(feature * a.steps + step, sum);
  }
};

template <typename T>
struct ChannelNormBody {
  Channels c;
  const T* in;
  const float* weight;
  const float* bias;
  const float* kept;
  T* out;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t channel = i / c.inner % c.channels;
    const float normal = (number(in[i]) - kept[2 * channel]) * kept[2 * channel + 1];
    out[i] = static_cast<T>(normal * weight[channel] + bias[channel]);
  }
};

template <typename T>
struct ChannelNormBackBody {
  Channels c;
  const T* in;
  const T* gradient;
  const float* weight;
  const float* kept;
  const float* sums;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t channel = i / c.inner % c.channels;
    const auto count = static_cast<float>(c.outer * c.inner);
    const float inverse = kept[2 * channel + 1];
    const float normal = (number(in[i]) - kept[2 * channel]) * inverse;
    const float slope =
        number(gradient[i]) - sums[2 * channel + 1] / count - normal * (sums[2 * channel] / count);
    to.put(i, slope * weight[channel] * inverse);
  }
};

/// Channels from `first` to `last` around that of element i, and the index of the same element in channel 0.
struct ChannelsAround {
  std::int64_t first;
  std::int64_t last;
  std::int64_t of_first_channel;
};

FUSEWISE_BOTH inline ChannelsAround channels_around(const Channels& c, std::int64_t i, std::int64_t before,
                                                    std::int64_t after) {
  const std::int64_t channel = i / c.inner % c.channels;
  return {channel > before ? channel - before : 0,
          channel + after < c.channels ? channel + after : c.channels - 1, i - channel * c.inner};
}

template <typename T>
struct NeighbourNormBody {
  Channels c;
  Neighbours n;
  const T* in;
  T* out;
  float* kept;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const ChannelsAround seen = channels_around(c, i, n.before, n.after);
    float squares = 0;
    for (std::int64_t channel = seen.first; channel <= seen.last; ++channel) {
      const float x = number(in[seen.of_first_channel + channel * c.inner]);
      squares += x * x;
    }
    const float base = n.k + n.factor * squares;
    kept[i] = base;
    out[i] = static_cast<T>(number(in[i]) * powf(base, -n.beta));
  }
};

/// Sums over the channels to which an element's own contributes.
template <typename T>
struct NeighbourNormBackBody {
  Channels c;
  Neighbours n;
  const T* in;
  const T* gradient;
  const float* kept;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const ChannelsAround by = channels_around(c, i, n.after, n.before);
    float sum = 0;
    for (std::int64_t channel = by.first; channel <= by.last; ++channel) {
      const std::int64_t at = by.of_first_channel + channel * c.inner;
      sum += number(gradient[at]) * number(in[at]) * powf(kept[at], -n.beta - 1);
    }
    to.put(i, number(gradient[i]) * powf(kept[i], -n.beta) - 2 * n.factor * n.beta * number(in[i]) * sum);
  }
};

struct Span {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t padded;  ///< elements that it covers, including padding
};

FUSEWISE_BOTH inline Span span_of(const Side& side, std::int64_t at) {
  if (side.kernel == 0) {
    const std::int64_t begin = at * side.in / side.out;
    const std::int64_t end = ((at + 1) * side.in + side.out - 1) / side.out;
    return {begin, end, end - begin};
  }
  const std::int64_t begin = at * side.stride - side.padding;
  const std::int64_t beyond = side.in + side.padding;
  const std::int64_t end = begin + side.kernel < beyond ? begin + side.kernel : beyond;
  return {begin > 0 ? begin : 0, end < side.in ? end : side.in, end - begin};
}

/// Element i of the output: its window, and the begin of its plane.
struct Window {
  Span rows;
  Span columns;
  std::int64_t plane;

  FUSEWISE_BOTH float share(bool count_padding) const {
    const std::int64_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
    return 1 / static_cast<float>(count_padding ? rows.padded * columns.padded : inside);
  }
};

FUSEWISE_BOTH inline Window window_of(const Windows& w, std::int64_t i) {
  const std::int64_t row = i / w.columns.out;
  return {span_of(w.rows, row % w.rows.out), span_of(w.columns, i % w.columns.out),
          row / w.rows.out * w.rows.in * w.columns.in};
}

template <typename T>
struct PoolBody {
  Windows w;
  const T* in;
  T* out;
  std::int32_t* places;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const Window window = window_of(w, i);
    const T* plane = in + window.plane;
    float sum = 0;
    std::int64_t best = window.rows.begin * w.columns.in + window.columns.begin;
    for (std::int64_t y = window.rows.begin; y < window.rows.end; ++y)
      for (std::int64_t x = window.columns.begin; x < window.columns.end; ++x) {
        const std::int64_t at = y * w.columns.in + x;
        sum += number(plane[at]);
        if (number(plane[at]) > number(plane[best])) best = at;
      }
    if (w.is_max) {
      out[i] = plane[best];
      places[i] = static_cast<std::int32_t>(best);
    } else {
      out[i] = static_cast<T>(sum * window.share(w.count_padding));
    }
  }
};

template <typename T>
struct PoolBackBody {
  Windows w;
  const T* gradient;
  const std::int32_t* places;
  T* to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const Window window = window_of(w, i);
    T* plane = to + window.plane;
    if (w.is_max) {
      add_to(plane + places[i], number(gradient[i]));
      return;
    }
    const float part = number(gradient[i]) * window.share(w.count_padding);
    for (std::int64_t y = window.rows.begin; y < window.rows.end; ++y)
      for (std::int64_t x = window.columns.begin; x < window.columns.end; ++x)
        add_to(plane + y * w.columns.in + x, part);
  }
};

// ---- by row: a team of threads, each with every step()-th element from first() on -------------------------

template <typename T>
struct RowNormBody {
  RowNorm norm;
  const T* in;
  const T* weight;
  const T* bias;
  T* out;
  float* kept;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t n = norm.features;
    const T* x = in + row * n;
    float mean = 0;
    if (norm.has_mean) {
      float sum = 0;
      for (std::int64_t i = team.first(); i < n; i += team.step()) sum += number(x[i]);
      mean = team.sum(sum) / static_cast<float>(n);
    }
    float squares = 0;
    for (std::int64_t i = team.first(); i < n; i += team.step()) {
      const float off = number(x[i]) - mean;
      squares += off * off;
    }
    const float inverse = 1 / sqrtf(team.sum(squares) / static_cast<float>(n) + norm.epsilon);
    for (std::int64_t i = team.first(); i < n; i += team.step()) {
      const float y = (number(x[i]) - mean) * inverse * number(weight[i]);
      out[row * n + i] = static_cast<T>(bias != nullptr ? y + number(bias[i]) : y);
    }
    if (team.first() == 0) {
      kept[2 * row] = mean;
      kept[2 * row + 1] = inverse;
    }
  }
};

template <typename T>
struct RowNormBackBody {
  RowNorm norm;
  const T* in;
  const T* gradient;
  const T* weight;
  const float* kept;
  Out<T> to;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t n = norm.features;
    const float mean = kept[2 * row];
    const float inverse = kept[2 * row + 1];
    float along = 0;
    float sum = 0;
    for (std::int64_t i = team.first(); i < n; i += team.step()) {
      const float slope = number(gradient[row * n + i]) * number(weight[i]);
      along += slope * (number(in[row * n + i]) - mean) * inverse;
      sum += slope;
    }
    const float mean_along = team.sum(along) / static_cast<float>(n);
    const float mean_slope = norm.has_mean ? team.sum(sum) / static_cast<float>(n) : 0;
    for (std::int64_t i = team.first(); i < n; i += team.step()) {
      const float slope = number(gradient[row * n + i]) * number(weight[i]);
      const float normal = (number(in[row * n + i]) - mean) * inverse;
      to.put(row * n + i, (slope - mean_slope - normal * mean_along) * inverse);
    }
  }
};

/// Returns the index of a channel's i-th element.
FUSEWISE_BOTH inline std::int64_t place_of(const Channels& c, std::int64_t channel, std::int64_t i) {
  return (i / c.inner * c.channels + channel) * c.inner + i % c.inner;
}

/// A row is a channel.
template <typename T>
struct ChannelMeansBody {
  Channels c;
  float epsilon;
  const T* in;
  float* kept;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t channel) const {
    const std::int64_t count = c.outer * c.inner;
    float sum = 0;
    for (std::int64_t i = team.first(); i < count; i += team.step())
      sum += number(in[place_of(c, channel, i)]);
    const float mean = team.sum(sum) / static_cast<float>(count);
    float squares = 0;
    for (std::int64_t i = team.first(); i < count; i += team.step()) {
      const float off = number(in[place_of(c, channel, i)]) - mean;
      squares += off * off;
    }
    const float inverse = 1 / sqrtf(team.sum(squares) / static_cast<float>(count) + epsilon);
    if (team.first() == 0) {
      kept[2 * channel] = mean;
      kept[2 * channel + 1] = inverse;
    }
  }
};

/// Sums gradient times normalized value, and the gradient.
template <typename T>
struct ChannelSlopesBody {
  Channels c;
  const T* in;
  const T* gradient;
  const float* kept;
  float* sums;
  Out<float> to_weight;
  Out<float> to_bias;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t channel) const {
    float along = 0;
    float sum = 0;
    for (std::int64_t i = team.first(); i < c.outer * c.inner; i += team.step()) {
      const std::int64_t at = place_of(c, channel, i);
      const float slope = number(gradient[at]);
      along += slope * (number(in[at]) - kept[2 * channel]) * kept[2 * channel + 1];
      sum += slope;
    }
    along = team.sum(along);
    sum = team.sum(sum);
    if (team.first() != 0) return;
    sums[2 * channel] = along;
    sums[2 * channel + 1] = sum;
    to_weight.put(channel, along);
    to_bias.put(channel, sum);
  }
};

template <typename T>
struct ChannelSumBody {
  Channels c;
  const T* in;
  Out<T> to;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t channel) const {
    float sum = 0;
    for (std::int64_t i = team.first(); i < c.outer * c.inner; i += team.step())
      sum += number(in[place_of(c, channel, i)]);
    sum = team.sum(sum);
    if (team.first() == 0) to.put(channel, sum);
  }
};

template <typename T>
struct LogSoftmaxBody {
  const T* in;
  T* out;
  std::int64_t columns;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t row) const {
    const T* x = in + row * columns;
    float max = -INFINITY;
    for (std::int64_t i = team.first(); i < columns; i += team.step()) max = fmaxf(max, number(x[i]));
    max = team.max(max);
    float sum = 0;
    for (std::int64_t i = team.first(); i < columns; i += team.step()) sum += expf(number(x[i]) - max);
    const float logarithm = logf(team.sum(sum));
    for (std::int64_t i = team.first(); i < columns; i += team.step())
      out[row * columns + i] = static_cast<T>(number(x[i]) - max - logarithm);
  }
};

template <typename T>
struct SoftmaxBody {
  Scores s;
  T* data;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t row) const {
    T* x = data + row * s.keys;
    const std::int64_t seen = s.is_causal ? row % s.queries + 1 : s.keys;
    float max = -INFINITY;
    for (std::int64_t i = team.first(); i < seen; i += team.step()) max = fmaxf(max, number(x[i]));
    max = team.max(max);
    float sum = 0;
    for (std::int64_t i = team.first(); i < seen; i += team.step())
      sum += expf((number(x[i]) - max) * s.scale);
    const float inverse = 1 / team.sum(sum);
    for (std::int64_t i = team.first(); i < s.keys; i += team.step())
      x[i] = static_cast<T>(i < seen ? expf((number(x[i]) - max) * s.scale) * inverse : 0.0F);
  }
};

template <typename T>
struct SoftmaxBackBody {
  Scores s;
  Drop drop;
  const T* weights;
  T* gradient;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t row) const {
    const bool drops = drop.below > 0;
    float along = 0;
    for (std::int64_t i = team.first(); i < s.keys; i += team.step()) {
      const std::int64_t at = row * s.keys + i;
      const float slope = number(gradient[at]) * (drops ? factor_of(drop, at) : 1.0F);
      along += slope * number(weights[at]);
    }
    along = team.sum(along);
    for (std::int64_t i = team.first(); i < s.keys; i += team.step()) {
      const std::int64_t at = row * s.keys + i;
      const float slope = number(gradient[at]) * (drops ? factor_of(drop, at) : 1.0F);
      gradient[at] = static_cast<T>((slope - along) * number(weights[at]) * s.scale);
    }
  }
};

/// A row is a sample.
template <typename T>
struct LossBody {
  Loss loss;
  const T* logarithms;
  const std::int32_t* labels;
  T* out;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t sample) const {
    float sum = 0;
    for (std::int64_t i = team.first(); i < loss.positions; i += team.step()) {
      const std::int64_t row = sample * loss.positions + i;
      sum -= number(logarithms[row * loss.classes + labels[row]]);
    }
    sum = team.sum(sum);
    if (team.first() == 0)
      out[sample] = static_cast<T>(loss.weight * sum / static_cast<float>(loss.positions));
  }
};

// ---- teams ------------------------------------------------------------------------------------------------

constexpr unsigned kTeamThreads = 256;
constexpr unsigned kWarpThreads = 32;
constexpr unsigned kTeamWarps = kTeamThreads / kWarpThreads;

struct TeamShared {
  float warps[kTeamWarps];
};

/// All threads of a block. Lane: one of them, of collectives/compression/cuda/kernels/tiles.hpp.
template <typename Lane>
class Team {
 public:
  FUSEWISE_BOTH Team(const Lane& lane, TeamShared& shared) : lane_(lane), shared_(shared) {}

  FUSEWISE_BOTH std::int64_t first() const { return lane_.thread(); }
  FUSEWISE_BOTH std::int64_t step() const { return kTeamThreads; }
  FUSEWISE_BOTH float sum(float x) const { return reduced(x, Sum{}); }
  FUSEWISE_BOTH float max(float x) const { return reduced(x, Max{}); }

 private:
  struct Sum {
    FUSEWISE_BOTH float operator()(float a, float b) const { return a + b; }
  };
  struct Max {
    FUSEWISE_BOTH float operator()(float a, float b) const { return fmaxf(a, b); }
  };

  template <typename Join>
  FUSEWISE_BOTH float reduced(float x, Join join) const {
    for (unsigned apart = kWarpThreads / 2; apart > 0; apart /= 2) x = join(x, lane_.shuffle_xor(x, apart));
    if (lane_.thread() % kWarpThreads == 0) shared_.warps[lane_.thread() / kWarpThreads] = x;
    lane_.sync();
    float out = shared_.warps[0];
    for (unsigned warp = 1; warp < kTeamWarps; ++warp) out = join(out, shared_.warps[warp]);
    lane_.sync();  // before the next writes there
    return out;
  }

  const Lane& lane_;
  TeamShared& shared_;
};

/// Runs all rows, one block after another.
template <typename Body>
struct RowsBody {
  using Shared = TeamShared;
  Body body;
  std::int64_t rows;

  template <typename Lane>
  FUSEWISE_BOTH void operator()(const Lane& lane, Shared& shared) const {
    for (std::int64_t row = lane.block(); row < rows; row += lane.blocks())
      body(Team<Lane>(lane, shared), row);
  }
};

}  // namespace profiler::cuda
