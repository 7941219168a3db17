// A row's only thread, where kernels of rows run on the host.

#pragma once

#include <cstdint>

namespace support {

struct Alone {
  std::int64_t first() const { return 0; }
  std::int64_t step() const { return 1; }
  float sum(float x) const { return x; }
  float max(float x) const { return x; }
};

}  // namespace support
