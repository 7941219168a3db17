// Runs every own kernel once, on a few numbers: for a GPU, for memory checkers, and for the host.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "collectives/compression/half.hpp"
#include "profiler/layers/cuda/kernels.hpp"
#include "sim/draws.hpp"

namespace support {

/// Allocates at least that many bytes that kernels and the host see at one address; the provider frees them.
using Give = std::function<void*(std::size_t bytes)>;

class EveryKernel {
 public:
  /// `wait` returns once everything launched has ended.
  EveryKernel(profiler::cuda::Kernels& kernels, profiler::cuda::Type type, Give give,
              std::function<void()> wait)
      : kernels_(kernels), type_(type), give_(std::move(give)), wait_(std::move(wait)) {}

  /// Returns the results of all, one after another.
  std::vector<float> run() {
    elements();
    rows();
    channels();
    sequences();
    pools();
    return out_;
  }

 private:
  using Sink = profiler::cuda::Sink;

  static constexpr std::int64_t kRows = 5;
  static constexpr std::int64_t kColumns = 37;
  static constexpr std::int64_t kCount = kRows * kColumns;

  /// Returns numbers of the type: random, or all the same.
  void* sampled(std::int64_t count, std::uint64_t seed) {
    return made(
        count, [&](std::uint64_t i) { return static_cast<float>(sim::standard_normal(sim::hash(seed, i))); });
  }
  void* half_ones(std::int64_t count) {
    return made(count, [](std::uint64_t) { return 0.5F; });
  }
  void* made(std::int64_t count, const std::function<float(std::uint64_t)>& value) {
    const std::size_t width = type_ == profiler::cuda::Type::float32 ? 4 : 2;
    auto* const out = static_cast<char*>(give_(static_cast<std::size_t>(count) * width));
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = value(static_cast<std::uint64_t>(i));
      const std::uint16_t bits =
          type_ == profiler::cuda::Type::float16 ? compression::to_float16(x) : compression::to_bfloat16(x);
      std::memcpy(out + static_cast<std::size_t>(i) * width,
                  width == 4 ? static_cast<const void*>(&x) : static_cast<const void*>(&bits), width);
    }
    return out;
  }
  float* floats(std::int64_t count, float value) {
    auto* const out = static_cast<float*>(give_(static_cast<std::size_t>(count) * sizeof(float)));
    std::fill_n(out, count, value);
    return out;
  }
  std::int32_t* whole(const std::vector<std::int32_t>& values) {
    auto* const out = static_cast<std::int32_t*>(give_(values.size() * sizeof(std::int32_t)));
    std::copy(values.begin(), values.end(), out);
    return out;
  }

  void keep(const void* data, std::int64_t count) {
    wait_();
    for (std::int64_t i = 0; i < count; ++i) {
      if (type_ == profiler::cuda::Type::float32) {
        out_.push_back(static_cast<const float*>(data)[i]);
        continue;
      }
      const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
      out_.push_back(type_ == profiler::cuda::Type::float16 ? compression::from_float16(bits)
                                                            : compression::from_bfloat16(bits));
    }
  }
  void keep_floats(const float* data, std::int64_t count) {
    wait_();
    out_.insert(out_.end(), data, data + count);
  }

  void elements() {
    using profiler::cuda::Function;
    void* const a = sampled(kCount, 1);
    void* const b = sampled(kCount, 2);
    void* const to = half_ones(kCount);
    const auto kept = [&] { keep(to, kCount); };
    kernels_.fill(type_, to, 0.25F, kCount);
    kept();
    for (const Function function : {Function::relu, Function::tanh, Function::gelu, Function::gelu_tanh,
                                    Function::silu, Function::hardtanh}) {
      const profiler::cuda::Map map = {function, -1, 1};
      kernels_.map(type_, map, a, to, kCount);
      kept();
      kernels_.map_back(type_, map, a, b, {to, true}, kCount);
      kept();
    }
    kernels_.drop(type_, {3, 1U << 14U, 1.5F}, a, {to, false}, kCount);
    kept();
    kernels_.accumulate(type_, b, {to, true}, kCount);
    kept();
    kernels_.add(type_, a, b, to, kCount);
    kept();
    kernels_.multiply(type_, a, b, {to, true}, kCount);
    kept();
    kernels_.move(type_, {2, {kRows, kColumns}, {kColumns, 1}, {1, kRows}}, a, {to, false});
    kept();
    kernels_.add_table(type_, a, floats(kColumns, 0.5F), to, kCount, kColumns);
    kept();
    void* const sums = half_ones(kColumns);
    kernels_.sum_rows(type_, a, {sums, true}, kRows, kColumns);
    keep(sums, kColumns);
  }

