#include "collectives/compression/wire.hpp"

#include <stdexcept>

#include <fmt/core.h>

namespace compression {

void refuse(const char* name, const char* what, std::size_t got) {
  throw std::invalid_argument(fmt::format("{}: expected {}, got {}", name, what, got));
}

}  // namespace compression
