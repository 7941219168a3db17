// Tests GPU layers without a GPU: a fake that computes shows that descriptors, strides and pointers are
// right; one that only records its arguments checks whole models.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "profiler/layers/cuda/session.hpp"
#include "profiler/layers/cuda/verify.hpp"
#include "profiler/layers/measure_profile.hpp"
#include "tests/profiler/layer_examples.hpp"
#include "tests/profiler/layers/cuda/fake_gpu.hpp"
#include "tests/support/program.hpp"

namespace {

using core::LayerKind;
using profiler::LayerWork;
using profiler::ModelWork;
using profiler::cuda::Arithmetic;
using profiler::cuda::Device;
using profiler::cuda::Executor;
using profiler::cuda::Type;
using support::FakeCall;
using support::FakeGpu;
using support::LayerExample;

/// A device of a fake, for the length of a scope.
struct FakeDevice {
  explicit FakeDevice(FakeGpu& gpu, const Arithmetic& arithmetic = {})
      : runtime(gpu.runtime()),
        kernels(gpu.kernels()),
        device(*runtime, gpu.libraries(), *kernels, arithmetic) {}

  std::unique_ptr<profiler::cuda::Runtime> runtime;
  std::unique_ptr<profiler::cuda::Kernels> kernels;
  Device device;
};

bool is_refused(const LayerExample& example) {  // a window that cuDNN has not
  return example.layers.find(R"("kind": "lrn", "size": 2)") != std::string::npos;
}

/// The same layer once more on what the first reads, where it reads what the first layer gives: the first
/// then adds to the gradient that this one has written. None for other examples.
std::optional<LayerExample> read_twice(const LayerExample& example) {
  auto layers = nlohmann::json::parse(example.layers);
  if (layers.size() != 3 || layers[0].value("name", "") != "before" || layers[1].value("name", "") != "it")
    return std::nullopt;
  auto again = layers[1];
  again["name"] = "again";
  if (!again.contains("inputs")) again["inputs"] = {"before"};
  auto times = layers[2];
  times["name"] = "times again";
  times["inputs"] = {"again", "y"};
  layers.push_back(again);
  layers.push_back(times);
  return LayerExample{.inputs = example.inputs, .layers = layers.dump()};
}

void check_against_cpu(const LayerExample& example, double tolerance, const Arithmetic& arithmetic = {}) {
  CAPTURE(example.layers);
  const core::Model model = support::model_of(example);
  const ModelWork work = profiler::make_work(model);
  FakeGpu gpu(FakeGpu::Mode::computes);
  {
    FakeDevice fake(gpu, arithmetic);
    for (const auto& layer : profiler::cuda::compare_with_cpu(fake.device, work, 3, 1)) {
      CAPTURE(layer.layer);
      CHECK(layer.forward <= tolerance);
      CHECK(layer.backward <= tolerance);
    }
  }
  CHECK(gpu.is_clean());
}

TEST_CASE("cuda layers: every kind computes what the CPU does, forward and backward") {
  for (const LayerExample& example : support::layer_examples())
    if (!is_refused(example)) check_against_cpu(example, 2e-5);
}

/// What a result or a gradient of this type is off by where it is rounded now and then: eight roundings.
double roundings(Type type) { return 8 * (type == Type::float16 ? 0x1p-11 : 0x1p-8); }

TEST_CASE("cuda layers: every kind in float16 and bfloat16 computes what float32 does, but for roundings") {
  for (const Arithmetic& arithmetic :
       {Arithmetic{.type = Type::float16}, Arithmetic{.type = Type::bfloat16, .is_mostly_own = true}}) {
    const bool is_float16 = arithmetic.type == Type::float16;
    CAPTURE(is_float16);
    CHECK(roundings(arithmetic.type) <= profiler::cuda::tolerance(arithmetic));
    for (const LayerExample& example : support::layer_examples()) {
      if (is_float16 && is_refused(example)) continue;
      check_against_cpu(example, roundings(arithmetic.type), arithmetic);
      if (const auto twice = read_twice(example))
        check_against_cpu(*twice, roundings(arithmetic.type), arithmetic);
    }
  }
}

TEST_CASE("cuda layers: the same by own kernels where cuDNN only convolves and runs LSTMs") {
  for (const LayerExample& example : support::layer_examples()) {
    check_against_cpu(example, 2e-5, {.is_mostly_own = true});
    if (const auto twice = read_twice(example)) check_against_cpu(*twice, 2e-5, {.is_mostly_own = true});
  }
}

TEST_CASE("cuda layers: channels of many elements are summed in parts, few of which fill a GPU") {
  CHECK(profiler::cuda::parts_of({.outer = 1, .channels = 4, .inner = 1}) == 1);
  CHECK(profiler::cuda::parts_of({.outer = 3, .channels = 4, .inner = 48 * 48}) == 3);
  CHECK(profiler::cuda::parts_of({.outer = 64, .channels = 64, .inner = 112 * 112}) == 32);
  CHECK(profiler::cuda::parts_of({.outer = 64, .channels = 2049, .inner = 112 * 112}) == 1);
  // three samples; the convolution before it has a bias of four channels
  const LayerExample example =
      support::image_example(R"({"name": "it", "kind": "batch_norm"})", "[4, 48, 48]", "[4, 48, 48]");
  check_against_cpu(example, 2e-4, {.is_mostly_own = true});
  check_against_cpu(example, roundings(Type::bfloat16), {.type = Type::bfloat16, .is_mostly_own = true});
}

TEST_CASE("cuda layers: what is read twice gets both gradients, of every kind") {
  int count = 0;
  for (const LayerExample& example : support::layer_examples())
    if (const auto twice = read_twice(example); twice && !is_refused(example)) {
      check_against_cpu(*twice, 2e-5);
      ++count;
    }
  CHECK(count > 35);
}

TEST_CASE("cuda layers: every kind that the CPU has, but for mixtures of experts, the GPU has") {
  for (const LayerExample& example : support::layer_examples())
    for (const core::Layer& layer : support::model_of(example).layers)
      if (layer.kind != LayerKind::input && !layer.is_view)
        CHECK_NOTHROW((void)profiler::cuda::kind_of(layer.kind));
}

TEST_CASE("cuda layers: a window over channels that cuDNN has not is refused by the layer's name") {
  for (const LayerExample& example : support::layer_examples()) {
    if (!is_refused(example)) continue;
    const core::Model model = support::model_of(example);
    const ModelWork work = profiler::make_work(model);
    FakeGpu gpu(FakeGpu::Mode::records);
    FakeDevice fake(gpu);
    CHECK_THROWS_WITH_AS((void)Executor(fake.device, work, 2),
                         "it: expected an odd size of at most 16 with --backend cuda, got 2",
                         core::InputError);
  }
}

std::vector<std::filesystem::path> bundled_models() {
  std::vector<std::filesystem::path> out;
  for (const auto& each : std::filesystem::directory_iterator(support::source_dir() / "models"))
    if (each.path().extension() == ".json") out.push_back(each.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string text(const core::Shape& image, std::int64_t batch) {
  return fmt::format("{}x{}x{}x{}", batch, image[0], image[1], image[2]);
}

/// What cuDNN must be told of a layer, as fake_libraries.cpp writes it down; "" where it is not cuDNN's, or
/// where it may be an own kernel's.
std::string told(const LayerWork& work, std::int64_t batch, const Arithmetic& arithmetic) {
  const core::Layer& layer = *work.layer;
  const core::Shape& in = work.inputs[0].shape;
  if (const auto* conv = std::get_if<core::Conv2d>(&layer.parameters))
    return fmt::format("{} {}x{}x{}x{} {} pad {}x{} stride {}x{} dilation {}x{} groups {}", text(in, batch),
                       conv->out_channels, in[0] / conv->groups, conv->kernel.height, conv->kernel.width,
                       text(layer.output, batch), conv->padding.height, conv->padding.width,
                       conv->stride.height, conv->stride.width, conv->dilation.height, conv->dilation.width,
                       conv->groups);
  const bool is_in_rows = layer.kind == LayerKind::linear || layer.kind == LayerKind::lstm;
  if (arithmetic.is_mostly_own && !is_in_rows) return {};
  if (layer.kind == LayerKind::relu || layer.kind == LayerKind::tanh)
    return fmt::format("{}x{}x1x1", batch, core::element_count(in));
  if (layer.kind == LayerKind::batch_norm && in.size() == 3)
    return fmt::format("{} 1x{}x1x1", text(in, batch), in[0]);
  if (layer.kind == LayerKind::lrn) return text(in, batch);
  if (layer.kind == LayerKind::cross_entropy)
    return fmt::format("{}x{}x1x1", batch * core::element_count(in) / in.back(), in.back());
  if (layer.kind == LayerKind::linear) {
    const std::int64_t rows = batch * core::element_count(in) / in.back();
    const std::int64_t out = layer.output.back();
    return fmt::format("{0}x{1} {0}x{2} {1}x{2} times 1", in.back(), out, rows);
  }
  if (const auto* lstm = std::get_if<core::Lstm>(&layer.parameters))
    return fmt::format("{}x{}x{}x1 {}x{}x{}x1 {}x{}x{}x1", batch, in[0], in[1], batch, layer.output[0],
                       layer.output[1], lstm->layers * (lstm->bidirectional ? 2 : 1), batch, lstm->hidden);
  return {};
}

/// The functions that a layer must call forward and backward, in this order; own kernels as "own".
struct Calls {
  std::vector<std::string> forward;
  std::vector<std::string> backward;
};

std::optional<Calls> calls_of(const LayerWork& work, const Arithmetic& arithmetic) {
  const bool wants = work.inputs[0].wants_gradient;
  const auto if_wanted = [&](std::vector<std::string> first, const std::vector<std::string>& then) {
    if (!wants) first.clear();
    first.insert(first.end(), then.begin(), then.end());
    return first;
  };
  const bool has_bias = work.weights.size() > 1;
  const auto cudnn_or_own = [&](const char* function) {
    return std::string(arithmetic.is_mostly_own ? "own" : function);
  };
  switch (work.layer->kind) {
    case LayerKind::conv2d: {
      Calls out = {{"cudnnConvolutionForward"},
                   if_wanted({"cudnnConvolutionBackwardData"}, {"cudnnConvolutionBackwardFilter"})};
      if (has_bias) {
        out.forward.push_back(cudnn_or_own("cudnnAddTensor"));
        out.backward.push_back(cudnn_or_own("cudnnConvolutionBackwardBias"));
        if (arithmetic.is_mostly_own) out.backward.emplace_back("own");
      }
      return out;
    }
    case LayerKind::linear: {
      Calls out = {{"cublasLtMatmul"}, if_wanted({"cublasLtMatmul"}, {"cublasLtMatmul"})};
      if (has_bias) out.backward.emplace_back("cublasLtMatmul");
      return out;
    }
    case LayerKind::relu:
    case LayerKind::tanh:
      return Calls{{cudnn_or_own("cudnnActivationForward")},
                   if_wanted({cudnn_or_own("cudnnActivationBackward")}, {})};
    case LayerKind::batch_norm:
      if (arithmetic.is_mostly_own)
        return Calls{
            {"own", "own", "own"},
            wants ? std::vector<std::string>{"own", "own", "own"} : std::vector<std::string>{"own", "own"}};
      return Calls{{"cudnnBatchNormalizationForwardTraining"}, {"cudnnBatchNormalizationBackward"}};
    case LayerKind::lrn:
      return Calls{{cudnn_or_own("cudnnLRNCrossChannelForward")},
                   if_wanted({cudnn_or_own("cudnnLRNCrossChannelBackward")}, {})};
    case LayerKind::cross_entropy:
      return Calls{{cudnn_or_own("cudnnSoftmaxForward"), "own"}, if_wanted({"own"}, {})};
    case LayerKind::gelu:
    case LayerKind::silu:
    case LayerKind::hardtanh:
    case LayerKind::dropout:
    case LayerKind::rotary: return Calls{{"own"}, if_wanted({"own"}, {})};
    default: return std::nullopt;
  }
}

std::vector<std::string> functions(const std::vector<FakeCall>& calls) {
  std::vector<std::string> out;
  for (const FakeCall& call : calls) out.push_back(call.function);
  return out;
}

void check_whole_model(const core::Model& model, const Arithmetic& arithmetic, std::int64_t batch) {
  const ModelWork work = profiler::make_work(model);
  FakeGpu gpu(FakeGpu::Mode::records);
  {
    FakeDevice fake(gpu, arithmetic);
    Executor executor(fake.device, work, batch, std::nullopt);
    // what was said before: cuDNN says itself what an LSTM needs, all else is known to the byte
    const double said = profiler::cuda::device_bytes(work, static_cast<double>(batch), arithmetic);
    CHECK(static_cast<double>(gpu.max_used) <= said);
    const auto check = [&](const std::vector<std::string>& expected) {
      CHECK(functions(gpu.calls) == expected);
    };
    for (const LayerWork& layer : work.layers) {
      if (!layer.runs()) continue;
      CAPTURE(layer.layer->name);
      gpu.calls.clear();
      executor.forward(layer.index);
      if (const auto expected = calls_of(layer, arithmetic)) check(expected->forward);
      if (const std::string shapes = told(layer, batch, arithmetic); !shapes.empty())
        CHECK(std::any_of(gpu.calls.begin(), gpu.calls.end(),
                          [&](const FakeCall& call) { return call.text == shapes; }));
    }
    for (auto layer = work.layers.rbegin(); layer != work.layers.rend(); ++layer) {
      if (!layer->runs()) continue;
      CAPTURE(layer->layer->name);
      gpu.calls.clear();
      executor.backward(layer->index);
      if (const auto expected = calls_of(*layer, arithmetic)) check(expected->backward);
      if (layer->layer->kind == LayerKind::conv2d)
        for (const FakeCall& call : gpu.calls)
          if (call.function != "own" && call.function != "cudnnConvolutionBackwardBias")
            CHECK(call.text == told(*layer, batch, arithmetic));
    }
  }
  CHECK(gpu.is_clean());
}

TEST_CASE(
    "cuda layers: every bundled model's layers ask the libraries for the model's shapes, and leave nothing") {
  for (const std::filesystem::path& path : bundled_models()) {
    CAPTURE(path.filename().string());
    const core::Model model = core::read_model(core::Field::load(path.string()), {});
    if (std::ranges::any_of(model.layers,
                            [](const core::Layer& each) { return each.kind == LayerKind::experts; }))
      CHECK_THROWS_WITH((void)profiler::cuda::kind_of(LayerKind::experts),
                        "expected kinds of layer that a GPU runs, got 'experts'");
    else
      check_whole_model(model, {}, 2);
  }
}

TEST_CASE("cuda layers: the same in halves, of half the bytes") {
  for (const Arithmetic& arithmetic :
       {Arithmetic{.type = Type::float16}, Arithmetic{.type = Type::bfloat16, .is_mostly_own = true}})
    for (const char* const name : {"bert-base", "googlenet", "lstm-an4"}) {
      CAPTURE(name);
      const core::Model model = core::read_model(
          core::Field::load((support::source_dir() / "models" / name).string() + ".json"), {});
      check_whole_model(model, arithmetic, 8);
      if (std::string_view(name) != "bert-base") continue;
      const ModelWork work = profiler::make_work(model);
      constexpr double kFixed = static_cast<double>(profiler::cuda::kWorkspaceBytes) + 0x1p29;
      const double wide = profiler::cuda::device_bytes(work, 8, {}) - kFixed;
      const double half = profiler::cuda::device_bytes(work, 8, arithmetic) - kFixed;
      CHECK(half / wide == doctest::Approx(0.5).epsilon(0.01));
    }
}

TEST_CASE("cuda layers: libraries are told of the type that numbers have, and sum in float32") {
  for (const Arithmetic& arithmetic : {Arithmetic{}, Arithmetic{.type = Type::float16},
                                       Arithmetic{.type = Type::bfloat16, .is_mostly_own = true}}) {
    const auto dnn = std::map<Type, int>{{Type::float32, CUDNN_DATA_FLOAT},
                                         {Type::float16, CUDNN_DATA_HALF},
                                         {Type::bfloat16, CUDNN_DATA_BFLOAT16}}
                         .at(arithmetic.type);
    const auto blas = std::map<Type, int>{
        {Type::float32, CUDA_R_32F},
        {Type::float16, CUDA_R_16F},
        {Type::bfloat16,
         CUDA_R_16BF}}.at(arithmetic.type);
    std::set<std::string> told_of;
    for (const LayerExample& example : support::layer_examples()) {
      if (is_refused(example)) continue;
      CAPTURE(example.layers);
      const core::Model model = support::model_of(example);
      const ModelWork work = profiler::make_work(model);
      const bool has_channel_norm = std::ranges::any_of(
          model.layers, [](const core::Layer& layer) { return layer.kind == LayerKind::batch_norm; });
      FakeGpu gpu(FakeGpu::Mode::records);
      FakeDevice fake(gpu, arithmetic);
      const Executor executor(fake.device, work, 2, std::nullopt);
      for (const FakeCall& call : gpu.calls) {
        CAPTURE(call.function);
        if (call.function == "cudnnSetTensor4dDescriptor" && has_channel_norm)
          CHECK((call.text == std::to_string(dnn) || call.text == std::to_string(CUDNN_DATA_FLOAT)));
        else if (call.function == "cudnnSetTensor4dDescriptor" ||
                 call.function == "cudnnSetFilter4dDescriptor" ||
                 call.function == "cudnnSetTensorNdDescriptor" ||
                 call.function == "cudnnSetRNNDataDescriptor" || call.function == "cudnnSetRNNDescriptor_v8")
          CHECK(call.text == std::to_string(dnn));
        else if (call.function == "cublasLtMatrixLayoutCreate")
          CHECK(call.text == std::to_string(blas));
        else if (call.function == "cublasLtMatmulDescCreate")
          CHECK(call.text == std::to_string(CUBLAS_COMPUTE_32F));
        else
          continue;
        told_of.insert(call.function);
      }
    }
    CHECK(told_of.size() == 7);
  }
}

TEST_CASE("cuda layers: plain float32 takes the fastest algorithm of those that were timed in it") {
  const core::Model model =
      core::read_model(core::Field::load((support::source_dir() / "models/resnet18.json").string()), {});
  const ModelWork work = profiler::make_work(model);
  for (const bool tf32 : {false, true}) {
    FakeGpu gpu(FakeGpu::Mode::records);
    FakeDevice fake(gpu, {.tf32 = tf32});
    Executor executor(fake.device, work, 1, std::nullopt);
    executor.forward(1);
    executor.backward(4);
    CHECK(gpu.algorithms == std::set<int>{tf32 ? 0 : 1});
  }
}

TEST_CASE("cuda layers: TF32 is asked for where it is wished and nowhere else") {
  const core::Model model =
      core::read_model(core::Field::load((support::source_dir() / "models/resnet18.json").string()), {});
  const ModelWork work = profiler::make_work(model);
  for (const bool tf32 : {false, true}) {
    FakeGpu gpu(FakeGpu::Mode::records);
    FakeDevice fake(gpu, {.tf32 = tf32});
    const Executor executor(fake.device, work, 1, std::nullopt);
    const std::string math = std::to_string(tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH);
    const std::string compute = std::to_string(tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    for (const FakeCall& call : gpu.calls) {
      if (call.function == "cudnnSetConvolutionMathType") CHECK(call.text == math);
      if (call.function == "cublasLtMatmulDescCreate") CHECK(call.text == compute);
    }
  }
}

/// A run of every example, one after another: every function of the libraries is called.
void run_examples(FakeGpu& gpu) {
  for (const LayerExample& example : support::layer_examples()) {
    if (is_refused(example)) continue;
    const core::Model model = support::model_of(example);
    const ModelWork work = profiler::make_work(model);
    FakeDevice fake(gpu);
    Executor executor(fake.device, work, 2, std::nullopt);
    for (std::size_t i = 0; i < work.layers.size(); ++i) executor.forward(i);
    for (std::size_t i = work.layers.size(); i-- > 0;) executor.backward(i);
  }
}

TEST_CASE("cuda layers: whatever function says no, one line tells of it and nothing is left behind") {
  FakeGpu whole(FakeGpu::Mode::records);
  run_examples(whole);
  std::set<std::string> called;
  for (const FakeCall& call : whole.calls)
    if (call.function.rfind("cu", 0) == 0) called.insert(call.function);
#define FUSEWISE_CALLED(name)                                                                               \
  if (std::string(#name).find("Destroy") == std::string::npos && #name != std::string("cudnnGetVersion") && \
      #name != std::string("cudnnGetErrorString") && #name != std::string("cublasLtGetVersion") &&          \
      #name != std::string("cublasLtGetStatusString"))                                                      \
    CHECK_MESSAGE(called.count(#name) == 1, #name);
  FUSEWISE_CUDNN(FUSEWISE_CALLED)
  FUSEWISE_CUBLASLT(FUSEWISE_CALLED)
#undef FUSEWISE_CALLED
  for (const std::string& function : called) {
    CAPTURE(function);
    FakeGpu gpu(FakeGpu::Mode::records);
    gpu.failing = function;
    std::string message;
    try {
      run_examples(gpu);
    } catch (const core::EnvironmentError& error) {
      message = error.what();
    }
    const std::string status = function.rfind("cudnn", 0) == 0 ? "CUDNN_STATUS_FAKE" : "CUBLAS_STATUS_FAKE";
    const std::string end = function + ": " + status;
    CHECK(message.size() >= end.size());
    CHECK(message.substr(message.size() - std::min(message.size(), end.size())) == end);
    CHECK(message.find('\n') == std::string::npos);
    CHECK(gpu.is_clean());
  }
}

}  // namespace
