#include "profiler/traces/kineto/copied_tensors.hpp"

#include <algorithm>
#include <string_view>

#include "core/limits.hpp"

namespace kineto {

bool add_copied_tensors(const Trace& trace, const Calls& calls, core::Dtype dtype,
                        std::vector<core::ProfileLayer>& layers) {
  const auto first =
      std::find_if(calls.calls.begin(), calls.calls.end(), [](const Call& call) { return call.has_kernel; });
  if (first == calls.calls.end()) return false;
  const std::int64_t first_layer = first->start_ns;
  std::vector<const Kernel*> copies;
  for (const Kernel& kernel : trace.kernels) {
    const std::string_view name = trace.texts[kernel.name];
    if (name.substr(0, 11) == "Memcpy HtoD" && kernel.end_ns <= first_layer && kernel.bytes > 0)
      copies.push_back(&kernel);
  }
  std::stable_sort(copies.begin(), copies.end(),
                   [](const Kernel* a, const Kernel* b) { return a->start_ns < b->start_ns; });
  std::vector<core::ProfileLayer*> owners;
  for (core::ProfileLayer& layer : layers)
    if (layer.kind.substr(0, 4) == "conv" || layer.kind == "linear" || layer.kind == "addmm")
      owners.push_back(&layer);
  const std::int64_t width = core::bytes_per_element(dtype);
  const bool fits = std::all_of(copies.begin(), copies.end(), [&](const Kernel* copy) {
    return copy->bytes % width == 0 && copy->bytes / width <= core::kMaxElements;
  });
  if (owners.empty() || copies.size() != 2 * owners.size() || !fits) return false;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    owners[i]->tensors = {{.name = owners[i]->name + ".weight", .elements = copies[2 * i]->bytes / width},
                          {.name = owners[i]->name + ".bias", .elements = copies[2 * i + 1]->bytes / width}};
  }
  return true;
}

}  // namespace kineto
