// Rings inside nodes and between them, so that only a node's share of the bytes leaves it per rank (2DTAR).

#include "cluster/patterns.hpp"
#include "cluster/patterns/rings.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) {
  std::vector<RingPhase> phases = grid_phases(shape.ranks, shape.ranks_per_node);
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::move(phases));
}

}  // namespace

PatternEntry two_level() { return {.name = "two_level", .outcome = Outcome::all_reduce, .make = make}; }

}  // namespace cluster
