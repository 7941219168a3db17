#include "sim/cluster/patterns/binomial.hpp"

namespace cluster {

Move binomial_broadcast(const Stretch& whole, std::uint32_t ranks, std::uint32_t rank, std::uint32_t round) {
  const std::uint32_t distance = std::uint32_t{1} << (doublings(ranks) - 1 - round);
  Move out = {.out = whole};
  if (rank % (2 * distance) == distance) out.from = rank - distance;
  if (rank % (2 * distance) == 0 && rank + distance < ranks) out.to = rank + distance;
  return out;
}

Move binomial_reduce(const Stretch& whole, std::uint32_t ranks, std::uint32_t rank, std::uint32_t round) {
  const Move back = binomial_broadcast(whole, ranks, rank, doublings(ranks) - 1 - round);
  return {.to = back.from, .from = back.to, .out = whole, .sums = back.to != Exchange::kNobody};
}

}  // namespace cluster
