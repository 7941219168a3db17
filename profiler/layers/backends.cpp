#include <array>

#include "profiler/layers/backend.hpp"

// Each is defined in backends/NAME.cpp.
#define FUSEWISE_BACKENDS(X) \
  X(cpu)                     \
  X(cuda)

namespace profiler {
namespace list {

#define FUSEWISE_DECLARE(name) Backend name();
FUSEWISE_BACKENDS(FUSEWISE_DECLARE)
#undef FUSEWISE_DECLARE

}  // namespace list

std::span<const Backend> backends() {
#define FUSEWISE_ENTRY(name) list::name(),
  static const std::array all = {FUSEWISE_BACKENDS(FUSEWISE_ENTRY)};
#undef FUSEWISE_ENTRY
  return all;
}

}  // namespace profiler