  void rows() {
    void* const x = sampled(kCount, 3);
    void* const dy = sampled(kCount, 4);
    void* const weight = sampled(kColumns, 5);
    void* const to = half_ones(kCount);
    for (const bool has_mean : {false, true}) {
      const profiler::cuda::RowNorm norm = {kRows, kColumns, 1e-5F, has_mean};
      float* const kept = floats(2 * kRows, 0);
      kernels_.row_norm(type_, norm, x, weight, has_mean ? weight : nullptr, to, kept);
      keep(to, kCount);
      keep_floats(kept, 2 * kRows);
      kernels_.row_norm_back(type_, norm, x, dy, weight, kept, {to, true});
      keep(to, kCount);
      void* const of_weight = half_ones(kColumns);
      void* const of_bias = half_ones(kColumns);
      kernels_.row_norm_weights(type_, norm, x, dy, kept, floats(2 * 3 * kColumns, 0), 3, {of_weight, true},
                                has_mean ? Sink{of_bias, false} : Sink{});
      keep(of_weight, kColumns);
      keep(of_bias, kColumns);
    }
    for (const bool is_causal : {false, true}) {
      const profiler::cuda::Scores scores = {kRows, kRows, kColumns, 0.3F, is_causal};
      void* const weights = sampled(kCount, 6);
      void* const slopes = sampled(kCount, 7);
      kernels_.softmax(type_, scores, weights);
      kernels_.softmax_back(type_, scores, {11, 1U << 14U, 4.0F / 3}, weights, slopes);
      keep(weights, kCount);
      keep(slopes, kCount);
    }
    const profiler::cuda::Loss loss = {1, kRows, kColumns, 0.7F};
    const std::int32_t* const labels = whole({0, 1, 36, 20, 7});
    void* const logarithms = half_ones(kCount);
    void* const lost = half_ones(1);
    kernels_.log_softmax(type_, x, logarithms, kRows, kColumns);
    kernels_.loss(type_, loss, logarithms, labels, lost);
    kernels_.loss_back(type_, loss, logarithms, labels, half_ones(1), {to, false});
    keep(logarithms, kCount);
    keep(lost, 1);
    constexpr std::int64_t kLong = 3 * 256 + 5;  // a block's row; the others are a warp's
    void* const long_logarithms = half_ones(kRows * kLong);
    kernels_.log_softmax(type_, sampled(kRows * kLong, 16), long_logarithms, kRows, kLong);
    keep(long_logarithms, kRows * kLong);
    keep(to, kCount);
  }

  void channels() {
    const profiler::cuda::Channels shape = {2, 3, 11};
    const std::int64_t count = shape.of_one() * shape.channels;
    void* const x = sampled(count, 8);
    void* const dy = sampled(count, 9);
    void* const to = half_ones(count);
    float* const kept = floats(2 * shape.channels, 0);
    float* const of_weights = floats(2 * shape.channels, 1);
    constexpr std::int64_t kParts = 3;
    float* const partial = floats(2 * kParts * shape.channels, 0);
    kernels_.channel_norm(type_, shape, kParts, 1e-5F, x, floats(shape.channels, 2),
                          floats(shape.channels, 1), to, kept, partial);
    keep(to, count);
    kernels_.channel_norm_back(type_, shape, kParts, x, dy, floats(shape.channels, 2), kept,
                               floats(2 * shape.channels, 0), partial, {to, false}, {of_weights, true},
                               {of_weights + shape.channels, false});
    keep(to, count);
    keep_floats(kept, 2 * shape.channels);
    keep_floats(of_weights, 2 * shape.channels);
    void* const sums = half_ones(shape.channels);
    kernels_.sum_channels(type_, shape, kParts, x, partial, {sums, true});
    keep(sums, shape.channels);
    const profiler::cuda::Neighbours neighbours = {1, 1, 0.1F, 0.75F, 2};
    float* const bases = floats(count, 0);
    kernels_.neighbour_norm(type_, shape, neighbours, x, to, bases);
    keep(to, count);
    kernels_.neighbour_norm_back(type_, shape, neighbours, x, dy, bases, {to, true});
    keep(to, count);
  }

