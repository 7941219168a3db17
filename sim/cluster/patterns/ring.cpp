// The ring all-reduce (Patarasuk and Yuan 2009): every part goes once around the ring to be summed, then once
// more to be spread.

#include "sim/cluster/patterns/entry.hpp"
#include "sim/cluster/patterns/rings.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) {
  const RingPhase once = {.size = shape.ranks, .reducing = shape.ranks - 1, .gathering = shape.ranks - 1};
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::vector{once});
}

}  // namespace

PatternEntry ring() { return {.name = "ring", .outcome = Outcome::all_reduce, .make = make}; }

}  // namespace cluster
