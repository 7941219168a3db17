// The operations that no library provides, behind an interface in C++17 without CUDA types, because nvcc
// reads it too. Each call enqueues work on a stream and returns; pointers are the device's. KernelsOn
// (kernels_on.hpp) runs the same sequence of bodies on a GPU (own_kernels.cu) and on the tests' host.

#pragma once

#include <cstdint>

namespace profiler::cuda {

/// The storage type of results, gradients and weights; sums are always float32.
enum class Type { float32, float16, bfloat16 };

/// The destination of a gradient; null data: it is not needed.
struct Sink {
  void* data = nullptr;
  bool add = false;  ///< adds to the destination instead of replacing it
};

enum class Function { relu, tanh, gelu, gelu_tanh, silu, hardtanh };

struct Map {
  Function function = Function::gelu;
  float min = 0;  ///< of hardtanh
  float max = 0;
};

/// As on the CPU: a random number of 16 bits under `below` drops an element, the others are multiplied by
/// `kept`.
struct Drop {
  std::uint64_t seed = 0;
  std::uint32_t below = 0;
  float kept = 1;
};

constexpr int kMaxDimensions = 6;

/// Moves element (i, j, ...) from Σ i from_stride to Σ i to_stride.
struct Move {
  int dimensions = 0;
  std::int64_t sizes[kMaxDimensions] = {};
  std::int64_t from_strides[kMaxDimensions] = {};
  std::int64_t to_strides[kMaxDimensions] = {};
};

/// Rows of `features` contiguous elements; `kept` holds each row's mean and the inverse of its deviation.
struct RowNorm {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  float epsilon = 0;
  bool has_mean = true;
};

/// Blocks of `inner` elements of one channel; each channel has `outer` blocks, which are `channels` blocks
/// apart.
struct Channels {
  std::int64_t outer = 0;
  std::int64_t channels = 0;
  std::int64_t inner = 0;

  std::int64_t of_one() const { return outer * inner; }
};

/// In how many parts a channel is summed, so that few channels fill a GPU, too, and no part is short.
inline std::int64_t parts_of(const Channels& channels) {
  constexpr std::int64_t kMaxRows = 2048;  // channels x parts, unless there are more channels
  constexpr std::int64_t kMinElements = 2048;
  const std::int64_t by_rows = kMaxRows / channels.channels;
  const std::int64_t by_elements = channels.of_one() / kMinElements;
  const std::int64_t parts = by_rows < by_elements ? by_rows : by_elements;
  return parts > 1 ? parts : 1;
}

/// The divisor of an element: (k + factor x the squares of the channels around its own)^beta.
struct Neighbours {
  std::int64_t before = 0;  ///< channels
  std::int64_t after = 0;
  float factor = 0;
  float beta = 0;
  float k = 0;
};

struct Scores {
  std::int64_t rows = 0;     ///< of all heads and samples
  std::int64_t queries = 0;  ///< rows of one head
  std::int64_t keys = 0;
  float scale = 1;
  bool is_causal = false;
};

struct Loss {
  std::int64_t batch = 0;
  std::int64_t positions = 0;
  std::int64_t classes = 0;
  float weight = 1;
};

/// Pairs of features of each head; `angles` holds a position's cosines, then its sines.
struct Rotation {
  std::int64_t rows = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;
  std::int64_t pairs = 0;
  float direction = 1;
};

struct LookaheadSizes {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t features = 0;
  std::int64_t steps = 0;  ///< including its own position
};

/// Windows along one side of a plane: from begin(i) to end(i), clipped to the input.
struct Side {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 0;  ///< 0: adaptive, in/out wide
  std::int64_t stride = 0;
  std::int64_t padding = 0;
};

struct Windows {
  std::int64_t planes = 0;
  Side rows;
  Side columns;
  bool is_max = false;
  bool count_padding = false;
};

class Kernels {
 public:
  Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  virtual ~Kernels() = default;

  /// Holds the stream until *flag is at least `ticket`; after `max_ns` it continues and increments *late.
  virtual void hold(const int* flag, int ticket, std::int64_t max_ns, int* late) = 0;

  virtual void fill(Type type, void* out, float value, std::int64_t count) = 0;
  virtual void map(Type type, const Map& map, const void* in, void* out, std::int64_t count) = 0;
  virtual void map_back(Type type, const Map& map, const void* in, const void* gradient, Sink to,
                        std::int64_t count) = 0;
  virtual void drop(Type type, const Drop& drop, const void* in, Sink to, std::int64_t count) = 0;
  virtual void accumulate(Type type, const void* in, Sink to, std::int64_t count) = 0;
  virtual void add(Type type, const void* a, const void* b, void* out, std::int64_t count) = 0;
  virtual void multiply(Type type, const void* a, const void* b, Sink to, std::int64_t count) = 0;
  virtual void move(Type type, const Move& move, const void* in, Sink to) = 0;

