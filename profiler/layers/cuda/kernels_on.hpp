// Maps each call to its bodies. Launch: each(body, count) for every element, rows(body, count) for every row
// with a team, short_rows(body, count) with a warp, hold(...) as in Kernels.

#pragma once

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
    with(type, [&](auto t) { each(FillBody<decltype(t)>{of<decltype(t)>(out), value}, count); });
  }
  void map(Type type, const Map& m, const void* in, void* out, std::int64_t count) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(MapBody<T>{m, of<T>(in), of<T>(out)}, count);
    });
  }
  void map_back(Type type, const Map& m, const void* in, const void* gradient, Sink to,
                std::int64_t count) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(MapBackBody<T>{m, of<T>(in), of<T>(gradient), of<T>(to)}, count);
    });
  }
  void drop(Type type, const Drop& d, const void* in, Sink to, std::int64_t count) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(DropBody<T>{d, of<T>(in), of<T>(to)}, count);
    });
  }
  void accumulate(Type type, const void* in, Sink to, std::int64_t count) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(AccumulateBody<T>{of<T>(in), of<T>(to)}, count);
    });
  }
  void add(Type type, const void* a, const void* b, void* out, std::int64_t count) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(AddBody<T>{of<T>(a), of<T>(b), of<T>(out)}, count);
    });
  }
  void multiply(Type type, const void* a, const void* b, Sink to, std::int64_t count) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(MultiplyBody<T>{of<T>(a), of<T>(b), of<T>(to)}, count);
    });
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
    with(type, [&](auto t) {
      using T = decltype(t);
      each(EmbedBody<T>{tokens, of<T>(table), of<T>(out), features, factor}, rows * features);
    });
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
    with(type, [&](auto t) {
      using T = decltype(t);
      each(SumRowsBody<T>{of<T>(in), of<T>(to), rows, columns}, columns);
    });
  }
  void add_table(Type type, const void* in, const float* table, void* out, std::int64_t count,
                 std::int64_t period) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(AddTableBody<T>{of<T>(in), table, of<T>(out), period}, count);
    });
  }
  void rotate(Type type, const Rotation& r, const void* in, const float* angles, Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(RotateBody<T>{r, of<T>(in), angles, of<T>(to)}, r.rows * r.heads * r.pairs);
    });
  }
  void row_norm(Type type, const RowNorm& n, const void* in, const void* weight, const void* bias, void* out,
                float* kept) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(RowNormBody<T>{n, of<T>(in), of<T>(weight), of<T>(bias), of<T>(out), kept}, n.rows, n.features);
    });
  }
  void row_norm_back(Type type, const RowNorm& n, const void* in, const void* gradient, const void* weight,
                     const float* kept, Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(RowNormBackBody<T>{n, of<T>(in), of<T>(gradient), of<T>(weight), kept, of<T>(to)}, n.rows,
           n.features);
    });
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
    with(type, [&](auto t) {
      using T = decltype(t);
      each(NeighbourNormBody<T>{c, n, of<T>(in), of<T>(out), kept}, c.of_one() * c.channels);
    });
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
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(LogSoftmaxBody<T>{of<T>(in), of<T>(out), columns}, count, columns);
    });
  }
  void softmax(Type type, const Scores& s, void* data) override {
    with(type, [&](auto t) { rows(SoftmaxBody<decltype(t)>{s, of<decltype(t)>(data)}, s.rows, s.keys); });
  }
  void softmax_back(Type type, const Scores& s, const Drop& d, const void* weights, void* gradient) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(SoftmaxBackBody<T>{s, d, of<T>(weights), of<T>(gradient)}, s.rows, s.keys);
    });
  }
  void loss(Type type, const Loss& l, const void* logarithms, const std::int32_t* labels,
            void* out) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      rows(LossBody<T>{l, of<T>(logarithms), labels, of<T>(out)}, l.batch, l.positions);
    });
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
    with(type, [&](auto t) {
      using T = decltype(t);
      each(AheadBody<T>{a, of<T>(in), of<T>(weight), of<T>(out)}, a.batch * a.length * a.features);
    });
  }
  void ahead_back(Type type, const LookaheadSizes& a, const void* gradient, const void* weight,
                  Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(AheadBackBody<T>{a, of<T>(gradient), of<T>(weight), of<T>(to)}, a.batch * a.length * a.features);
    });
  }
  void ahead_weight(Type type, const LookaheadSizes& a, const void* in, const void* gradient,
                    Sink to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(AheadWeightBody<T>{a, of<T>(in), of<T>(gradient), of<T>(to)}, a.features * a.steps);
    });
  }
  void pool(Type type, const Windows& w, const void* in, void* out, std::int32_t* places) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(PoolBody<T>{w, of<T>(in), of<T>(out), places}, count_of(w));
    });
  }
  void pool_back(Type type, const Windows& w, const void* gradient, const std::int32_t* places,
                 void* to) override {
    with(type, [&](auto t) {
      using T = decltype(t);
      each(PoolBackBody<T>{w, of<T>(gradient), places, of<T>(to)}, count_of(w));
    });
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
