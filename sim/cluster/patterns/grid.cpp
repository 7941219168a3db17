// Rings along rows of neighbouring ranks and between rows, so that a rank sends only its row's share of the
// bytes to other rows. Rows are nodes in two_level (2DTAR) and the rows of a torus in torus, where links
// along rows and columns may be equal.

#include "sim/cluster/patterns/entry.hpp"
#include "sim/cluster/patterns/rings.hpp"

namespace cluster {
namespace {

Collective make(const Shape& shape) {
  std::vector<RingPhase> phases = grid_phases(shape.ranks, shape.ranks_per_node);
  return std::make_unique<Rings>(shape.ranks, shape.bytes, std::move(phases));
}

}  // namespace

PatternEntry torus() { return {.name = "torus", .outcome = Outcome::all_reduce, .make = make}; }

PatternEntry two_level() { return {.name = "two_level", .outcome = Outcome::all_reduce, .make = make}; }

}  // namespace cluster
