// Normalization by rows, channels and neighbouring channels. Bodies of rows are run by a team of threads,
// each with every step()-th element from first() on.

#pragma once

#include <cmath>
#include <cstdint>

#include "profiler/layers/cuda/bodies/common.hpp"

namespace profiler::cuda {

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

FUSEWISE_BOTH inline std::int64_t channel_of(const Channels& c, std::int64_t i) {
  const std::int64_t block = divided(i, c.inner);
  return block - divided(block, c.channels) * c.channels;
}

template <typename T>
struct ChannelNormBody {
  Channels c;
  const T* in;
  const float* weight;
  const float* bias;
  const float* kept;
  T* out;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t channel = channel_of(c, i);
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
    const std::int64_t channel = channel_of(c, i);
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
  const std::int64_t block = divided(i, c.inner);
  return (block * c.channels + channel) * c.inner + i - block * c.inner;
}

/// Elements of a channel from `begin` to `end`.
struct ChannelPart {
  std::int64_t channel;
  std::int64_t begin;
  std::int64_t end;
};

/// Row r of the parts of all channels, where each channel has `parts`.
FUSEWISE_BOTH inline ChannelPart channel_part(const Channels& c, std::int64_t parts, std::int64_t r) {
  const std::int64_t channel = r / parts;
  const std::int64_t part = r % parts;
  return {channel, part * (c.outer * c.inner) / parts, (part + 1) * (c.outer * c.inner) / parts};
}

/// The mean of each part, and the squares of the distances from it.
template <typename T>
struct ChannelMeansBody {
  Channels c;
  std::int64_t parts;
  const T* in;
  float* partial;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t r) const {
    const ChannelPart part = channel_part(c, parts, r);
    float sum = 0;
    for (std::int64_t i = part.begin + team.first(); i < part.end; i += team.step())
      sum += number(in[place_of(c, part.channel, i)]);
    const float mean = team.sum(sum) / static_cast<float>(part.end - part.begin);
    float squares = 0;
    for (std::int64_t i = part.begin + team.first(); i < part.end; i += team.step()) {
      const float off = number(in[place_of(c, part.channel, i)]) - mean;
      squares += off * off;
    }
    squares = team.sum(squares);
    if (team.first() != 0) return;
    partial[2 * r] = mean;
    partial[2 * r + 1] = squares;
  }
};

/// Joins means and squares of a channel's parts, one after the other (Chan, Golub and LeVeque 1979).
struct ChannelJoinBody {
  Channels c;
  std::int64_t parts;
  float epsilon;
  const float* partial;
  float* kept;

  FUSEWISE_BOTH void operator()(std::int64_t channel) const {
    float count = 0;
    float mean = 0;
    float squares = 0;
    for (std::int64_t r = channel * parts; r < (channel + 1) * parts; ++r) {
      const ChannelPart part = channel_part(c, parts, r);
      const auto more = static_cast<float>(part.end - part.begin);
      const float share = more / (count + more);
      const float apart = partial[2 * r] - mean;
      mean += apart * share;
      squares += partial[2 * r + 1] + apart * apart * count * share;
      count += more;
    }
    kept[2 * channel] = mean;
    kept[2 * channel + 1] = 1 / sqrtf(squares / count + epsilon);
  }
};

/// Sums gradient times normalized value, and the gradient, of each part.
template <typename T>
struct ChannelSlopesBody {
  Channels c;
  std::int64_t parts;
  const T* in;
  const T* gradient;
  const float* kept;
  float* partial;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t r) const {
    const ChannelPart part = channel_part(c, parts, r);
    const float mean = kept[2 * part.channel];
    const float inverse = kept[2 * part.channel + 1];
    float along = 0;
    float sum = 0;
    for (std::int64_t i = part.begin + team.first(); i < part.end; i += team.step()) {
      const std::int64_t at = place_of(c, part.channel, i);
      const float slope = number(gradient[at]);
      along += slope * (number(in[at]) - mean) * inverse;
      sum += slope;
    }
    along = team.sum(along);
    sum = team.sum(sum);
    if (team.first() != 0) return;
    partial[2 * r] = along;
    partial[2 * r + 1] = sum;
  }
};

struct ChannelSlopesJoinBody {
  std::int64_t parts;
  const float* partial;
  float* sums;
  Out<float> to_weight;
  Out<float> to_bias;

  FUSEWISE_BOTH void operator()(std::int64_t channel) const {
    float along = 0;
    float sum = 0;
    for (std::int64_t r = channel * parts; r < (channel + 1) * parts; ++r) {
      along += partial[2 * r];
      sum += partial[2 * r + 1];
    }
    sums[2 * channel] = along;
    sums[2 * channel + 1] = sum;
    to_weight.put(channel, along);
    to_bias.put(channel, sum);
  }
};

template <typename T>
struct ChannelSumBody {
  Channels c;
  std::int64_t parts;
  const T* in;
  float* partial;

  template <typename Team>
  FUSEWISE_BOTH void operator()(const Team& team, std::int64_t r) const {
    const ChannelPart part = channel_part(c, parts, r);
    float sum = 0;
    for (std::int64_t i = part.begin + team.first(); i < part.end; i += team.step())
      sum += number(in[place_of(c, part.channel, i)]);
    sum = team.sum(sum);
    if (team.first() == 0) partial[r] = sum;
  }
};

template <typename T>
struct ChannelSumJoinBody {
  std::int64_t parts;
  const float* partial;
  Out<T> to;

  FUSEWISE_BOTH void operator()(std::int64_t channel) const {
    float sum = 0;
    for (std::int64_t r = channel * parts; r < (channel + 1) * parts; ++r) sum += partial[r];
    to.put(channel, sum);
  }
};

}  // namespace profiler::cuda
