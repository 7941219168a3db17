#include "profiler/cuda/backend.hpp"

#include <fmt/format.h>

#include "profiler/cuda/session.hpp"
#include "profiler/cuda/verify.hpp"

namespace profiler::cuda {

void check_backend(const SessionWishes& wishes) {
  if (wishes.tf32 && wishes.dtype != traces::Dtype::float32)
    throw models::InputError(fmt::format("--tf32: expected --dtype float32, got {}", name(wishes.dtype)));
  open_runtime();
  libraries();
}

double backend_bytes(const ModelWork& work, double batch_size, const SessionWishes& wishes) {
  return device_bytes(work, batch_size, arithmetic_of(wishes));
}

std::optional<double> backend_free_bytes() { return static_cast<double>(open_runtime()->free_bytes()); }

std::unique_ptr<Session> open_backend(const ModelWork& work, const SessionWishes& wishes) {
  return std::make_unique<DeviceSession>(open_parts(), work, wishes);
}

Verdict verify_backend(const ModelWork& work, const SessionWishes& wishes) {
  const Parts parts = open_parts();
  Device device(*parts.runtime, *parts.libraries, *parts.kernels, arithmetic_of(wishes));
  return {.layers = compare_with_cpu(device, work, wishes.batch_size, wishes.threads),
          .tolerance = tolerance(device.arithmetic())};
}

}  // namespace profiler::cuda
