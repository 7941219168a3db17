// Local selection of Ok-Topk. It may happen that no element reaches a reused threshold.

#include <algorithm>

#include "collectives/compression/sparse_wire.hpp"

namespace compression {
namespace {

Bytes encode(std::span<const float> x, State& state) {
  const std::size_t k = kept_elements(x.size(), state.density);
  return pack(reuse_threshold(x, k, state.reused));
}

WireSize wire_bytes(std::size_t elements, double density) {
  const std::size_t k = kept_elements(elements, density);
  return sparse_size(k < elements ? 0 : k, std::min(elements, 2 * k));
}

}  // namespace

Compressor threshold_compressor() {
  Compressor out = sparse_compressor();
  out.name = "threshold";
  out.summary = "up to 2k elements, by a threshold computed now and then";
  out.encode = encode;
  out.wire_bytes = wire_bytes;
  return out;
}

}  // namespace compression
