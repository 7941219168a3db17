// The top-k compressor, with exact selection.

#include "collectives/compression/sparse_wire.hpp"

namespace compression {
namespace {

Bytes encode(std::span<const float> x, State& state) {
  const std::size_t k = kept_elements(x.size(), state.density);
  return pack(top_k(x, k));
}

WireSize wire_bytes(std::size_t elements, double density) {
  const std::size_t k = kept_elements(elements, density);
  return sparse_size(k, k);
}

}  // namespace

Compressor top_k_compressor() {
  Compressor out = sparse_compressor();
  out.name = "top-k";
  out.summary = "the k elements of greatest magnitude";
  out.encode = encode;
  out.wire_bytes = wire_bytes;
  return out;
}

}  // namespace compression
