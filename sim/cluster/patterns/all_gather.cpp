// Ring all-gather, the second half of a ring all-reduce: rank r has part r and forwards each part that it
// receives.

#include "sim/cluster/patterns/entry.hpp"
#include "sim/cluster/patterns/rings.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) {
  const RingPhase once = {.size = shape.ranks, .gathering = shape.ranks - 1};
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::vector{once});
}

}  // namespace

PatternEntry all_gather() { return {.name = "all_gather", .outcome = Outcome::all_gather, .make = make}; }

}  // namespace cluster
