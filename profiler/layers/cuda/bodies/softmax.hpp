// Softmax and its loss, a row for each team of threads.

#pragma once

#include <cmath>
#include <cstdint>

#include "profiler/layers/cuda/bodies/common.hpp"

namespace profiler::cuda {

template <typename T>
struct LossBackBody {
  Loss loss;
  const T* logarithms;
  const std::int32_t* labels;
  const T* gradient;
  Out<T> to;
  FUSEWISE_BOTH void operator()(std::int64_t i) const {
    const std::int64_t row = divided(i, loss.classes);
    const float hit = labels[row] == i - row * loss.classes ? 1.0F : 0.0F;
    const float factor =
        loss.weight / static_cast<float>(loss.positions) * number(gradient[divided(row, loss.positions)]);
    to.put(i, factor * (expf(number(logarithms[i])) - hit));
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

}  // namespace profiler::cuda
