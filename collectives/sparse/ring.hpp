// Dense collectives on a ring: the all-reduce that sparse ones are compared with, and its halves.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace sparse {

/// Where part `part` of `elements` begins when they are cut into `parts` parts that differ by at most one.
constexpr std::size_t part_begin(std::size_t elements, std::size_t part, std::size_t parts) {
  return elements / parts * part + elements % parts * part / parts;
}

/// a + b; all NaNs that come out are one, so that the bytes do not depend on which operand a machine takes
/// for the result's.
inline float sum_of(float a, float b) {
  const float sum = a + b;
  return sum == sum ? sum : std::numeric_limits<float>::quiet_NaN();
}
inline std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a + b; }

/// Afterwards part `rank` of `values` holds the sum over all ranks and the rest is what was met on the way.
/// Part p is summed in the order of ranks p+1, p+2, ..., p. All ranks give as many values. P-1 messages; each
/// rank receives all parts but the one before its own.
void ring_reduce_scatter(transport::Transport& transport, std::span<float> values);

/// Each rank gives its own part of `values`; afterwards all have all. P-1 messages; each rank receives all
/// parts but its own.
void ring_all_gather(transport::Transport& transport, std::span<float> values);

/// Afterwards `values` holds the sum over all ranks, the same bytes on all of them. At most
/// 2 ceil(n (P-1) / P) words received.
void ring_all_reduce(transport::Transport& transport, std::span<float> values);

/// The same for integers, modulo 2^64; a number is two words.
void ring_all_reduce(transport::Transport& transport, std::span<std::uint64_t> values);

}  // namespace sparse
