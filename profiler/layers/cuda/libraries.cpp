#include "profiler/layers/cuda/libraries.hpp"

#include <string>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "profiler/cuda_runtime/shared_library.hpp"

namespace profiler::cuda {
namespace {

using cuda_runtime::SharedLibrary;

Libraries load() {
  Libraries out;
  const std::string suffix = fmt::format(".so.{}", CUBLAS_VER_MAJOR);
  // Must be loaded before cuDNN, which asks the loader for both by name: for cuBLASLt always, for NVRTC when
  // it compiles.
  try {
    SharedLibrary::open({.what = "NVRTC", .files = {"libnvrtc" + suffix}});
  } catch (const core::EnvironmentError&) {  // then without the engines that compile
  }
  const SharedLibrary blas = SharedLibrary::open({.what = "cuBLASLt", .files = {"libcublasLt" + suffix}});
  const SharedLibrary dnn =
      SharedLibrary::open({.what = "cuDNN", .files = {fmt::format("libcudnn.so.{}", CUDNN_MAJOR)}});
#define FUSEWISE_FIND_DNN(name) cuda_runtime::load(dnn, out.name, #name);
  FUSEWISE_CUDNN(FUSEWISE_FIND_DNN)
#undef FUSEWISE_FIND_DNN
#define FUSEWISE_FIND_BLAS(name) cuda_runtime::load(blas, out.name, #name);
  FUSEWISE_CUBLASLT(FUSEWISE_FIND_BLAS)
#undef FUSEWISE_FIND_BLAS
  return out;
}

}  // namespace

const Libraries& libraries() {
  static const Libraries loaded = load();
  return loaded;
}

std::string versions(const Libraries& libraries) {
  constexpr std::size_t kMajor = 10'000;
  constexpr std::size_t kMinor = 100;
  const std::size_t dnn = libraries.cudnnGetVersion();
  const std::size_t blas = libraries.cublasLtGetVersion();
  return fmt::format("cuDNN {}.{}.{}, cuBLASLt {}.{}.{}", dnn / kMajor, dnn % kMajor / kMinor, dnn % kMinor,
                     blas / kMajor, blas % kMajor / kMinor, blas % kMinor);
}

}  // namespace profiler::cuda