  void sequences() {
    const std::int32_t* const tokens = whole({4, 0, 4, 2, 1});
    void* const table = sampled(5 * kColumns, 10);
    void* const to = half_ones(kCount);
    kernels_.embed(type_, tokens, table, to, kRows, kColumns, 2);
    keep(to, kCount);
    kernels_.embed_back(type_, tokens, sampled(kCount, 11), table, kRows, kColumns, 0.5F);
    keep(table, 5 * kColumns);
    void* const even = sampled(5 * (kColumns - 1), 15);
    kernels_.embed_back(type_, tokens, sampled(kCount, 11), even, kRows, kColumns - 1, 0.5F);
    keep(even, 5 * (kColumns - 1));
    const profiler::cuda::Rotation rotation = {3, 3, 2, 4, -1};
    const std::int64_t turned = rotation.rows * rotation.heads * 2 * rotation.pairs;
    void* const rotated = half_ones(turned);
    kernels_.rotate(type_, rotation, sampled(turned, 12), floats(rotation.length * 2 * rotation.pairs, 0.6F),
                    {rotated, true});
    keep(rotated, turned);
    const profiler::cuda::LookaheadSizes ahead = {2, 4, 6, 3};
    const std::int64_t count = ahead.batch * ahead.length * ahead.features;
    void* const x = sampled(count, 13);
    void* const weight = sampled(ahead.features * ahead.steps, 14);
    void* const of_weight = half_ones(ahead.features * ahead.steps);
    void* const result = half_ones(count);
    kernels_.ahead(type_, ahead, x, weight, result);
    keep(result, count);
    kernels_.ahead_back(type_, ahead, x, weight, {result, true});
    keep(result, count);
    kernels_.ahead_weight(type_, ahead, x, x, {of_weight, false});
    keep(of_weight, ahead.features * ahead.steps);
  }

  void pools() {
    const profiler::cuda::Side side = {.in = 7, .out = 4, .kernel = 3, .stride = 2, .padding = 1};
    for (const bool is_max : {false, true}) {
      const profiler::cuda::Windows windows = {2, side, side, is_max, true};
      const std::int64_t results = 2 * side.out * side.out;
      void* const to = half_ones(results);
      void* const gradient = half_ones(2 * side.in * side.in);
      std::int32_t* const places = whole(std::vector<std::int32_t>(static_cast<std::size_t>(results)));
      kernels_.pool(type_, windows, sampled(2 * side.in * side.in, 15), to, places);
      kernels_.pool_back(type_, windows, sampled(results, 16), places, gradient);
      keep(to, results);
      keep(gradient, 2 * side.in * side.in);
    }
  }

  profiler::cuda::Kernels& kernels_;
  profiler::cuda::Type type_;
  Give give_;
  std::function<void()> wait_;
  std::vector<float> out_;
};

/// Runs on host memory.
inline std::vector<float> every_kernel_here(profiler::cuda::Kernels& kernels, profiler::cuda::Type type) {
  std::vector<std::vector<std::uint64_t>> memory;
  const Give give = [&](std::size_t bytes) -> void* { return memory.emplace_back(bytes / 8 + 1).data(); };
  return EveryKernel(kernels, type, give, [] {}).run();
}

/// Tolerance for two orders of the same sum, relative to terms of the order of 1.
inline double order_tolerance(profiler::cuda::Type type) {
  if (type == profiler::cuda::Type::float32) return 2e-5;
  return type == profiler::cuda::Type::float16 ? 0x1p-8 : 0x1p-5;
}

}  // namespace support
