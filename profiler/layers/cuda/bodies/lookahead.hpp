// Lookahead convolution: each feature over the steps that follow.

#pragma once

#include <cmath>
#include <cstdint>

#include "profiler/layers/cuda/bodies/common.hpp"

namespace profiler::cuda {

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

}  // namespace profiler::cuda
