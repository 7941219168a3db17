// Pooling over windows.

#pragma once

#include <cmath>
#include <cstdint>

#include "profiler/layers/cuda/bodies/common.hpp"

namespace profiler::cuda {

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

}  // namespace profiler::cuda
