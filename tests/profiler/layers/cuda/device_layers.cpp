// Part of cuda_tests: every kind of layer on the GPU beside the CPU, in every kind of arithmetic.

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "profiler/layers/cuda/kernels_on.hpp"
#include "profiler/layers/cuda/own_kernels.hpp"
#include "profiler/layers/cuda/session.hpp"
#include "profiler/layers/cuda/verify.hpp"
#include "tests/profiler/layer_examples.hpp"
#include "tests/profiler/layers/cuda/alone.hpp"
#include "tests/profiler/layers/cuda/every_kernel.hpp"
#include "tests/support/cuda_device.hpp"
#include "tests/support/needs.hpp"

namespace {

using profiler::ModelWork;
using profiler::cuda::Arithmetic;
using profiler::cuda::Device;
using profiler::cuda::Parts;
using profiler::cuda::Type;

void compare(const Arithmetic& arithmetic) {
  const Parts parts = profiler::cuda::open_parts();
  Device device(*parts.runtime, *parts.libraries, *parts.kernels, arithmetic);
  const double tolerance = profiler::cuda::tolerance(arithmetic);
  for (const support::LayerExample& example : support::layer_examples()) {
    CAPTURE(example.layers);
    const core::Model model = support::model_of(example);
    const ModelWork work = profiler::make_work(model);
    try {
      for (const auto& layer : profiler::cuda::compare_with_cpu(device, work, 3, 1)) {
        CAPTURE(layer.layer);
        CHECK(layer.forward <= tolerance);
        CHECK(layer.backward <= tolerance);
      }
    } catch (const core::InputError& refused) {  // an even window over channels
      CHECK(example.layers.find("lrn") != std::string::npos);
    } catch (const core::EnvironmentError& error) {
      FAIL_CHECK(error.what());
    }
  }
}

struct HostLaunch {
  void hold(const int* /*flag*/, int /*ticket*/, std::int64_t /*max_ns*/, int* /*late*/) {}
  template <typename Body>
  void each(const Body& body, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
  template <typename Body>
  void rows(const Body& body, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) body(support::Alone{}, i);
  }
  template <typename Body>
  void short_rows(const Body& body, std::int64_t count) {
    rows(body, count);
  }
};

TEST_CASE("gpu own kernels: every one, of each type, gives what it gives on the host" *
          support::needs(support::no_cuda_device)) {
  const auto runtime = profiler::cuda::open_runtime();
  const auto kernels = profiler::cuda::own_kernels(runtime->stream());
  profiler::cuda::KernelsOn<HostLaunch> here;
  for (const Type type : {Type::float32, Type::float16, Type::bfloat16}) {
    std::vector<void*> given;
    const support::Give give = [&](std::size_t bytes) {
      return given.emplace_back(runtime->allocate_shared(bytes));
    };
    const std::vector<float> got =
        support::EveryKernel(*kernels, type, give, [&] { runtime->synchronize(); }).run();
    const std::vector<float> expected = support::every_kernel_here(here, type);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      REQUIRE(std::abs(static_cast<double>(got[i] - expected[i])) <= support::order_tolerance(type));
    }
    for (void* memory : given) runtime->release_shared(memory);
  }
}

TEST_CASE("gpu layers: as the CPU's in float32" * support::needs(support::no_cuda_device)) { compare({}); }
TEST_CASE("gpu layers: as the CPU's in float32 with TF32" * support::needs(support::no_cuda_device)) {
  compare({.tf32 = true});
}
TEST_CASE("gpu layers: as the CPU's in float16" * support::needs(support::no_cuda_device)) {
  compare({.type = Type::float16});
}
TEST_CASE("gpu layers: as the CPU's in bfloat16" * support::needs(support::no_cuda_device)) {
  compare({.type = Type::bfloat16, .is_mostly_own = true});
}

TEST_CASE("gpu layers: a session's times, with every launch held back" *
          support::needs(support::no_cuda_device)) {
  const core::Model model = support::model_of(support::layer_examples().front());
  const ModelWork work = profiler::make_work(model);
  profiler::cuda::DeviceSession session(profiler::cuda::open_parts(), work, {.batch_size = 64});
  std::vector<double> forward(work.layers.size());
  std::vector<double> backward(work.layers.size());
  session.time_layers(forward, backward);
  for (const profiler::LayerWork& layer : work.layers) {
    CAPTURE(layer.layer->name);
    CHECK((forward[layer.index] > 0) == layer.runs());
  }
  CHECK(session.time_iteration() > 0);
  CHECK(session.conditions().find("could not be held back") == std::string::npos);
  CHECK(*session.peak_bytes() > 0);
}

}  // namespace
