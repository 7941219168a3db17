// The Gaussian-k compressor.

#include <algorithm>

#include "collectives/compression/sparse_wire.hpp"

namespace compression {
namespace {

Bytes encode(std::span<const float> x, State& state) {
  const std::size_t k = kept_elements(x.size(), state.density);
  return pack(gaussian_k(x, k));
}

WireSize wire_bytes(std::size_t elements, double density) {
  const std::size_t k = kept_elements(elements, density);
  return sparse_size((3 * k + 3) / 4, std::min(elements, 5 * k / 4));
}

}  // namespace

Compressor gaussian_k_compressor() {
  Compressor out = sparse_compressor();
  out.name = "gaussian-k";
  out.summary = "3k/4 to 5k/4 elements, by the threshold of a normal distribution";
  out.encode = encode;
  out.wire_bytes = wire_bytes;
  return out;
}

}  // namespace compression
