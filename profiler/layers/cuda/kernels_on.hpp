// Maps each call to its bodies. Launch: each(body, count) for every element, rows(body, count) for every row
// with a team, short_rows(body, count) with a warp, hold(...) as in Kernels.

#pragma once

#include <type_traits>
#include <utility>

#include "profiler/layers/cuda/bodies/elements.hpp"
#include "profiler/layers/cuda/bodies/lookahead.hpp"
#include "profiler/layers/cuda/bodies/norms.hpp"
#include "profiler/layers/cuda/bodies/pools.hpp"
#include "profiler/layers/cuda/bodies/softmax.hpp"
#include "profiler/layers/cuda/bodies/teams.hpp"

namespace profiler::cuda {

template <typename T>
const T* of(const void* data) {
  return static_cast<const T*>(data);
}

template <typename T>
T* of(void* data) {
  return static_cast<T*>(data);
}

template <typename T>
Out<T> of(const Sink& sink) {
  return {static_cast<T*>(sink.data), sink.add};
}

/// An argument of a body: memory and sinks become those of the type T, and all else stays as it is.
template <typename T, typename Argument>
auto typed(const Argument& argument) {
  if constexpr (std::is_void_v<std::remove_pointer_t<Argument>> || std::is_same_v<Argument, Sink>)
    return of<T>(argument);
  else
    return argument;
}

inline std::int64_t count_of(const Move& move) {
  std::int64_t out = 1;
  for (int d = 0; d < move.dimensions; ++d) out *= move.sizes[d];
  return out;
}

inline std::int64_t count_of(const Windows& w) { return w.planes * w.rows.out * w.columns.out; }

template <typename Launch>
class KernelsOn : public Kernels {
 public:
  template <typename... Arguments>
  explicit KernelsOn(Arguments&&... arguments) : launch_(std::forward<Arguments>(arguments)...) {}

