// Rabenseifner's all-reduce (2004): exchanges and sums halves, then quarters, ... with ranks at distance 1,
// 2, ..., then goes the same way back. The largest messages go to neighbours, which are often in the same
// node.

#include "sim/cluster/patterns/entry.hpp"
#include "sim/cluster/patterns/paired.hpp"

namespace cluster {
namespace {

class HalvingDoubling final : public Paired {
 public:
  using Paired::Paired;

 private:
  std::uint32_t paired_rounds() const override { return 2 * levels(); }

  Move paired_move(std::uint32_t rank, std::uint32_t round) const override {
    const bool halves = round < levels();
    const std::uint32_t level = halves ? round : 2 * levels() - 1 - round;
    const std::uint32_t other = rank ^ (1U << level);
    return {.to = other, .from = other, .out = kept(halves ? other : rank, level + 1), .sums = halves};
  }

  /// The bytes that a rank still sums up after `halvings` halvings; the bits of `rank` select the halves.
  Stretch kept(std::uint32_t rank, std::uint32_t halvings) const {
    Stretch out = whole();
    for (std::uint32_t level = 0; level < halvings; ++level) out = part_of(out, 2, (rank >> level) & 1U);
    return out;
  }
};

Collective make(const Shape& shape) { return std::make_unique<HalvingDoubling>(shape.ranks, shape.bytes); }

}  // namespace

PatternEntry halving_doubling() {
  return {.name = "halving_doubling", .outcome = Outcome::all_reduce, .make = make};
}

}  // namespace cluster
