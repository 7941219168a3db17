// Timing on a fake GPU: what is put on the stream between which events, and what is said about it.

#include "profiler/layers/cuda/session.hpp"

#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "profiler/layers/measure_profile.hpp"
#include "tests/profiler/layers/cuda/fake_gpu.hpp"

namespace {

using profiler::ModelWork;
using profiler::cuda::DeviceSession;
using profiler::cuda::Parts;
using profiler::cuda::Reading;
using support::FakeGpu;

/// A degree and ten MHz more each time.
class Warming : public profiler::cuda::Sensors {
 public:
  std::optional<Reading> read() override {
    ++reads_;
    return Reading{.processor_mhz = 1000 + 10 * reads_, .memory_mhz = 3201, .celsius = 40 + reads_};
  }

 private:
  unsigned reads_ = 0;
};

Parts parts_of(FakeGpu& gpu) {
  Parts out;
  out.runtime = gpu.runtime();
  out.kernels = gpu.kernels();
  out.sensors = std::make_unique<Warming>();
  out.libraries = &gpu.libraries();
  return out;
}

const char* const kModel =
    R"({"format": "fusewise.model", "version": 1, "name": "small", "about": "", "batch_size": 2,
  "dtype": "float32", "input": [{"name": "x", "shape": [3, 8, 8]}],
  "layers": [{"name": "conv", "kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
             {"name": "act", "kind": "relu"}, {"name": "flat", "kind": "flatten"},
             {"name": "fc", "kind": "linear", "out_features": 5}, {"name": "loss", "kind": "cross_entropy"}]})";

core::Model small_model() { return core::read_model(core::Field::parse(kModel, "m.json"), {}); }

TEST_CASE("cuda session: each layer behind a gate of its own, between two events, in order") {
  const core::Model model = small_model();
  const ModelWork work = profiler::make_work(model);
  FakeGpu gpu(FakeGpu::Mode::records);
  {
    DeviceSession session(parts_of(gpu), work, {.batch_size = 2});
    CHECK(session.device() == "fake, no TF32");
    gpu.calls.clear();
    std::vector<double> forward(work.layers.size());
    std::vector<double> backward(work.layers.size());
    session.time_layers(forward, backward);
    std::string order;
    for (const support::FakeCall& call : gpu.calls) order += call.function + " ";
    CHECK(
        order ==
        "hold record cudnnConvolutionForward cudnnAddTensor record hold record cudnnActivationForward record "
        "hold record cublasLtMatmul record hold record cudnnSoftmaxForward own record hold record own record "
        "hold record cublasLtMatmul cublasLtMatmul cublasLtMatmul record hold record cudnnActivationBackward "
        "record hold record cudnnConvolutionBackwardFilter cudnnConvolutionBackwardBias record synchronize ");
    // the fake's events are 3 us apart; the input and the view take no time
    CHECK(forward == std::vector<double>{0, 3, 3, 0, 3, 3});
    CHECK(backward == forward);
    CHECK(gpu.opened == gpu.gates - 1);  // at the last event, all gates but its own were open
    gpu.calls.clear();
    CHECK(session.time_iteration() == 3);
    CHECK(gpu.calls.front().function == "record");
    CHECK(gpu.calls.back().function == "synchronize");
    for (const support::FakeCall& call : gpu.calls) CHECK(call.function != "hold");
    const std::string said = session.conditions();
    for (const std::string part :
         {"CUDA events on one stream, launches held back; two with nothing in between are 3.0 us apart",
          "launching an iteration takes the host ", "driver 0.1, runtime 0.2, cuDNN 9.19.0, cuBLASLt 13.1.0",
          "multiprocessors at 1010 to 1020 MHz, memory at 3201 MHz, 41 to 42 C"}) {
      CAPTURE(said);
      CHECK(said.find(part) != std::string::npos);
    }
    CHECK(said.find("could not be held back") == std::string::npos);
    CHECK(*session.peak_bytes() == static_cast<double>(gpu.max_used));
  }
  CHECK(gpu.is_clean());
}

TEST_CASE("cuda session: some layers by themselves, to their end, backward from the last") {
  const core::Model model = small_model();
  const ModelWork work = profiler::make_work(model);
  FakeGpu gpu(FakeGpu::Mode::records);
  DeviceSession session(parts_of(gpu), work, {.batch_size = 2});
  gpu.calls.clear();
  session.forward(2, 5);
  session.backward(1, 3);
  std::string order;
  for (const support::FakeCall& call : gpu.calls) order += call.function + " ";
  CHECK(order ==
        "cudnnActivationForward cublasLtMatmul synchronize "
        "cudnnActivationBackward cudnnConvolutionBackwardFilter cudnnConvolutionBackwardBias synchronize ");
}

