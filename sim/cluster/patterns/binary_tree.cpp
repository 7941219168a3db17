// All-reduce along a binomial tree, to rank 0 and back, with the whole message in each round.

#include "sim/cluster/patterns/binomial.hpp"
#include "sim/cluster/patterns/entry.hpp"

namespace cluster {
namespace {

class BinaryTree final : public BytePattern {
 public:
  using BytePattern::BytePattern;

  std::uint32_t rounds() const override { return 2 * doublings(ranks()); }

  Move move(std::uint32_t rank, std::uint32_t round) const override {
    const std::uint32_t half = doublings(ranks());
    return round < half ? binomial_reduce(whole(), ranks(), rank, round)
                        : binomial_broadcast(whole(), ranks(), rank, round - half);
  }
};

Collective make(const Shape& shape) { return std::make_unique<BinaryTree>(shape.ranks, shape.bytes); }

}  // namespace

PatternEntry binary_tree() { return {.name = "binary_tree", .outcome = Outcome::all_reduce, .make = make}; }

}  // namespace cluster
