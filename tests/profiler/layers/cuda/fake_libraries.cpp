// The functions of cuDNN and cuBLASLt that are used. Their results come from the CPU's kernels, which are
// checked against plain loops elsewhere.

#include "tests/profiler/layers/cuda/fake_libraries.hpp"

#include <cmath>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "collectives/compression/half.hpp"
#include "profiler/layers/cpu/instruction_sets.hpp"
#include "profiler/layers/cpu/kernels.hpp"
#include "tests/profiler/layers/cuda/fake_gpu.hpp"

namespace support {
namespace {

FakeGpu* the_gpu = nullptr;

FakeGpu& gpu() {
  if (the_gpu == nullptr) std::terminate();
  return *the_gpu;
}

const FakeObject& object(const void* handle) { return *static_cast<const FakeObject*>(handle); }
FakeObject& object(void* handle) { return *static_cast<FakeObject*>(handle); }

/// Describes the shape of a tensor, a filter or a batch of sequences.
std::string shape(const void* handle) {
  const auto& s = object(handle).sizes;
  return fmt::format("{}x{}x{}x{}", s[0], s[1], s[2], s[3]);
}

bool says_no(const std::string& function, const std::string& text = {}) {
  gpu().calls.push_back({function, text});
  return gpu().failing == function;
}

#define FAKE_DNN(function, ...) \
  if (says_no(#function, ##__VA_ARGS__)) return CUDNN_STATUS_EXECUTION_FAILED
#define FAKE_BLAS(function, ...) \
  if (says_no(#function, ##__VA_ARGS__)) return CUBLAS_STATUS_EXECUTION_FAILED

bool adds(const void* beta) { return *static_cast<const float*>(beta) > 0; }

/// Returns the cudnnDataType_t of a tensor, a filter or a batch of sequences.
std::int64_t type_of(const void* handle) { return object(handle).sizes[4]; }

std::size_t width_of(std::int64_t type) { return type == CUDNN_DATA_FLOAT ? 4 : 2; }

/// Device memory as floats. Narrow types are copied; writable ones are rounded and written back.
class Numbers {
 public:
  Numbers(std::int64_t type, const void* data, std::int64_t count)
      : Numbers(type, const_cast<void*>(data), count) {
    to_ = nullptr;
  }
  Numbers(std::int64_t type, void* data, std::int64_t count)
      : type_(type), floats_(static_cast<float*>(data)) {
    if (type == CUDNN_DATA_FLOAT) return;
    to_ = static_cast<std::uint16_t*>(data);
    for (std::int64_t i = 0; i < count; ++i)
      copy_.push_back(is_float16() ? compression::from_float16(to_[i]) : compression::from_bfloat16(to_[i]));
    floats_ = copy_.data();
  }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  ~Numbers() {
    for (std::size_t i = 0; to_ != nullptr && i < copy_.size(); ++i)
      to_[i] = is_float16() ? compression::to_float16(copy_[i]) : compression::to_bfloat16(copy_[i]);
  }

  operator float*() const { return floats_; }  // NOLINT(google-explicit-constructor): as an array is one

 private:
  bool is_float16() const { return type_ == CUDNN_DATA_HALF; }

  std::int64_t type_;
  float* floats_;
  std::uint16_t* to_ = nullptr;
  std::vector<float> copy_;
};

std::int64_t count(const void* handle) {
  const auto& s = object(handle).sizes;
  return s[0] * s[1] * s[2] * s[3];
}

Numbers numbers(const void* handle, const void* data) { return {type_of(handle), data, count(handle)}; }
Numbers numbers(const void* handle, void* data) { return {type_of(handle), data, count(handle)}; }

/// Returns whether all of it lies in one allocation.
bool is_held(std::int64_t type, const void* data, std::int64_t count) {
  const auto* const begin = static_cast<const char*>(data);
  auto after = gpu().allocations.upper_bound(const_cast<void*>(data));
  if (after == gpu().allocations.begin()) return false;
  const auto& [memory, bytes] = *--after;
  return begin + static_cast<std::size_t>(count) * width_of(type) <= static_cast<const char*>(memory) + bytes;
}

bool is_held(const void* handle, const void* data) { return is_held(type_of(handle), data, count(handle)); }

/// All operands of a call have the type in which it computes, and the declared location and size. bfloat16 is
/// accepted only for convolutions and LSTMs, because cuDNN's documentation of other operations is unclear.
struct Operand {
  const void* handle;
  const void* data;
};
bool are_alike(std::initializer_list<Operand> operands) {
  for (const Operand& each : operands)
    if (type_of(each.handle) != type_of(operands.begin()->handle) || !is_held(each.handle, each.data))
      return false;
  return true;
}
bool are_plain(std::initializer_list<Operand> operands) {
  return are_alike(operands) && type_of(operands.begin()->handle) != CUDNN_DATA_BFLOAT16;
}

/// One layer on the CPU, with the shapes of the descriptors.
class Borrowed {
 public:
  Borrowed(core::LayerKind kind, core::Parameters parameters, std::int64_t batch, core::Shape in,
           core::Shape out) {
    layer_.kind = kind;
    layer_.parameters = std::move(parameters);
    layer_.output = std::move(out);
    work_.layer = &layer_;
    work_.inputs.push_back({.source = 0, .shape = std::move(in)});
    pass.work = &work_;
    pass.batch = batch;
    pass.pool = &pool_;
    pass.product = profiler::instruction_sets().back().product;
    pass.inputs = {nullptr};
    pass.input_gradients = {{}};
  }

  void weight(const float* data, core::Shape shape, profiler::GradientRoom gradient = {}) {
    pass.weights.push_back(data);
    work_.weights.push_back({.tensor = {}, .shape = std::move(shape)});
    pass.weight_gradients.push_back(gradient);
  }
  std::vector<float>& spare(std::size_t count) { return spares_.emplace_back(count); }

  const profiler::Kernel& ready() {
    const profiler::Kernel& found = profiler::kernel(layer_.kind);
    if (found.room != nullptr) {
      const auto room = found.room(work_, static_cast<double>(pass.batch), 1);
      if (pass.kept == nullptr) pass.kept = spare(static_cast<std::size_t>(room.kept)).data();
      pass.scratch = spare(static_cast<std::size_t>(room.scratch)).data();
    }
    if (pass.output == nullptr) pass.output = spare(static_cast<std::size_t>(pass.out_count())).data();
    return found;
  }
  void forward() { ready().forward(pass); }
  void backward() { ready().backward(pass); }

  profiler::Pass pass;

 private:
  core::Layer layer_;
  profiler::LayerWork work_;
  profiler::Pool pool_{1};
  std::vector<std::vector<float>> spares_;
};

core::Shape image(const void* tensor) {
  const auto& s = object(tensor).sizes;
  return {s[1], s[2], s[3]};
}

Borrowed convolution(const void* x, const void* w, const void* conv, const void* y) {
  const auto& c = object(conv).sizes;
  const auto& f = object(w).sizes;
  return {core::LayerKind::conv2d,
          core::Conv2d{.out_channels = f[0],
                       .kernel = {f[2], f[3]},
                       .stride = {c[2], c[3]},
                       .padding = {c[0], c[1]},
                       .dilation = {c[4], c[5]},
                       .groups = c[6],
                       .bias = false},
          object(x).sizes[0], image(x), image(y)};
}

core::Shape filter_shape(const void* w) {
  const auto& s = object(w).sizes;
  return {s[0], s[1], s[2], s[3]};
}

std::string convolution_text(const void* x, const void* w, const void* conv, const void* y) {
  const auto& c = object(conv).sizes;
  return fmt::format("{} {} {} pad {}x{} stride {}x{} dilation {}x{} groups {}", shape(x), shape(w), shape(y),
                     c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
}

Borrowed pooling(const void* pool, const void* x, const void* y) {
  const auto& p = object(pool).sizes;
  const bool is_max = p[0] == CUDNN_POOLING_MAX;
  return {is_max ? core::LayerKind::max_pool : core::LayerKind::avg_pool,
          core::Pool2d{.kernel = {p[1], p[2]},
                       .stride = {p[5], p[6]},
                       .padding = {p[3], p[4]},
                       .count_padding = p[0] == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING},
          object(x).sizes[0], image(x), image(y)};
}

std::string pooling_text(const void* pool, const void* x, const void* y) {
  const auto& p = object(pool).sizes;
  return fmt::format("{} {} kernel {}x{} pad {}x{} stride {}x{}", shape(x), shape(y), p[1], p[2], p[3], p[4],
                     p[5], p[6]);
}

Borrowed channel_norm(const void* x, double epsilon) {
  return {core::LayerKind::batch_norm, core::Norm{.epsilon = epsilon}, object(x).sizes[0], image(x),
          image(x)};
}

Borrowed local_norm(const void* norm, const void* x) {
  const FakeObject& n = object(norm);
  return {core::LayerKind::lrn,
          core::LocalResponseNorm{
              .size = n.sizes[0], .alpha = n.numbers[0], .beta = n.numbers[1], .k = n.numbers[2]},
          object(x).sizes[0], image(x), image(x)};
}

/// Sizes of an RNN: input, hidden, layers, directions.
struct Rnn {
  std::int64_t input;
  std::int64_t hidden;
  std::int64_t layers;
  std::int64_t directions;

  explicit Rnn(const void* handle)
      : input(object(handle).sizes[0]),
        hidden(object(handle).sizes[1]),
        layers(object(handle).sizes[2]),
        directions(object(handle).sizes[3]) {}

  std::int64_t features(std::int64_t pseudo) const {
    return pseudo < directions ? input : directions * hidden;
  }
  /// weight_ih, weight_hh, bias_ih, bias_hh
  std::int64_t elements(std::int64_t pseudo, std::size_t tensor) const {
    const std::int64_t columns[] = {features(pseudo), hidden, 1, 1};
    return 4 * hidden * columns[tensor];
  }
  std::int64_t begin(std::int64_t pseudo, std::size_t tensor) const {
    std::int64_t out = 0;
    for (std::int64_t p = 0; p <= pseudo; ++p)
      for (std::size_t t = 0; t < (p < pseudo ? 4 : tensor); ++t) out += elements(p, t);
    return out;
  }
  std::int64_t all() const { return begin(layers * directions, 0); }
};

class Recurrence : public Borrowed {
 public:
  Recurrence(const Rnn& r, const void* x, const void* y, const float* weights, float* gradients)
      : Borrowed(core::LayerKind::lstm,
                 core::Lstm{.hidden = r.hidden, .layers = r.layers, .bidirectional = r.directions == 2},
                 object(x).sizes[0], sequence(x), sequence(y)) {
    for (std::int64_t pseudo = 0; pseudo < r.layers * r.directions; ++pseudo)
      for (std::size_t tensor = 0; tensor < 4; ++tensor) {
        const std::int64_t at = r.begin(pseudo, tensor);
        profiler::GradientRoom room;
        room.data = gradients != nullptr ? gradients + at
                                         : spare(static_cast<std::size_t>(r.elements(pseudo, tensor))).data();
        room.add = gradients != nullptr;
        weight(weights + at, {4 * r.hidden, r.elements(pseudo, tensor) / (4 * r.hidden)}, room);
      }
  }

 private:
  /// [length, features] of batch, length, features
  static core::Shape sequence(const void* data) { return {object(data).sizes[1], object(data).sizes[2]}; }
};

/// The weights of an RNN's forward pass, indexed by the memory that it stored for backward.
std::map<const void*, std::vector<float>> weights_by_reserve;
std::map<const void*, std::vector<float>> gradients_by_reserve;

std::vector<float> copied(const Numbers& from, std::int64_t count) {
  const float* const begin = from;
  return {begin, begin + count};
}

template <typename Handle>
cudnnStatus_t make(Handle* out, const char* kind) {
  *out = reinterpret_cast<Handle>(gpu().make(kind));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t destroy(void* handle, const char* kind) {
  if (!gpu().destroy(handle, kind)) std::terminate();
  return CUDNN_STATUS_SUCCESS;
}

#define FAKE_PAIR(Name, type)                               \
  out.cudnnCreate##Name = [](type* made) -> cudnnStatus_t { \
    FAKE_DNN(cudnnCreate##Name);                            \
    return make(made, #Name);                               \
  };                                                        \
  out.cudnnDestroy##Name = [](type handle) -> cudnnStatus_t { return destroy(handle, #Name); };

void fake_shapes(profiler::cuda::Libraries& out) {
  out.cudnnGetVersion = []() -> std::size_t { return 91900; };
  out.cudnnGetErrorString = [](cudnnStatus_t) { return "CUDNN_STATUS_FAKE"; };
  out.cudnnCreate = [](cudnnHandle_t* made) -> cudnnStatus_t {
    FAKE_DNN(cudnnCreate);
    return make(made, "cudnn");
  };
  out.cudnnDestroy = [](cudnnHandle_t handle) { return destroy(handle, "cudnn"); };
  out.cudnnSetStream = [](cudnnHandle_t, cudaStream_t) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetStream);
    return CUDNN_STATUS_SUCCESS;
  };
  FAKE_PAIR(TensorDescriptor, cudnnTensorDescriptor_t)
  FAKE_PAIR(FilterDescriptor, cudnnFilterDescriptor_t)
  FAKE_PAIR(ConvolutionDescriptor, cudnnConvolutionDescriptor_t)
  FAKE_PAIR(PoolingDescriptor, cudnnPoolingDescriptor_t)
  FAKE_PAIR(ActivationDescriptor, cudnnActivationDescriptor_t)
  FAKE_PAIR(LRNDescriptor, cudnnLRNDescriptor_t)
  FAKE_PAIR(DropoutDescriptor, cudnnDropoutDescriptor_t)
  FAKE_PAIR(RNNDescriptor, cudnnRNNDescriptor_t)
  FAKE_PAIR(RNNDataDescriptor, cudnnRNNDataDescriptor_t)
  out.cudnnSetTensor4dDescriptor = [](cudnnTensorDescriptor_t t, cudnnTensorFormat_t, cudnnDataType_t type,
                                      int n, int c, int h, int w) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetTensor4dDescriptor, std::to_string(static_cast<int>(type)));
    object(t).sizes = {n, c, h, w, type};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetTensorNdDescriptor = [](cudnnTensorDescriptor_t t, cudnnDataType_t type, int dimensions,
                                      const int* sizes, const int* strides) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetTensorNdDescriptor, std::to_string(static_cast<int>(type)));
    if (dimensions != 3 || strides[2] != 1) return CUDNN_STATUS_BAD_PARAM;
    object(t).sizes = {sizes[0], sizes[1], sizes[2], 1, type};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetFilter4dDescriptor = [](cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t,
                                      int k, int c, int h, int w) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetFilter4dDescriptor, std::to_string(static_cast<int>(type)));
    object(f).sizes = {k, c, h, w, type};
    return CUDNN_STATUS_SUCCESS;
  };
}

/// Returns two: that of the default arithmetic, which is faster, and that of the requested one.
template <typename Performance>
cudnnStatus_t found(const void* conv, int asked, int* count, Performance* best) {
  *count = std::min(asked, 2);
  for (int i = 0; i < *count; ++i) {
    best[i].status = CUDNN_STATUS_SUCCESS;
    best[i].memory = 1000;
    best[i].mathType = i == 0 ? CUDNN_DEFAULT_MATH : static_cast<cudnnMathType_t>(object(conv).sizes[7]);
    best[i].algo = static_cast<decltype(best[i].algo)>(i);
  }
  return CUDNN_STATUS_SUCCESS;
}

void fake_convolutions(profiler::cuda::Libraries& out) {
  out.cudnnSetConvolution2dDescriptor = [](cudnnConvolutionDescriptor_t conv, int pad_h, int pad_w, int u,
                                           int v, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                           cudnnDataType_t compute) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetConvolution2dDescriptor);
    if (mode != CUDNN_CROSS_CORRELATION || compute != CUDNN_DATA_FLOAT) return CUDNN_STATUS_BAD_PARAM;
    object(conv).sizes = {pad_h, pad_w, u, v, dilation_h, dilation_w, 1, 0};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t conv, int groups) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetConvolutionGroupCount);
    object(conv).sizes[6] = groups;
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetConvolutionMathType = [](cudnnConvolutionDescriptor_t conv,
                                       cudnnMathType_t math) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetConvolutionMathType, std::to_string(static_cast<int>(math)));
    object(conv).sizes[7] = math;
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnFindConvolutionForwardAlgorithmEx =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t, const void*, const cudnnFilterDescriptor_t,
         const void*, const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t, void*,
         const int asked, int* count, cudnnConvolutionFwdAlgoPerf_t* best, void*, size_t) -> cudnnStatus_t {
    FAKE_DNN(cudnnFindConvolutionForwardAlgorithmEx);
    return found(conv, asked, count, best);
  };
  out.cudnnFindConvolutionBackwardDataAlgorithmEx =
      [](cudnnHandle_t, const cudnnFilterDescriptor_t, const void*, const cudnnTensorDescriptor_t,
         const void*, const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t, void*,
         const int asked, int* count, cudnnConvolutionBwdDataAlgoPerf_t* best, void*,
         size_t) -> cudnnStatus_t {
    FAKE_DNN(cudnnFindConvolutionBackwardDataAlgorithmEx);
    return found(conv, asked, count, best);
  };
  out.cudnnFindConvolutionBackwardFilterAlgorithmEx =
      [](cudnnHandle_t, const cudnnTensorDescriptor_t, const void*, const cudnnTensorDescriptor_t,
         const void*, const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t, void*,
         const int asked, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* best, void*,
         size_t) -> cudnnStatus_t {
    FAKE_DNN(cudnnFindConvolutionBackwardFilterAlgorithmEx);
    return found(conv, asked, count, best);
  };
  out.cudnnConvolutionForward = [](cudnnHandle_t, const void*, const cudnnTensorDescriptor_t xd,
                                   const void* x, const cudnnFilterDescriptor_t wd, const void* w,
                                   const cudnnConvolutionDescriptor_t conv,
                                   cudnnConvolutionFwdAlgo_t algorithm, void*, size_t, const void*,
                                   const cudnnTensorDescriptor_t yd, void* y) -> cudnnStatus_t {
    FAKE_DNN(cudnnConvolutionForward, convolution_text(xd, wd, conv, yd));
    gpu().algorithms.insert(static_cast<int>(algorithm));
    if (!are_alike({{xd, x}, {wd, w}, {yd, y}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers weights = numbers(wd, w);
    const Numbers out_to = numbers(yd, y);
    Borrowed layer = convolution(xd, wd, conv, yd);
    layer.pass.inputs = {in};
    layer.pass.output = out_to;
    layer.weight(weights, filter_shape(wd));
    layer.forward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnConvolutionBackwardData =
      [](cudnnHandle_t, const void*, const cudnnFilterDescriptor_t wd, const void* w,
         const cudnnTensorDescriptor_t dyd, const void* dy, const cudnnConvolutionDescriptor_t conv,
         cudnnConvolutionBwdDataAlgo_t algorithm, void*, size_t, const void* beta,
         const cudnnTensorDescriptor_t dxd, void* dx) -> cudnnStatus_t {
    FAKE_DNN(cudnnConvolutionBackwardData, convolution_text(dxd, wd, conv, dyd));
    gpu().algorithms.insert(static_cast<int>(algorithm));
    if (!are_alike({{dxd, dx}, {wd, w}, {dyd, dy}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers weights = numbers(wd, w);
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dxd, dx);
    Borrowed layer = convolution(dxd, wd, conv, dyd);
    layer.pass.inputs = {layer.spare(static_cast<std::size_t>(count(dxd))).data()};
    layer.pass.output_gradient = slopes;
    layer.pass.input_gradients = {{to, adds(beta)}};
    layer.weight(weights, filter_shape(wd), {layer.spare(static_cast<std::size_t>(count(wd))).data(), false});
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnConvolutionBackwardFilter =
      [](cudnnHandle_t, const void*, const cudnnTensorDescriptor_t xd, const void* x,
         const cudnnTensorDescriptor_t dyd, const void* dy, const cudnnConvolutionDescriptor_t conv,
         cudnnConvolutionBwdFilterAlgo_t algorithm, void*, size_t, const void* beta,
         const cudnnFilterDescriptor_t dwd, void* dw) -> cudnnStatus_t {
    FAKE_DNN(cudnnConvolutionBackwardFilter, convolution_text(xd, dwd, conv, dyd));
    gpu().algorithms.insert(static_cast<int>(algorithm));
    if (!are_alike({{xd, x}, {dwd, dw}, {dyd, dy}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dwd, dw);
    Borrowed layer = convolution(xd, dwd, conv, dyd);
    layer.pass.inputs = {in};
    layer.pass.output_gradient = slopes;
    layer.weight(nullptr, filter_shape(dwd), {to, adds(beta)});
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnConvolutionBackwardBias = [](cudnnHandle_t, const void*, const cudnnTensorDescriptor_t dyd,
                                        const void* dy, const void* beta, const cudnnTensorDescriptor_t dbd,
                                        void* db) -> cudnnStatus_t {
    FAKE_DNN(cudnnConvolutionBackwardBias, shape(dyd) + " " + shape(dbd));
    if (!are_plain({{dyd, dy}, {dbd, db}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dbd, db);
    const auto& s = object(dyd).sizes;
    for (std::int64_t c = 0; c < s[1]; ++c) {
      double sum = adds(beta) ? static_cast<double>(to[c]) : 0;
      for (std::int64_t n = 0; n < s[0]; ++n)
        for (std::int64_t i = 0; i < s[2] * s[3]; ++i)
          sum += static_cast<double>(slopes[(n * s[1] + c) * s[2] * s[3] + i]);
      to[c] = static_cast<float>(sum);
    }
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnAddTensor = [](cudnnHandle_t, const void*, const cudnnTensorDescriptor_t ad, const void* a,
                          const void* beta, const cudnnTensorDescriptor_t cd, void* c) -> cudnnStatus_t {
    FAKE_DNN(cudnnAddTensor, shape(ad) + " " + shape(cd));
    if (!adds(beta) || !are_plain({{ad, a}, {cd, c}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers each = numbers(ad, a);
    const Numbers to = numbers(cd, c);
    const auto& s = object(cd).sizes;
    for (std::int64_t i = 0; i < count(cd); ++i) to[i] += each[i / (s[2] * s[3]) % s[1]];
    return CUDNN_STATUS_SUCCESS;
  };
}

void fake_pooling(profiler::cuda::Libraries& out) {
  out.cudnnSetPooling2dDescriptor = [](cudnnPoolingDescriptor_t pool, cudnnPoolingMode_t mode,
                                       cudnnNanPropagation_t, int h, int w, int pad_h, int pad_w, int u,
                                       int v) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetPooling2dDescriptor);
    object(pool).sizes = {mode, h, w, pad_h, pad_w, u, v};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnPoolingForward = [](cudnnHandle_t, const cudnnPoolingDescriptor_t pool, const void*,
                               const cudnnTensorDescriptor_t xd, const void* x, const void*,
                               const cudnnTensorDescriptor_t yd, void* y) -> cudnnStatus_t {
    FAKE_DNN(cudnnPoolingForward, pooling_text(pool, xd, yd));
    if (!are_plain({{xd, x}, {yd, y}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers to = numbers(yd, y);
    Borrowed layer = pooling(pool, xd, yd);
    layer.pass.inputs = {in};
    layer.pass.output = to;
    layer.forward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnPoolingBackward =
      [](cudnnHandle_t, const cudnnPoolingDescriptor_t pool, const void*, const cudnnTensorDescriptor_t yd,
         const void* y, const cudnnTensorDescriptor_t dyd, const void* dy, const cudnnTensorDescriptor_t xd,
         const void* x, const void* beta, const cudnnTensorDescriptor_t dxd, void* dx) -> cudnnStatus_t {
    FAKE_DNN(cudnnPoolingBackward, pooling_text(pool, xd, yd));
    if (!are_plain({{xd, x}, {yd, y}, {dyd, dy}, {dxd, dx}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dxd, dx);
    Borrowed layer = pooling(pool, xd, yd);
    layer.pass.inputs = {in};
    layer.forward();  // finds again where the greatest lie
    layer.pass.output_gradient = slopes;
    layer.pass.input_gradients = {{to, adds(beta)}};
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
}

void fake_elements(profiler::cuda::Libraries& out) {
  out.cudnnSetActivationDescriptor = [](cudnnActivationDescriptor_t function, cudnnActivationMode_t mode,
                                        cudnnNanPropagation_t, double) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetActivationDescriptor);
    object(function).sizes[0] = mode;
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnActivationForward = [](cudnnHandle_t, cudnnActivationDescriptor_t function, const void*,
                                  const cudnnTensorDescriptor_t xd, const void* x, const void*,
                                  const cudnnTensorDescriptor_t yd, void* y) -> cudnnStatus_t {
    FAKE_DNN(cudnnActivationForward, shape(xd));
    if (!are_plain({{xd, x}, {yd, y}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers to = numbers(yd, y);
    const bool is_relu = object(function).sizes[0] == CUDNN_ACTIVATION_RELU;
    for (std::int64_t i = 0; i < count(xd); ++i) to[i] = is_relu ? std::max(in[i], 0.0F) : std::tanh(in[i]);
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnActivationBackward =
      [](cudnnHandle_t, cudnnActivationDescriptor_t function, const void*, const cudnnTensorDescriptor_t yd,
         const void* y, const cudnnTensorDescriptor_t dyd, const void* dy, const cudnnTensorDescriptor_t xd,
         const void* x, const void* beta, const cudnnTensorDescriptor_t dxd, void* dx) -> cudnnStatus_t {
    FAKE_DNN(cudnnActivationBackward, shape(yd));
    if (!are_plain({{yd, y}, {dyd, dy}, {xd, x}, {dxd, dx}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers result = numbers(yd, y);
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dxd, dx);
    const bool is_relu = object(function).sizes[0] == CUDNN_ACTIVATION_RELU;
    for (std::int64_t i = 0; i < count(yd); ++i) {
      const float slope = is_relu ? (in[i] > 0 ? 1.0F : 0.0F) : 1 - result[i] * result[i];
      const float step = slopes[i] * slope;
      to[i] = adds(beta) ? to[i] + step : step;
    }
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSoftmaxForward = [](cudnnHandle_t, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                               const void*, const cudnnTensorDescriptor_t xd, const void* x, const void*,
                               const cudnnTensorDescriptor_t yd, void* y) -> cudnnStatus_t {
    FAKE_DNN(cudnnSoftmaxForward, shape(xd));
    if (algorithm != CUDNN_SOFTMAX_LOG || mode != CUDNN_SOFTMAX_MODE_INSTANCE ||
        !are_plain({{xd, x}, {yd, y}}))
      return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers to = numbers(yd, y);
    const std::int64_t columns = count(xd) / object(xd).sizes[0];
    for (std::int64_t begin = 0; begin < count(xd); begin += columns) {
      double sum = 0;
      for (std::int64_t i = begin; i < begin + columns; ++i) sum += std::exp(static_cast<double>(in[i]));
      for (std::int64_t i = begin; i < begin + columns; ++i)
        to[i] = static_cast<float>(static_cast<double>(in[i]) - std::log(sum));
    }
    return CUDNN_STATUS_SUCCESS;
  };
}

void fake_norms(profiler::cuda::Libraries& out) {
  out.cudnnBatchNormalizationForwardTraining =
      [](cudnnHandle_t, cudnnBatchNormMode_t, const void*, const void*, const cudnnTensorDescriptor_t xd,
         const void* x, const cudnnTensorDescriptor_t yd, void* y, const cudnnTensorDescriptor_t channel,
         const void* scale, const void* bias, double, void*, void*, double epsilon, void* mean,
         void* inverse) -> cudnnStatus_t {
    FAKE_DNN(cudnnBatchNormalizationForwardTraining, shape(xd) + " " + shape(channel));
    if (type_of(channel) != CUDNN_DATA_FLOAT || !are_plain({{xd, x}, {yd, y}}) ||
        !are_alike({{channel, scale}, {channel, bias}, {channel, mean}, {channel, inverse}}))
      return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const std::int64_t channels = count(channel);
    const Numbers in = numbers(xd, x);
    const Numbers to = numbers(yd, y);
    const Numbers means = numbers(channel, mean);
    const Numbers inverses = numbers(channel, inverse);
    Borrowed layer = channel_norm(xd, epsilon);
    layer.pass.inputs = {in};
    layer.pass.output = to;
    layer.weight(numbers(channel, scale), {channels});
    layer.weight(numbers(channel, bias), {channels});
    layer.forward();
    for (std::int64_t c = 0; c < channels; ++c) {
      means[c] = layer.pass.kept[2 * c];
      inverses[c] = layer.pass.kept[2 * c + 1];
    }
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnBatchNormalizationBackward =
      [](cudnnHandle_t, cudnnBatchNormMode_t, const void*, const void* beta_data, const void*,
         const void* beta_weights, const cudnnTensorDescriptor_t xd, const void* x,
         const cudnnTensorDescriptor_t dyd, const void* dy, const cudnnTensorDescriptor_t dxd, void* dx,
         const cudnnTensorDescriptor_t channel, const void* scale, void* d_scale, void* d_bias,
         double epsilon, const void* mean, const void* inverse) -> cudnnStatus_t {
    FAKE_DNN(cudnnBatchNormalizationBackward, shape(xd) + " " + shape(channel));
    if (type_of(channel) != CUDNN_DATA_FLOAT || !are_plain({{xd, x}, {dyd, dy}, {dxd, dx}}) ||
        !are_alike(
            {{channel, scale}, {channel, d_scale}, {channel, d_bias}, {channel, mean}, {channel, inverse}}))
      return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const std::int64_t channels = count(channel);
    const Numbers in = numbers(xd, x);
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dxd, dx);
    const Numbers means = numbers(channel, mean);
    const Numbers inverses = numbers(channel, inverse);
    Borrowed layer = channel_norm(xd, epsilon);
    std::vector<float> kept;
    for (std::int64_t c = 0; c < channels; ++c) {
      kept.push_back(means[c]);
      kept.push_back(inverses[c]);
    }
    layer.pass.kept = kept.data();
    layer.pass.inputs = {in};
    layer.pass.output_gradient = slopes;
    layer.pass.input_gradients = {{to, adds(beta_data)}};
    layer.weight(numbers(channel, scale), {channels}, {numbers(channel, d_scale), adds(beta_weights)});
    layer.weight(nullptr, {channels}, {numbers(channel, d_bias), adds(beta_weights)});
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetLRNDescriptor = [](cudnnLRNDescriptor_t norm, unsigned n, double alpha, double beta,
                                 double k) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetLRNDescriptor);
    object(norm).sizes[0] = n;
    object(norm).numbers = {alpha, beta, k};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnLRNCrossChannelForward = [](cudnnHandle_t, cudnnLRNDescriptor_t norm, cudnnLRNMode_t, const void*,
                                       const cudnnTensorDescriptor_t xd, const void* x, const void*,
                                       const cudnnTensorDescriptor_t yd, void* y) -> cudnnStatus_t {
    FAKE_DNN(cudnnLRNCrossChannelForward, shape(xd));
    if (!are_plain({{xd, x}, {yd, y}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers to = numbers(yd, y);
    Borrowed layer = local_norm(norm, xd);
    layer.pass.inputs = {in};
    layer.pass.output = to;
    layer.forward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnLRNCrossChannelBackward = [](cudnnHandle_t, cudnnLRNDescriptor_t norm, cudnnLRNMode_t, const void*,
                                        const cudnnTensorDescriptor_t yd, const void* y,
                                        const cudnnTensorDescriptor_t dyd, const void* dy,
                                        const cudnnTensorDescriptor_t xd, const void* x, const void* beta,
                                        const cudnnTensorDescriptor_t dxd, void* dx) -> cudnnStatus_t {
    FAKE_DNN(cudnnLRNCrossChannelBackward, shape(xd));
    if (!are_plain({{xd, x}, {yd, y}, {dyd, dy}, {dxd, dx}})) return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers slopes = numbers(dyd, dy);
    const Numbers to = numbers(dxd, dx);
    Borrowed layer = local_norm(norm, xd);
    layer.pass.inputs = {in};
    layer.forward();
    layer.pass.output_gradient = slopes;
    layer.pass.input_gradients = {{to, adds(beta)}};
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
}

void fake_recurrences(profiler::cuda::Libraries& out) {
  out.cudnnSetDropoutDescriptor = [](cudnnDropoutDescriptor_t, cudnnHandle_t, float dropout, void*, size_t,
                                     unsigned long long) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetDropoutDescriptor);
    return dropout > 0 ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetRNNDescriptor_v8 =
      [](cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t, cudnnRNNMode_t mode, cudnnRNNBiasMode_t bias,
         cudnnDirectionMode_t direction, cudnnRNNInputMode_t, cudnnDataType_t type, cudnnDataType_t precision,
         cudnnMathType_t math, int32_t input, int32_t hidden, int32_t projected, int32_t layers,
         cudnnDropoutDescriptor_t, uint32_t flags) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetRNNDescriptor_v8, std::to_string(static_cast<int>(type)));
    if (mode != CUDNN_LSTM || bias != CUDNN_RNN_DOUBLE_BIAS || projected != hidden ||
        flags != CUDNN_RNN_PADDED_IO_ENABLED || precision != CUDNN_DATA_FLOAT ||
        (type == CUDNN_DATA_FLOAT) == (math == CUDNN_TENSOR_OP_MATH))
      return CUDNN_STATUS_BAD_PARAM;
    object(rnn).sizes = {input, hidden, layers, direction == CUDNN_BIDIRECTIONAL ? 2 : 1, type};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnSetRNNDataDescriptor = [](cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                     cudnnRNNDataLayout_t layout, int length, int batch, int features,
                                     const int* lengths, void*) -> cudnnStatus_t {
    FAKE_DNN(cudnnSetRNNDataDescriptor, std::to_string(static_cast<int>(type)));
    if (layout != CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED) return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < batch; ++i)
      if (lengths[i] != length) return CUDNN_STATUS_BAD_PARAM;
    object(data).sizes = {batch, length, features, 1, type};
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnGetRNNTempSpaceSizes = [](cudnnHandle_t, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t,
                                     cudnnRNNDataDescriptor_t x, size_t* work,
                                     size_t* reserve) -> cudnnStatus_t {
    FAKE_DNN(cudnnGetRNNTempSpaceSizes);
    const Rnn r(rnn);
    const auto steps = static_cast<std::size_t>(object(x).sizes[0] * object(x).sizes[1]);
    *work = 1;
    const std::size_t width = gpu().computes() ? sizeof(float) : width_of(type_of(rnn));  // kept as floats
    *reserve = width * steps * static_cast<std::size_t>(r.layers * r.directions * 6 * r.hidden);
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnGetRNNWeightSpaceSize = [](cudnnHandle_t, cudnnRNNDescriptor_t rnn,
                                      size_t* size) -> cudnnStatus_t {
    FAKE_DNN(cudnnGetRNNWeightSpaceSize);
    *size = width_of(type_of(rnn)) * static_cast<std::size_t>(Rnn(rnn).all());
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnGetRNNWeightParams = [](cudnnHandle_t, cudnnRNNDescriptor_t rnn, int32_t pseudo, size_t,
                                   const void* space, int32_t gate, cudnnTensorDescriptor_t, void** matrix,
                                   cudnnTensorDescriptor_t, void** bias) -> cudnnStatus_t {
    FAKE_DNN(cudnnGetRNNWeightParams);
    const Rnn r(rnn);
    if (!is_held(type_of(rnn), space, r.all())) return CUDNN_STATUS_BAD_PARAM;
    const std::size_t tensor = gate >= 4 ? 1 : 0;
    const auto at = [&](std::size_t which) {
      const std::int64_t begin = r.begin(pseudo, which) + gate % 4 * (r.elements(pseudo, which) / 4);
      return static_cast<char*>(const_cast<void*>(space)) +
             static_cast<std::size_t>(begin) * width_of(type_of(rnn));
    };
    *matrix = at(tensor);
    *bias = at(tensor + 2);
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnRNNForward = [](cudnnHandle_t, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode, const int32_t*,
                           cudnnRNNDataDescriptor_t xd, const void* x, cudnnRNNDataDescriptor_t yd, void* y,
                           cudnnTensorDescriptor_t hd, const void*, void*, cudnnTensorDescriptor_t,
                           const void*, void*, size_t, const void* weights, size_t, void*, size_t,
                           void* reserve) -> cudnnStatus_t {
    FAKE_DNN(cudnnRNNForward, shape(xd) + " " + shape(yd) + " " + shape(hd));
    const Rnn r(rnn);
    if (mode != CUDNN_FWD_MODE_TRAINING || !are_alike({{xd, x}, {yd, y}}) || type_of(xd) != type_of(rnn) ||
        type_of(hd) != type_of(rnn) || !is_held(type_of(rnn), weights, r.all()))
      return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers to = numbers(yd, y);
    const Numbers all(type_of(rnn), weights, r.all());
    Recurrence layer(r, xd, yd, all, nullptr);
    layer.pass.inputs = {in};
    layer.pass.output = to;
    layer.pass.kept = static_cast<float*>(reserve);
    weights_by_reserve[reserve] = copied(all, r.all());
    layer.forward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnRNNBackwardData_v8 =
      [](cudnnHandle_t, cudnnRNNDescriptor_t rnn, const int32_t*, cudnnRNNDataDescriptor_t yd, const void* y,
         const void* dy, cudnnRNNDataDescriptor_t xd, void* dx, cudnnTensorDescriptor_t hd, const void*,
         const void*, void*, cudnnTensorDescriptor_t, const void*, const void*, void*, size_t,
         const void* weights, size_t, void*, size_t, void* reserve) -> cudnnStatus_t {
    FAKE_DNN(cudnnRNNBackwardData_v8, shape(xd) + " " + shape(yd) + " " + shape(hd));
    const Rnn r(rnn);
    if (!are_alike({{xd, dx}, {yd, y}, {yd, dy}}) || !is_held(type_of(rnn), weights, r.all()))
      return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers result = numbers(yd, y);
    const Numbers slopes = numbers(yd, dy);
    const Numbers to = numbers(xd, dx);
    const Numbers all(type_of(rnn), weights, r.all());
    Recurrence layer(r, xd, yd, all, nullptr);
    layer.pass.inputs = {layer.spare(static_cast<std::size_t>(count(xd))).data()};
    layer.pass.output = result;
    layer.pass.output_gradient = slopes;
    layer.pass.input_gradients = {{to, false}};
    layer.pass.kept = static_cast<float*>(reserve);
    gradients_by_reserve[reserve] = copied(slopes, count(yd));
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
  out.cudnnRNNBackwardWeights_v8 = [](cudnnHandle_t, cudnnRNNDescriptor_t rnn, cudnnWgradMode_t mode,
                                      const int32_t*, cudnnRNNDataDescriptor_t xd, const void* x,
                                      cudnnTensorDescriptor_t hd, const void*, cudnnRNNDataDescriptor_t yd,
                                      const void* y, size_t, void* gradients, size_t, void*, size_t,
                                      void* reserve) -> cudnnStatus_t {
    FAKE_DNN(cudnnRNNBackwardWeights_v8, shape(xd) + " " + shape(yd) + " " + shape(hd));
    const Rnn r(rnn);
    if (mode != CUDNN_WGRAD_MODE_ADD || !are_alike({{xd, x}, {yd, y}}) ||
        !is_held(type_of(rnn), gradients, r.all()))
      return CUDNN_STATUS_BAD_PARAM;
    if (!gpu().computes()) return CUDNN_STATUS_SUCCESS;
    const Numbers in = numbers(xd, x);
    const Numbers result = numbers(yd, y);
    const Numbers to(type_of(rnn), gradients, r.all());
    Recurrence layer(r, xd, yd, weights_by_reserve.at(reserve).data(), to);
    layer.pass.inputs = {in};
    layer.pass.output = result;
    layer.pass.output_gradient = gradients_by_reserve.at(reserve).data();
    layer.pass.kept = static_cast<float*>(reserve);
    layer.backward();
    return CUDNN_STATUS_SUCCESS;
  };
}

template <typename Value>
Value attribute(const FakeObject& of, int which, Value otherwise) {
  const auto found = of.attributes.find(which);
  if (found == of.attributes.end()) return otherwise;
  Value out{};
  if (found->second.size() != sizeof(out)) std::terminate();
  std::memcpy(&out, found->second.data(), sizeof(out));
  return out;
}

void set_attribute(void* handle, int which, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  object(handle).attributes[which].assign(bytes, bytes + size);
}

std::int64_t dnn_type(std::int64_t type) {
  if (type == CUDA_R_16F) return CUDNN_DATA_HALF;
  return type == CUDA_R_16BF ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/// A matrix column by column, as cuBLASLt is told of it.
struct Matrix {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t leading;
  std::int64_t count;
  std::int64_t apart;
  std::int64_t type;  ///< as cuDNN calls it

  explicit Matrix(const void* handle)
      : rows(object(handle).sizes[0]),
        columns(object(handle).sizes[1]),
        leading(object(handle).sizes[2]),
        count(attribute<std::int32_t>(object(handle), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1)),
        apart(attribute<std::int64_t>(object(handle), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0)),
        type(dnn_type(object(handle).sizes[3])) {}

  std::int64_t at(std::int64_t piece, std::int64_t row, std::int64_t column, bool is_transposed) const {
    return piece * apart + (is_transposed ? row * leading + column : column * leading + row);
  }
  /// Elements from the first to the last.
  std::int64_t reach() const { return (count - 1) * apart + (columns - 1) * leading + rows; }
};

cublasStatus_t multiply(const FakeObject& operation, const void* a, const Matrix& am, const void* b,
                        const Matrix& bm, bool adds_up, void* c, const Matrix& cm) {
  const bool a_t = attribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
  const bool b_t = attribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
  const std::int64_t inner = a_t ? am.rows : am.columns;
  if ((a_t ? am.columns : am.rows) != cm.rows || (b_t ? bm.rows : bm.columns) != cm.columns ||
      (b_t ? bm.columns : bm.rows) != inner || am.leading < am.rows || bm.leading < bm.rows ||
      cm.leading < cm.rows || am.count != cm.count || bm.count != cm.count)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool has_bias = attribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT) ==
                        CUBLASLT_EPILOGUE_BIAS;
  const void* const bias = attribute<const void*>(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  if (has_bias && (bias == nullptr || !is_held(cm.type, bias, cm.rows))) return CUBLAS_STATUS_INVALID_VALUE;
  if (am.type != cm.type || bm.type != cm.type || !is_held(am.type, a, am.reach()) ||
      !is_held(bm.type, b, bm.reach()) || !is_held(cm.type, c, cm.reach()))
    return CUBLAS_STATUS_INVALID_VALUE;
  const std::int64_t compute = operation.sizes[0];
  if (compute != CUBLAS_COMPUTE_32F &&
      (compute != CUBLAS_COMPUTE_32F_FAST_TF32 || cm.type != CUDNN_DATA_FLOAT))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!gpu().computes()) return CUBLAS_STATUS_SUCCESS;
  const Numbers of_a(am.type, a, am.reach());
  const Numbers of_b(bm.type, b, bm.reach());
  const Numbers of_bias(cm.type, has_bias ? bias : nullptr, has_bias ? cm.rows : 0);
  const Numbers to_c(cm.type, c, cm.reach());
  for (std::int64_t piece = 0; piece < cm.count; ++piece)
    for (std::int64_t column = 0; column < cm.columns; ++column)
      for (std::int64_t row = 0; row < cm.rows; ++row) {
        float& to = to_c[cm.at(piece, row, column, false)];
        double sum = adds_up ? static_cast<double>(to) : 0;
        for (std::int64_t i = 0; i < inner; ++i)
          sum += static_cast<double>(of_a[am.at(piece, row, i, a_t)]) *
                 static_cast<double>(of_b[bm.at(piece, i, column, b_t)]);
        if (has_bias) sum += static_cast<double>(of_bias[row]);
        to = static_cast<float>(sum);
      }
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle>
cublasStatus_t make_blas(Handle* out, const char* kind) {
  *out = reinterpret_cast<Handle>(gpu().make(kind));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t destroy_blas(const void* handle, const char* kind) {
  if (!gpu().destroy(const_cast<void*>(handle), kind)) std::terminate();
  return CUBLAS_STATUS_SUCCESS;
}

void fake_products(profiler::cuda::Libraries& out) {
  out.cublasLtGetVersion = []() -> std::size_t { return 130100; };
  out.cublasLtGetStatusString = [](cublasStatus_t) { return "CUBLAS_STATUS_FAKE"; };
  out.cublasLtCreate = [](cublasLtHandle_t* made) -> cublasStatus_t {
    FAKE_BLAS(cublasLtCreate);
    return make_blas(made, "blas");
  };
  out.cublasLtDestroy = [](cublasLtHandle_t handle) { return destroy_blas(handle, "blas"); };
  out.cublasLtMatmulDescCreate = [](cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                    cudaDataType_t scale) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatmulDescCreate, std::to_string(static_cast<int>(compute)));
    if (scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
    make_blas(made, "matmul");
    object(static_cast<void*>(*made)).sizes[0] = compute;
    return CUBLAS_STATUS_SUCCESS;
  };
  out.cublasLtMatmulDescDestroy = [](cublasLtMatmulDesc_t handle) { return destroy_blas(handle, "matmul"); };
  out.cublasLtMatmulDescSetAttribute = [](cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t which,
                                          const void* data, size_t size) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatmulDescSetAttribute);
    set_attribute(handle, which, data, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  out.cublasLtMatrixLayoutCreate = [](cublasLtMatrixLayout_t* made, cudaDataType type, uint64_t rows,
                                      uint64_t columns, int64_t leading) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatrixLayoutCreate, std::to_string(static_cast<int>(type)));
    make_blas(made, "layout");
    object(static_cast<void*>(*made)).sizes = {static_cast<std::int64_t>(rows),
                                               static_cast<std::int64_t>(columns), leading, type};
    return CUBLAS_STATUS_SUCCESS;
  };
  out.cublasLtMatrixLayoutDestroy = [](cublasLtMatrixLayout_t handle) {
    return destroy_blas(handle, "layout");
  };
  out.cublasLtMatrixLayoutSetAttribute = [](cublasLtMatrixLayout_t handle,
                                            cublasLtMatrixLayoutAttribute_t which, const void* data,
                                            size_t size) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatrixLayoutSetAttribute);
    set_attribute(handle, which, data, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  out.cublasLtMatmulPreferenceCreate = [](cublasLtMatmulPreference_t* made) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatmulPreferenceCreate);
    return make_blas(made, "preference");
  };
  out.cublasLtMatmulPreferenceDestroy = [](cublasLtMatmulPreference_t handle) {
    return destroy_blas(handle, "preference");
  };
  out.cublasLtMatmulPreferenceSetAttribute = [](cublasLtMatmulPreference_t handle,
                                                cublasLtMatmulPreferenceAttributes_t which, const void* data,
                                                size_t size) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatmulPreferenceSetAttribute);
    set_attribute(handle, which, data, size);
    return CUBLAS_STATUS_SUCCESS;
  };
  out.cublasLtMatmulAlgoGetHeuristic =
      [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
         cublasLtMatmulHeuristicResult_t* results, int* count) -> cublasStatus_t {
    FAKE_BLAS(cublasLtMatmulAlgoGetHeuristic);
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
  };
  out.cublasLtMatmul = [](cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* a,
                          cublasLtMatrixLayout_t ad, const void* b, cublasLtMatrixLayout_t bd,
                          const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                          cublasLtMatrixLayout_t dd, const cublasLtMatmulAlgo_t*, void*, size_t,
                          cudaStream_t) -> cublasStatus_t {
    const Matrix am(ad);
    const Matrix bm(bd);
    const Matrix dm(dd);
    FAKE_BLAS(cublasLtMatmul, fmt::format("{}x{} {}x{} {}x{} times {}", am.rows, am.columns, bm.rows,
                                          bm.columns, dm.rows, dm.columns, dm.count));
    if (c != d) return CUBLAS_STATUS_INVALID_VALUE;
    return multiply(object(static_cast<const void*>(operation)), a, am, b, bm, adds(beta), d, dm);
  };
}

}  // namespace

void set_current(FakeGpu* gpu) { the_gpu = gpu; }

profiler::cuda::Libraries fake_libraries() {
  profiler::cuda::Libraries out;
  fake_shapes(out);
  fake_convolutions(out);
  fake_pooling(out);
  fake_elements(out);
  fake_norms(out);
  fake_recurrences(out);
  fake_products(out);
  return out;
}

}  // namespace support
