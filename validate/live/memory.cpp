#include "validate/live/memory.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "profiler/common/host.hpp"
#include "profiler/layers/backend.hpp"
#include "profiler/layers/work.hpp"

namespace live {
namespace {

/// Whether no group of the run can be dense.
bool always_encodes(const RunSpec& spec) {
  return !spec.schedule.selective &&
         std::ranges::none_of(transfers_of(spec), [](const planner::Transfer& transfer) {
           return transfer.compressor.is_none();
         });
}

/// On a GPU, layers use no memory of the host.
double layer_bytes(const RealLayers& layers) {
  if (layers.backend != "cpu") return 0;
  const auto backend = std::ranges::find(profiler::backends(), layers.backend, &profiler::Backend::name);
  return backend->bytes(profiler::make_work(layers.model), static_cast<double>(layers.batch_size),
                        {.batch_size = layers.batch_size});
}

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

}  // namespace

double memory_bytes(const RunSpec& spec, bool computes) {
  double gradients = 0;
  for (const core::ProfileLayer& layer : spec.profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors)
      gradients += sizeof(float) * static_cast<double>(tensor.elements);
  // A dense group has a fusion buffer; to check an encoded one, each worker computes the gradients of all.
  const double copies = 1 + (always_encodes(spec) ? static_cast<double>(spec.workers) : 1);
  return copies * gradients + (computes ? layer_bytes(*spec.layers) : 0);
}

void check_memory(const std::vector<RunSpec>& all, std::uint32_t workers_here) {
  const std::optional<double> free = profiler::free_memory_bytes();
  for (const RunSpec& spec : all) {
    const std::uint32_t computing = spec.layers ? std::min(workers_here, spec.layers->computing) : 0;
    const double needed = (computing > 0 ? computing * memory_bytes(spec, true) : 0) +
                          (workers_here - computing) * memory_bytes(spec, false);
    if (free && needed > *free)
      throw core::EnvironmentError(fmt::format(
          "{}: a live run of {} workers on this host needs at least {} of memory, {} is available",
          core::printable(spec.name), workers_here, gigabytes(needed), gigabytes(*free)));
  }
}

}  // namespace live
