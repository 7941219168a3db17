// The random-k compressor. NaN and infinities are sent when they are selected and stay in the residual until
// then.

#include "collectives/compression/sparse_wire.hpp"
#include "sim/draws.hpp"

namespace compression {
namespace {

Bytes encode(std::span<const float> x, State& state) {
  const std::size_t k = kept_elements(x.size(), state.density);
  return pack(random_k(x, k, sim::hash(state.seed, state.calls++)));
}

WireSize wire_bytes(std::size_t elements, double density) {
  const std::size_t k = kept_elements(elements, density);
  return sparse_size(k, k);
}

}  // namespace

Compressor random_k_compressor() {
  Compressor out = sparse_compressor();
  out.name = "random-k";
  out.summary = "k elements drawn at random";
  out.encode = encode;
  out.wire_bytes = wire_bytes;
  return out;
}

}  // namespace compression
