// Dense ring collectives: the all-reduce, to which sparse ones are compared, and its halves.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "collectives/transport/transport.hpp"

namespace sparse {

/// Returns the begin of part `part` when `elements` are cut into `parts` parts whose sizes differ by at most
/// one.
constexpr std::size_t part_begin(std::size_t elements, std::size_t part, std::size_t parts) {
  return elements / parts * part + elements % parts * part / parts;
}

/// Returns a + b with every NaN replaced by the same one, because machines differ in the operand whose NaN
/// becomes the result.
inline float sum_of(float a, float b) {
  const float sum = a + b;
  return sum == sum ? sum : std::numeric_limits<float>::quiet_NaN();
}
inline std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) { return a + b; }

/// Afterwards part `rank` of `values` holds the sum over all ranks; the rest holds intermediate sums. Part p
/// is summed in the order of ranks p+1, p+2, ..., p. All ranks pass the same number of values. P-1 messages;
/// each rank receives all parts except the one before its own.
void ring_reduce_scatter(transport::Transport& transport, std::span<float> values);

/// Each rank provides its own part of `values`; afterwards all ranks have all parts. P-1 messages; each rank
/// receives all parts but its own.
void ring_all_gather(transport::Transport& transport, std::span<float> values);

/// Afterwards `values` holds the sum over all ranks, with the same bytes on all of them. At most 2 ceil(n
/// (P-1) / P) words received.
void ring_all_reduce(transport::Transport& transport, std::span<float> values);

/// Sums integers modulo 2^64; a number counts as two words.
void ring_all_reduce(transport::Transport& transport, std::span<std::uint64_t> values);

}  // namespace sparse
