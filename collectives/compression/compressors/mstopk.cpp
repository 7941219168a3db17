// The MSTopK compressor (CommLib), which fills up from a new position in each call.

#include "collectives/compression/sparse_wire.hpp"
#include "sim/draws.hpp"

namespace compression {
namespace {

Bytes encode(std::span<const float> x, State& state) {
  const std::size_t k = kept_elements(x.size(), state.density);
  return pack(mstopk(x, k, sim::hash(state.seed, state.calls++)));
}

WireSize wire_bytes(std::size_t elements, double density) {
  const std::size_t k = kept_elements(elements, density);
  return sparse_size(k, k);
}

}  // namespace

Compressor mstopk_compressor() {
  Compressor out = sparse_compressor();
  out.name = "mstopk";
  out.summary = "k elements, by 30 samplings of a threshold";
  out.encode = encode;
  out.wire_bytes = wire_bytes;
  return out;
}

}  // namespace compression
