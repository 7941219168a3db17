#include "profiler/measure/backend.hpp"

#include <algorithm>
#include <array>

namespace measure {

CollectiveBackend tcp_backend();
CollectiveBackend nccl_backend();

std::span<const CollectiveBackend> collective_backends() {
  static const std::array all = {tcp_backend(), nccl_backend()};
  return all;
}

const CollectiveBackend* find_backend(std::string_view name) {
  const std::span<const CollectiveBackend> all = collective_backends();
  const auto found = std::ranges::find(all, name, &CollectiveBackend::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace measure
