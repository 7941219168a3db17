// Replaces NCCL in a build without its headers.

#include "core/errors.hpp"
#include "profiler/measure/backend.hpp"
#include "profiler/measure/nccl/names.hpp"

namespace measure {
namespace {

[[noreturn]] void refuse() {
  throw core::EnvironmentError(
      "no CUDA device: this build of fusewise has found no headers of CUDA and NCCL (try --backend tcp)");
}

}  // namespace

CollectiveBackend nccl_backend() {
  return {.name = "nccl",
          .summary = kNcclSummary,
          .algorithms = [] { return names_of(kNcclAlgorithms); },
          .protocols = [] { return names_of(kNcclProtocols); },
          .uses_control = false,
          .max_ranks = [](const EngineOptions&) -> std::uint32_t { refuse(); },
          .make = [](transport::Transport&, const EngineOptions&) -> std::unique_ptr<Engine> { refuse(); }};
}

}  // namespace measure
