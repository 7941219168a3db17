#include "sim/cluster/patterns/paired.hpp"

#include <bit>

namespace cluster {

Paired::Paired(std::uint32_t ranks, std::int64_t bytes)
    : BytePattern(ranks, bytes),
      levels_(static_cast<std::uint32_t>(std::bit_width(ranks)) - 1),
      beyond_(ranks - std::bit_floor(ranks)) {}

std::uint32_t Paired::rounds() const { return paired_rounds() + (beyond_ > 0 ? 2 : 0); }

Move Paired::move(std::uint32_t rank, std::uint32_t round) const {
  const std::uint32_t inner = ranks() - beyond_;
  const bool is_first = beyond_ > 0 && round == 0;
  const bool is_last = beyond_ > 0 && round == rounds() - 1;
  if (!is_first && !is_last)
    return rank < inner ? paired_move(rank, beyond_ > 0 ? round - 1 : round) : Move{};
  Move out = {.out = whole()};
  if (rank >= inner) (is_first ? out.to : out.from) = rank - inner;
  if (rank < beyond_) (is_first ? out.from : out.to) = rank + inner;
  out.sums = is_first && rank < beyond_;
  return out;
}

}  // namespace cluster
