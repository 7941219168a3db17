// Selection of Deep Gradient Compression, with a new sample in each call.

#include <algorithm>

#include "collectives/compression/sparse_wire.hpp"
#include "sim/draws.hpp"

namespace compression {
namespace {

Bytes encode(std::span<const float> x, State& state) {
  const std::size_t k = kept_elements(x.size(), state.density);
  return pack(dgc(x, k, sim::hash(state.seed, state.calls++)));
}

WireSize wire_bytes(std::size_t elements, double density) {
  const std::size_t k = kept_elements(elements, density);
  return sparse_size(std::min<std::size_t>(k, 1), std::min(elements, 5 * k / 4));
}

}  // namespace

Compressor dgc_compressor() {
  Compressor out = sparse_compressor();
  out.name = "dgc";
  out.summary = "up to 5k/4 elements, by a threshold from a sample";
  out.encode = encode;
  out.wire_bytes = wire_bytes;
  return out;
}

}  // namespace compression
