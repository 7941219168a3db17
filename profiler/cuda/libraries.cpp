#include "profiler/cuda/libraries.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>

#include "models/errors.hpp"
#include "profiler/cuda/search_path.hpp"

namespace profiler::cuda {
namespace {

/// Stays open until the process ends. None found: nullptr.
void* open(const std::string& name) {
  for (const std::filesystem::path& candidate : candidates(name, search_environment())) {
    // global: cuDNN looks for cuBLASLt by its name
    if (void* const found = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL); found != nullptr)
      return found;
  }
  return nullptr;
}

void* open_or_throw(const std::string& name) {
  void* const found = open(name);
  if (found == nullptr)
    throw models::WorldError(fmt::format(
        "no {}: neither the system's loader finds it nor a Python installation on the PATH has it; "
        "FUSEWISE_CUDA_LIBRARIES may name its folder",
        name));
  return found;
}

template <typename Function>
void find(void* library, const char* name, Function& to) {
  void* const symbol = ::dlsym(library, name);
  if (symbol == nullptr) throw models::WorldError(fmt::format("{}: not in the library that was found", name));
  to = reinterpret_cast<Function>(symbol);
}

Libraries load() {
  Libraries out;
  const std::string suffix = fmt::format(".so.{}", CUBLAS_VER_MAJOR);
  open("libnvrtc" + suffix);  // for the engines of cuDNN that compile what they run, where it is
  void* const blas = open_or_throw("libcublasLt" + suffix);
  void* const dnn = open_or_throw(fmt::format("libcudnn.so.{}", CUDNN_MAJOR));
#define FUSEWISE_FIND_DNN(name) find(dnn, #name, out.name);
  FUSEWISE_CUDNN(FUSEWISE_FIND_DNN)
#undef FUSEWISE_FIND_DNN
#define FUSEWISE_FIND_BLAS(name) find(blas, #name, out.name);
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
