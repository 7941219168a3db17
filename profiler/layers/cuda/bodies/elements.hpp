// The work of one thread for a single element: activations, sums, moves, embeddings and rotations.

#pragma once

#include <cmath>
#include <cstdint>

#include "profiler/layers/cuda/bodies/common.hpp"

namespace profiler::cuda {

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
    const std::int64_t row = divided(i, features);
    add_to(to + (tokens[row] - row) * features + i, factor * number(gradient[i]));
  }
};

/// The same for two features at once, of an even number.
template <typename T>
struct EmbedBackPairBody {
  const std::int32_t* tokens;
  const T* gradient;
  T* to;
  std::int64_t features;
  float factor;
  FUSEWISE_BOTH void operator()(std::int64_t pair) const {
    const std::int64_t i = 2 * pair;
    const std::int64_t row = divided(i, features);
    add_pair_to(to + (tokens[row] - row) * features + i, factor * number(gradient[i]),
                factor * number(gradient[i + 1]));
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

}  // namespace profiler::cuda
