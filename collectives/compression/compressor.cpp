#include "collectives/compression/compressor.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <fmt/core.h>

namespace compression {

// To add a compressor: write compressors/<name>.cpp and list it here; one that keeps some of the elements is
// a row of compressors/sparse.cpp.
std::vector<Compressor> sparse_compressors();
Compressor efsignsgd_compressor();
Compressor onebit_compressor();
Compressor float16_compressor();
Compressor bfloat16_compressor();

std::span<const Compressor> compressors() {
  static const std::vector<Compressor> all = [] {
    std::vector<Compressor> out = sparse_compressors();
    out.insert(out.end(),
               {efsignsgd_compressor(), onebit_compressor(), float16_compressor(), bfloat16_compressor()});
    return out;
  }();
  return all;
}

const Compressor* find_compressor(std::string_view name) {
  const std::span<const Compressor> all = compressors();
  const auto found = std::ranges::find(all, name, &Compressor::name);
  return found == all.end() ? nullptr : &*found;
}

std::size_t kept_elements(std::size_t elements, double density) {
  if (!(density >= 0 && density <= 1))
    throw std::invalid_argument(fmt::format("density: expected a number from 0 to 1, got {}", density));
  if (elements == 0 || density == 0) return 0;
  const auto nearest = static_cast<std::size_t>(std::llround(density * static_cast<double>(elements)));
  return std::max<std::size_t>(nearest, 1);
}

}  // namespace compression
