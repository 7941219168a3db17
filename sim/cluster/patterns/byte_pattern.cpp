#include "sim/cluster/patterns/byte_pattern.hpp"

#include <algorithm>
#include <bit>

namespace cluster {

Stretch part_of(const Stretch& whole, std::uint32_t parts, std::uint32_t index) {
  const std::int64_t size = whole.size() / parts;
  const std::int64_t larger = whole.size() % parts;
  const std::int64_t begin = whole.begin + index * size + std::min<std::int64_t>(index, larger);
  return {.begin = begin, .end = begin + size + (index < larger ? 1 : 0)};
}

std::uint32_t doublings(std::uint32_t ranks) {
  return ranks <= 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(ranks - 1));
}

Exchange BytePattern::exchange(std::uint32_t rank, std::uint32_t round) const {
  const Move own = move(rank, round);
  Exchange out = {.to = own.to, .from = own.from, .sums = own.sums};
  const auto sent = [](const Move& move) { return move.out.size() + move.padding; };
  if (own.to != Exchange::kNobody) out.bytes_out = sent(own);
  if (own.from != Exchange::kNobody) out.bytes_in = sent(move(own.from, round));
  return out;
}

}  // namespace cluster
