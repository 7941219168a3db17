#include "profiler/layers/cuda/backend.hpp"

#include <fmt/format.h>

#include "profiler/layers/cuda/session.hpp"
#include "profiler/layers/cuda/verify.hpp"

namespace profiler::cuda {

void check_backend(const SessionOptions& options) {
  if (options.tf32 && options.dtype != core::Dtype::float32)
    throw core::InputError(fmt::format("--tf32: expected --dtype float32, got {}", name(options.dtype)));
  open_runtime();
  libraries();
}

double backend_bytes(const ModelWork& work, double batch_size, const SessionOptions& options) {
  return device_bytes(work, batch_size, arithmetic_of(options));
}

std::optional<double> backend_free_bytes() { return static_cast<double>(open_runtime()->free_bytes()); }

std::unique_ptr<Session> open_backend(const ModelWork& work, const SessionOptions& options) {
  return std::make_unique<DeviceSession>(open_parts(), work, options);
}

Verdict verify_backend(const ModelWork& work, const SessionOptions& options) {
  const Parts parts = open_parts();
  Device device(*parts.runtime, *parts.libraries, *parts.kernels, arithmetic_of(options));
  return {.layers = compare_with_cpu(device, work, options.batch_size, options.threads),
          .tolerance = tolerance(device.arithmetic())};
}

}  // namespace profiler::cuda
