// Layers on a GPU. This build has none of it, and says so.

#include "models/errors.hpp"
#include "profiler/backend.hpp"

namespace profiler::list {
namespace {

[[noreturn]] void refuse() {
  throw models::WorldError(
      "no CUDA device: this build of fusewise runs no layers on a GPU (try --backend cpu)");
}

}  // namespace

Backend cuda() {
  return {.name = "cuda",
          .summary = "a GPU, where the build has it",
          .check = [](const SessionWishes&) { refuse(); },
          .bytes = [](const ModelWork&, double, const SessionWishes&) -> double { refuse(); },
          .free_bytes = []() -> std::optional<double> { refuse(); },
          .open = [](const ModelWork&, const SessionWishes&) -> std::unique_ptr<Session> { refuse(); }};
}

}  // namespace profiler::list
