// NCCL in a build that has found no headers of it.

#include "models/errors.hpp"
#include "profiler/measure/backend.hpp"
#include "profiler/measure/nccl/names.hpp"

namespace measure {
namespace {

[[noreturn]] void refuse() {
  throw models::WorldError(
      "no CUDA device: this build of fusewise has found no headers of CUDA and NCCL (try --backend tcp)");
}

}  // namespace

CollectiveBackend nccl_backend() {
  return {.name = "nccl",
          .summary = kNcclSummary,
          .algorithms = [] { return names_of(kNcclAlgorithms); },
          .protocols = [] { return names_of(kNcclProtocols); },
          .uses_control = false,
          .most_ranks = [](const EngineWishes&) -> std::uint32_t { refuse(); },
          .make = [](transport::Transport&, const EngineWishes&) -> std::unique_ptr<Engine> { refuse(); }};
}

}  // namespace measure
