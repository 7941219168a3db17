// All-reduce in which each rank exchanges the whole message with the ranks at distance 1, 2, 4, ...

#include "sim/cluster/patterns/entry.hpp"
#include "sim/cluster/patterns/paired.hpp"

namespace cluster {
namespace {

class RecursiveDoubling final : public Paired {
 public:
  using Paired::Paired;

 private:
  std::uint32_t paired_rounds() const override { return levels(); }

  Move paired_move(std::uint32_t rank, std::uint32_t round) const override {
    const std::uint32_t other = rank ^ (1U << round);
    return {.to = other, .from = other, .out = whole(), .sums = true};
  }
};

Collective make(const Shape& shape) { return std::make_unique<RecursiveDoubling>(shape.ranks, shape.bytes); }

}  // namespace

PatternEntry recursive_doubling() {
  return {.name = "recursive_doubling", .outcome = Outcome::all_reduce, .make = make};
}

}  // namespace cluster