  void hold(const int* flag, int ticket, std::int64_t max_ns, int* late) override {
    launch_.hold(flag, ticket, max_ns, late);
  }
  void fill(Type type, void* out, float value, std::int64_t count) override {
    each_of<FillBody>(type, count, out, value);
  }
  void map(Type type, const Map& m, const void* in, void* out, std::int64_t count) override {
    each_of<MapBody>(type, count, m, in, out);
  }
  void map_back(Type type, const Map& m, const void* in, const void* gradient, Sink to,
                std::int64_t count) override {
    each_of<MapBackBody>(type, count, m, in, gradient, to);
  }
  void drop(Type type, const Drop& d, const void* in, Sink to, std::int64_t count) override {
    each_of<DropBody>(type, count, d, in, to);
  }
  void accumulate(Type type, const void* in, Sink to, std::int64_t count) override {
    each_of<AccumulateBody>(type, count, in, to);
  }
  void add(Type type, const void* a, const void* b, void* out, std::int64_t count) override {
    each_of<AddBody>(type, count, a, b, out);
  }
  void multiply(Type type, const void* a, const void* b, Sink to, std::int64_t count) override {
    each_of<MultiplyBody>(type, count, a, b, to);
  }
  void move(Type type, const Move& m, const void* in, Sink to) override {
    constexpr std::int64_t kMaxNarrow = 0xffffffff;
    const std::int64_t count = count_of(m);
    with(type, [&](auto t) {
      using T = decltype(t);
      if (count <= kMaxNarrow)
        each(MoveBody<T, std::uint32_t>{m, of<T>(in), of<T>(to)}, count);
      else
        each(MoveBody<T, std::int64_t>{m, of<T>(in), of<T>(to)}, count);
    });
  }
  void embed(Type type, const std::int32_t* tokens, const void* table, void* out, std::int64_t rows,
             std::int64_t features, float factor) override {
    each_of<EmbedBody>(type, rows * features, tokens, table, out, features, factor);
  }
  void embed_back(Type type, const std::int32_t* tokens, const void* gradient, void* to, std::int64_t rows,
                  std::int64_t features, float factor) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      if (features % 2 == 0)
        each(EmbedBackPairBody<T>{tokens, of<T>(gradient), of<T>(to), features, factor}, rows * features / 2);
      else
        each(EmbedBackBody<T>{tokens, of<T>(gradient), of<T>(to), features, factor}, rows * features);
    });
  }
  void sum_rows(Type type, const void* in, Sink to, std::int64_t rows, std::int64_t columns) override {
    each_of<SumRowsBody>(type, columns, in, to, rows, columns);
  }
  void add_table(Type type, const void* in, const float* table, void* out, std::int64_t count,
                 std::int64_t period) override {
    each_of<AddTableBody>(type, count, in, table, out, period);
  }
  void rotate(Type type, const Rotation& r, const void* in, const float* angles, Sink to) override {
    each_of<RotateBody>(type, r.rows * r.heads * r.pairs, r, in, angles, to);
  }
  void row_norm(Type type, const RowNorm& n, const void* in, const void* weight, const void* bias, void* out,
                float* kept) override {
    rows_of<RowNormBody>(type, n.rows, n.features, n, in, weight, bias, out, kept);
  }
  void row_norm_back(Type type, const RowNorm& n, const void* in, const void* gradient, const void* weight,
                     const float* kept, Sink to) override {
    rows_of<RowNormBackBody>(type, n.rows, n.features, n, in, gradient, weight, kept, to);
  }
  void row_norm_weights(Type type, const RowNorm& n, const void* in, const void* gradient, const float* kept,
                        float* partial, std::int64_t parts, Sink weight, Sink bias) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      const std::int64_t all = parts * n.features;
      each(RowNormPartsBody<T>{n, of<T>(in), of<T>(gradient), kept, partial, parts}, all);
      each(SumPartsBody<T>{partial, of<T>(weight), parts, n.features}, n.features);
      if (bias.data != nullptr)
        each(SumPartsBody<T>{partial + all, of<T>(bias), parts, n.features}, n.features);
    });
  }
  void channel_norm(Type type, const Channels& c, std::int64_t parts, float epsilon, const void* in,
                    const float* weight, const float* bias, void* out, float* kept, float* partial) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(ChannelMeansBody<T>{c, parts, of<T>(in), partial}, parts * c.channels, c.of_one() / parts);
      each(ChannelJoinBody{c, parts, epsilon, partial, kept}, c.channels);
      each(ChannelNormBody<T>{c, of<T>(in), weight, bias, kept, of<T>(out)}, c.of_one() * c.channels);
    });
  }
  void channel_norm_back(Type type, const Channels& c, std::int64_t parts, const void* in,
                         const void* gradient, const float* weight, const float* kept, float* sums,
                         float* partial, Sink to, Sink to_weight, Sink to_bias) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(ChannelSlopesBody<T>{c, parts, of<T>(in), of<T>(gradient), kept, partial}, parts * c.channels,
           c.of_one() / parts);
      each(ChannelSlopesJoinBody{parts, partial, sums, of<float>(to_weight), of<float>(to_bias)}, c.channels);
      if (to.data != nullptr)
        each(ChannelNormBackBody<T>{c, of<T>(in), of<T>(gradient), weight, kept, sums, of<T>(to)},
             c.of_one() * c.channels);
    });
  }
  void sum_channels(Type type, const Channels& c, std::int64_t parts, const void* in, float* partial,
                    Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(ChannelSumBody<T>{c, parts, of<T>(in), partial}, parts * c.channels, c.of_one() / parts);
      each(ChannelSumJoinBody<T>{parts, partial, of<T>(to)}, c.channels);
    });
  }
  void neighbour_norm(Type type, const Channels& c, const Neighbours& n, const void* in, void* out,
                      float* kept) override {
    each_of<NeighbourNormBody>(type, c.of_one() * c.channels, c, n, in, out, kept);
  }
  void neighbour_norm_back(Type type, const Channels& c, const Neighbours& n, const void* in,
                           const void* gradient, const float* kept, Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(NeighbourNormBackBody<T>{c, n, of<T>(in), of<T>(gradient), kept, of<T>(to)},
           c.of_one() * c.channels);
    });
  }
  void log_softmax(Type type, const void* in, void* out, std::int64_t count, std::int64_t columns) override {
    rows_of<LogSoftmaxBody>(type, count, columns, in, out, columns);
  }
  void softmax(Type type, const Scores& s, void* data) override {
    rows_of<SoftmaxBody>(type, s.rows, s.keys, s, data);
  }
  void softmax_back(Type type, const Scores& s, const Drop& d, const void* weights, void* gradient) override {
    rows_of<SoftmaxBackBody>(type, s.rows, s.keys, s, d, weights, gradient);
  }
  void loss(Type type, const Loss& l, const void* logarithms, const std::int32_t* labels,
            void* out) override {
    rows_of<LossBody>(type, l.batch, l.positions, l, logarithms, labels, out);
  }
  void loss_back(Type type, const Loss& l, const void* logarithms, const std::int32_t* labels,
                 const void* gradient, Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(LossBackBody<T>{l, of<T>(logarithms), labels, of<T>(gradient), of<T>(to)},
           l.batch * l.positions * l.classes);
    });
  }
  void ahead(Type type, const LookaheadSizes& a, const void* in, const void* weight, void* out) override {
    each_of<AheadBody>(type, a.batch * a.length * a.features, a, in, weight, out);
  }
  void ahead_back(Type type, const LookaheadSizes& a, const void* gradient, const void* weight,
                  Sink to) override {
    each_of<AheadBackBody>(type, a.batch * a.length * a.features, a, gradient, weight, to);
  }
  void ahead_weight(Type type, const LookaheadSizes& a, const void* in, const void* gradient,
                    Sink to) override {
    each_of<AheadWeightBody>(type, a.features * a.steps, a, in, gradient, to);
  }
  void pool(Type type, const Windows& w, const void* in, void* out, std::int32_t* places) override {
    each_of<PoolBody>(type, count_of(w), w, in, out, places);
  }
  void pool_back(Type type, const Windows& w, const void* gradient, const std::int32_t* places,
                 void* to) override {
    each_of<PoolBackBody>(type, count_of(w), w, gradient, places, to);
  }

 private:
  /// Calls work(a value of the type).
  template <typename Work>
  static void with(Type type, Work work) {
    switch (type) {
      case Type::float32: return work(float{});
      case Type::float16: return work(__half{});
      case Type::bfloat16: return work(__nv_bfloat16{});
    }
  }

  template <template <typename> class Body, typename... Arguments>
  void each_of(Type type, std::int64_t count, const Arguments&... arguments) {
    with(type, [&](auto t) { each(Body<decltype(t)>{typed<decltype(t)>(arguments)...}, count); });
  }
  template <template <typename> class Body, typename... Arguments>
  void rows_of(Type type, std::int64_t count, std::int64_t length, const Arguments&... arguments) {
    with(type, [&](auto t) { rows(Body<decltype(t)>{typed<decltype(t)>(arguments)...}, count, length); });
  }

  template <typename Body>
  void each(const Body& body, std::int64_t count) {
    if (count > 0) launch_.each(body, count);
  }
  /// `length`: elements of a row. A warp is enough for a short one.
  template <typename Body>
  void rows(const Body& body, std::int64_t count, std::int64_t length) {
    if (count <= 0) return;
    if (length <= kTeamThreads)
      launch_.short_rows(body, count);
    else
      launch_.rows(body, count);
  }

  Launch launch_;
};

}  // namespace profiler::cuda