TEST_CASE("cuda session: TF32 and narrow types are in the device's name, other wishes are not") {
  const core::Model model = small_model();
  const ModelWork work = profiler::make_work(model);
  FakeGpu gpu(FakeGpu::Mode::records);
  CHECK(DeviceSession(parts_of(gpu), work, {.tf32 = true}).device() == "fake, TF32");
  CHECK(DeviceSession(parts_of(gpu), work, {.dtype = core::Dtype::bfloat16}).device() == "fake");
}

/// What an all-reduce of all of them carries.
std::int64_t gradient_bytes(const core::Profile& profile) {
  std::int64_t out = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    for (const auto& tensor : layer.tensors) out += tensor.elements * core::bytes_per_element(profile.dtype);
  return out;
}

FakeGpu* given = nullptr;
double room = 0;

/// A backend on the fake that is given.
profiler::Backend fake_backend() {
  return {.name = "fake",
          .summary = "",
          .check = [](const profiler::SessionOptions&) {},
          .bytes =
              [](const ModelWork& work, double batch, const profiler::SessionOptions& options) {
                return profiler::cuda::device_bytes(work, batch, profiler::cuda::arithmetic_of(options));
              },
          .free_bytes = []() -> std::optional<double> { return room; },
          .open = [](const ModelWork& work,
                     const profiler::SessionOptions& options) -> std::unique_ptr<profiler::Session> {
            return std::make_unique<DeviceSession>(parts_of(*given), work, options);
          }};
}

TEST_CASE(
    "cuda session: in halves gradients have half the bytes, and the profile says what is kept in float32") {
  const core::Model model = small_model();
  FakeGpu gpu(FakeGpu::Mode::records);
  given = &gpu;
  room = 1e12;
  const auto measured = [&](core::Dtype dtype) {
    return profiler::measure_profile(model, fake_backend(),
                                     {.session = {.batch_size = 2, .dtype = dtype}, .repetitions = 1})
        .profile;
  };
  const core::Profile whole = measured(core::Dtype::float32);
  CHECK(whole.origin.source.find("master copy") == std::string::npos);
  for (const core::Dtype dtype : {core::Dtype::float16, core::Dtype::bfloat16}) {
    const core::Profile half = measured(dtype);
    CHECK(half.dtype == dtype);
    CHECK(gradient_bytes(half) * 2 == gradient_bytes(whole));
    CHECK(
        half.origin.source.find("sums and products in float32; batch norms' weights and their gradients are "
                                "float32, and there is no master copy of weights") != std::string::npos);
    const core::Profile read = core::read_profile(core::Field::parse(core::profile_text(half), "half.json"));
    CHECK(gradient_bytes(read) == gradient_bytes(half));
  }
  CHECK(gpu.is_clean());
  given = nullptr;
}

TEST_CASE(
    "cuda session: a profile says how it was measured, memory that is not there is told of before and "
    "after") {
  const core::Model model = small_model();
  FakeGpu gpu(FakeGpu::Mode::records);
  given = &gpu;
  room = 1e12;
  const auto measured = profiler::measure_profile(
      model, fake_backend(), {.session = {.batch_size = 8, .dtype = core::Dtype::float16}, .repetitions = 3});
  CHECK(measured.profile.device == "fake");
  CHECK(measured.profile.origin.source.find("CUDA events on one stream") != std::string::npos);
  CHECK(measured.bytes == static_cast<double>(gpu.max_used));
  CHECK(measured.profile.layers[0].activation_bytes == 8 * model.layers[1].activation_elements * 2);
  CHECK(gpu.is_clean());

  const ModelWork work = profiler::make_work(model);
  room = fake_backend().bytes(work, 100, {});
  CHECK_THROWS_WITH_AS(
      (void)profiler::measure_profile(model, fake_backend(), {.session = {.batch_size = 200}}),
      doctest::Contains("the largest batch that fits is 100"), core::EnvironmentError);
  room = 1e12;
  gpu.room = profiler::cuda::kWorkspaceBytes + 30'000'000;  // enough for a few samples
  const auto measure = [&] {
    (void)profiler::measure_profile(model, fake_backend(), {.session = {.batch_size = 100'000}});
  };
  CHECK_THROWS_WITH_AS(measure(),
                       doctest::Contains("small: cudaMalloc: out of memory: a batch of 100000 should "
                                         "need "),
                       core::EnvironmentError);
  CHECK_THROWS_WITH_AS(measure(), doctest::Contains("; try a batch of "), core::EnvironmentError);
  CHECK(gpu.is_clean());
  given = nullptr;
}

}  // namespace
