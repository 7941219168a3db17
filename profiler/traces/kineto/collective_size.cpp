#include "profiler/traces/kineto/collective_size.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"

namespace kineto {
namespace {

const Collective* of(const Trace& trace, const Kernel& kernel) {
  return kernel.collective < 0 ? nullptr : &trace.collectives[static_cast<std::size_t>(kernel.collective)];
}

/// A kernel that reduces has the element's type in its name: "ncclKernel_AllReduce_RING_LL_Sum_half".
std::int64_t bytes_by_kernel(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 8> kAll = {{{"_float", 4},
                                                                              {"_half", 2},
                                                                              {"bfloat16", 2},
                                                                              {"_double", 8},
                                                                              {"_f32", 4},
                                                                              {"_f16", 2},
                                                                              {"_bf16", 2},
                                                                              {"_f64", 8}}};
  for (const auto& [part, bytes] : kAll)
    if (name.find(part) != std::string_view::npos) return bytes;
  return 0;
}

/// Every rank adds as much to an all-gather as this one, if the trace does not state the result.
std::int64_t gathered(const Collective& collective, std::int64_t workers) {
  if (collective.out_elements > 0 || workers <= 0 || collective.in_elements > core::kMaxElements / workers)
    return collective.out_elements;
  return collective.in_elements * workers;
}

}  // namespace

std::string_view collective_name(const Trace& trace, const Kernel& kernel) {
  const Collective* collective = of(trace, kernel);
  const bool is_named = collective != nullptr && collective->name != TextId{};
  return trace.texts[is_named ? collective->name : kernel.name];
}

std::optional<core::CollectiveKind> kind_of(const Trace& trace, const Kernel& kernel) {
  const auto named = collective_kind(collective_name(trace, kernel));
  return named ? named : collective_kind(trace.texts[kernel.name]);
}

bool is_broadcast(const Trace& trace, const Kernel& kernel) {
  return kernel.collective >= 0 &&
         plain_name(collective_name(trace, kernel)).find("broadcast") != std::string::npos;
}

std::int64_t group_size(const Trace& trace, const Kernel& kernel) {
  const Collective* collective = of(trace, kernel);
  return collective != nullptr && collective->group_size > 0 ? collective->group_size : trace.world_size;
}

std::int64_t bytes_of(const Trace& trace, const Kernel& kernel) {
  const Collective* collective = of(trace, kernel);
  if (collective == nullptr) return 0;
  const bool gathers = kind_of(trace, kernel) == core::CollectiveKind::all_gather;
  std::int64_t each = element_bytes(trace.texts[collective->dtype]);
  if (each == 0 && !gathers) each = bytes_by_kernel(trace.texts[kernel.name]);
  const std::int64_t elements =
      gathers ? gathered(*collective, group_size(trace, kernel)) : collective->in_elements;
  return elements > 0 && elements <= core::kMaxElements ? elements * each : 0;
}

}  // namespace kineto