  virtual void embed(Type type, const std::int32_t* tokens, const void* table, void* out, std::int64_t rows,
                     std::int64_t features, float factor) = 0;
  /// Adds to the table's gradient, in any order.
  virtual void embed_back(Type type, const std::int32_t* tokens, const void* gradient, void* to,
                          std::int64_t rows, std::int64_t features, float factor) = 0;
  /// Sums `rows` rows of `columns`.
  virtual void sum_rows(Type type, const void* in, Sink to, std::int64_t rows, std::int64_t columns) = 0;
  /// out = in + table, which repeats after `period` elements.
  virtual void add_table(Type type, const void* in, const float* table, void* out, std::int64_t count,
                         std::int64_t period) = 0;
  virtual void rotate(Type type, const Rotation& rotation, const void* in, const float* angles, Sink to) = 0;

  virtual void row_norm(Type type, const RowNorm& norm, const void* in, const void* weight, const void* bias,
                        void* out, float* kept) = 0;
  virtual void row_norm_back(Type type, const RowNorm& norm, const void* in, const void* gradient,
                             const void* weight, const float* kept, Sink to) = 0;
  /// `partial` holds 2 x parts x features.
  virtual void row_norm_weights(Type type, const RowNorm& norm, const void* in, const void* gradient,
                                const float* kept, float* partial, std::int64_t parts, Sink weight,
                                Sink bias) = 0;

  /// Weights are float32; `kept` holds each channel's mean and the inverse of its deviation; `partial`, here
  /// and in the gradient, is room for 2 x parts x channels numbers.
  virtual void channel_norm(Type type, const Channels& channels, std::int64_t parts, float epsilon,
                            const void* in, const float* weight, const float* bias, void* out, float* kept,
                            float* partial) = 0;
  /// Sinks of weights are float32; `sums` is room for two numbers per channel.
  virtual void channel_norm_back(Type type, const Channels& channels, std::int64_t parts, const void* in,
                                 const void* gradient, const float* weight, const float* kept, float* sums,
                                 float* partial, Sink to, Sink to_weight, Sink to_bias) = 0;
  /// `partial` is room for parts x channels numbers.
  virtual void sum_channels(Type type, const Channels& channels, std::int64_t parts, const void* in,
                            float* partial, Sink to) = 0;

  /// `kept` holds the base of the power beta, for each element.
  virtual void neighbour_norm(Type type, const Channels& channels, const Neighbours& neighbours,
                              const void* in, void* out, float* kept) = 0;
  virtual void neighbour_norm_back(Type type, const Channels& channels, const Neighbours& neighbours,
                                   const void* in, const void* gradient, const float* kept, Sink to) = 0;

  /// The logarithms of each row's softmax.
  virtual void log_softmax(Type type, const void* in, void* out, std::int64_t rows, std::int64_t columns) = 0;

  /// Turns scores into weights that add up to 1 in each row, in place.
  virtual void softmax(Type type, const Scores& scores, void* data) = 0;
  /// Turns the gradient of the dropped weights into that of the scores, in place.
  virtual void softmax_back(Type type, const Scores& scores, const Drop& drop, const void* weights,
                            void* gradient) = 0;

  /// `logarithms` are those of the softmax.
  virtual void loss(Type type, const Loss& loss, const void* logarithms, const std::int32_t* labels,
                    void* out) = 0;
  virtual void loss_back(Type type, const Loss& loss, const void* logarithms, const std::int32_t* labels,
                         const void* gradient, Sink to) = 0;

  virtual void ahead(Type type, const LookaheadSizes& ahead, const void* in, const void* weight,
                     void* out) = 0;
  virtual void ahead_back(Type type, const LookaheadSizes& ahead, const void* gradient, const void* weight,
                          Sink to) = 0;
  virtual void ahead_weight(Type type, const LookaheadSizes& ahead, const void* in, const void* gradient,
                            Sink to) = 0;

  /// `places`: the index of each window's maximum in its plane; only for max pooling.
  virtual void pool(Type type, const Windows& windows, const void* in, void* out, std::int32_t* places) = 0;
  /// Adds to the input's gradient.
  virtual void pool_back(Type type, const Windows& windows, const void* gradient, const std::int32_t* places,
                         void* to) = 0;
};

}  // namespace profiler::cuda
