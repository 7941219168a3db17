// Ring reduce-scatter, the first half of a ring all-reduce, started one part earlier: rank r ends with the
// sum of part r.

#include "sim/cluster/patterns/entry.hpp"
#include "sim/cluster/patterns/rings.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) {
  const std::uint32_t others = shape.ranks - 1;
  const RingPhase once = {.size = shape.ranks, .reducing = others, .first_part = others};
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::vector{once});
}

}  // namespace

PatternEntry reduce_scatter() {
  return {.name = "reduce_scatter", .outcome = Outcome::reduce_scatter, .make = make};
}

}  // namespace cluster
