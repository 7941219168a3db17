// Replaces this folder in a build without the CUDA Toolkit or cuDNN's headers.

#include "core/errors.hpp"
#include "profiler/layers/cuda/backend.hpp"

namespace profiler::cuda {
namespace {

[[noreturn]] void refuse() {
  throw core::EnvironmentError(
      "no CUDA device: this fusewise was built without the CUDA Toolkit or without cuDNN's headers");
}

}  // namespace

void check_backend(const SessionOptions& /*options*/) { refuse(); }
double backend_bytes(const ModelWork& /*work*/, double /*batch_size*/, const SessionOptions& /*options*/) {
  refuse();
}
std::optional<double> backend_free_bytes() { refuse(); }
std::unique_ptr<Session> open_backend(const ModelWork& /*work*/, const SessionOptions& /*options*/) {
  refuse();
}
Verdict verify_backend(const ModelWork& /*work*/, const SessionOptions& /*options*/) { refuse(); }

}  // namespace profiler::cuda
