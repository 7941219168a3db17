// Compressors that keep some of the elements: each is a selection and the numbers of elements that it may
// keep. random-k sends NaN and infinities when they are drawn; until then they stay in the residual. A
// threshold that is reused may be reached by no element.

#include <algorithm>

#include "collectives/compression/sparse_wire.hpp"
#include "sim/draws.hpp"

namespace compression {
namespace {

using Floats = std::span<const float>;
using Select = SparseVector(Floats x, std::size_t k, State& state);
/// The minimum and maximum that are kept of `elements`.
using Kept = WireSize(std::size_t elements, std::size_t k);

template <Select* kSelect, Kept* kKept>
Compressor compressor(std::string_view name, std::string_view summary) {
  Compressor out = sparse_compressor();
  out.name = name;
  out.summary = summary;
  out.encode = [](Floats x, State& state) {
    return pack(kSelect(x, kept_elements(x.size(), state.density), state));
  };
  out.wire_bytes = [](std::size_t elements, double density) {
    return kKept(elements, kept_elements(elements, density));
  };
  return out;
}

/// Another one in each call.
std::uint64_t next_draw(State& state) { return sim::hash(state.seed, state.calls++); }

SparseVector by_top_k(Floats x, std::size_t k, State& /*state*/) { return top_k(x, k); }
SparseVector by_mstopk(Floats x, std::size_t k, State& state) { return mstopk(x, k, next_draw(state)); }
SparseVector by_dgc(Floats x, std::size_t k, State& state) { return dgc(x, k, next_draw(state)); }
SparseVector by_random_k(Floats x, std::size_t k, State& state) { return random_k(x, k, next_draw(state)); }
SparseVector by_gaussian_k(Floats x, std::size_t k, State& /*state*/) { return gaussian_k(x, k); }
SparseVector by_threshold(Floats x, std::size_t k, State& state) {
  return reuse_threshold(x, k, state.reused);
}

WireSize exactly_k(std::size_t /*elements*/, std::size_t k) { return sparse_size(k, k); }
WireSize of_dgc(std::size_t elements, std::size_t k) {
  return sparse_size(std::min<std::size_t>(k, 1), std::min(elements, 5 * k / 4));
}
WireSize of_gaussian_k(std::size_t elements, std::size_t k) {
  return sparse_size((3 * k + 3) / 4, std::min(elements, 5 * k / 4));
}
WireSize of_threshold(std::size_t elements, std::size_t k) {
  return sparse_size(k < elements ? 0 : k, std::min(elements, 2 * k));
}

}  // namespace

std::vector<Compressor> sparse_compressors() {
  return {
      compressor<by_top_k, exactly_k>("top-k", "the k elements of greatest magnitude"),
      compressor<by_mstopk, exactly_k>("mstopk", "k elements, by 30 samplings of a threshold"),
      compressor<by_dgc, of_dgc>("dgc", "up to 5k/4 elements, by a threshold from a sample"),
      compressor<by_random_k, exactly_k>("random-k", "k elements drawn at random"),
      compressor<by_gaussian_k, of_gaussian_k>(
          "gaussian-k", "3k/4 to 5k/4 elements, by the threshold of a normal distribution"),
      compressor<by_threshold, of_threshold>("threshold",
                                             "up to 2k elements, by a threshold computed now and then"),
  };
}

}  // namespace compression
