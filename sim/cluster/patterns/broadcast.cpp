// Broadcast along a binomial tree: in each round every rank that has the bytes sends them to a rank that has
// not, the farthest first.

#include "sim/cluster/patterns/binomial.hpp"
#include "sim/cluster/patterns/entry.hpp"

namespace cluster {
namespace {

class Broadcast final : public BytePattern {
 public:
  using BytePattern::BytePattern;

  std::uint32_t rounds() const override { return doublings(ranks()); }

  Move move(std::uint32_t rank, std::uint32_t round) const override {
    return binomial_broadcast(whole(), ranks(), rank, round);
  }
};

Collective make(const Shape& shape) { return std::make_unique<Broadcast>(shape.ranks, shape.bytes); }

}  // namespace

PatternEntry broadcast() { return {.name = "broadcast", .outcome = Outcome::broadcast, .make = make}; }

}  // namespace cluster
