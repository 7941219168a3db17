// How workers divide a model among them.

#pragma once

#include <cstdint>

namespace core {

/// How many workers divide layers, and how many divide the experts among them.
struct ModelDivision {
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  bool operator==(const ModelDivision&) const = default;
};

}  // namespace core
