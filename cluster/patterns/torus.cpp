// Rings along the rows and columns of a torus. The rounds are those of two_level, with a row for a node; what
// they take differs, as links along rows and columns may be alike.

#include "cluster/patterns.hpp"
#include "cluster/patterns/rings.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) {
  std::vector<RingPhase> phases = grid_phases(shape.ranks, shape.ranks_per_node);
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::move(phases));
}

}  // namespace

PatternEntry torus() { return {.name = "torus", .outcome = Outcome::all_reduce, .make = make}; }

}  // namespace cluster
