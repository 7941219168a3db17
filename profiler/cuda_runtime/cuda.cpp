#include "profiler/cuda_runtime/cuda.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"

namespace cuda_runtime {
namespace {

#define FUSEWISE_QUOTED(name) #name
#define FUSEWISE_TEXT(name) FUSEWISE_QUOTED(name)  // headers rename functions by macros

/// The library of the same major version as the headers: other versions have other parameters.
LibraryName library_name() {
  constexpr int kMajor = CUDART_VERSION / 1000;
  constexpr int kFirstWithPlainName = 12;
  return {.what = fmt::format("the CUDA {} runtime", kMajor),
          .files = {fmt::format("libcudart.so.{}{}", kMajor, kMajor < kFirstWithPlainName ? ".0" : "")}};
}

Cuda opened() try {
  const SharedLibrary library = SharedLibrary::open(library_name());
  Cuda out;
  out.file = library.file();
#define FUSEWISE_LOAD(name) load(library, out.name, FUSEWISE_TEXT(name));
  FUSEWISE_CUDA_FUNCTIONS(FUSEWISE_LOAD)
#undef FUSEWISE_LOAD
  return out;
} catch (const core::EnvironmentError& error) {
  throw core::EnvironmentError(fmt::format("no CUDA device: {}", error.what()));
}

}  // namespace

void Cuda::check(cudaError_t status, const char* what) const {
  if (status != cudaSuccess)
    throw core::EnvironmentError(fmt::format("{}: {}", what, this->cudaGetErrorString(status)));
}

const Cuda& cuda() {
  static const Cuda all = opened();
  return all;
}

int device_count() {
  int count = 0;
  const cudaError_t status = cuda().cudaGetDeviceCount(&count);
  if (status != cudaSuccess)
    throw core::EnvironmentError(fmt::format("no CUDA device: {}", cuda().cudaGetErrorString(status)));
  if (count < 1) throw core::EnvironmentError("no CUDA device: the driver reports none");
  return count;
}

}  // namespace cuda_runtime
