// No rank holds more than three gradients, whatever the method.

#include <doctest/doctest.h>

#include "tests/collectives/sparse/held_memory.hpp"

namespace {

TEST_CASE("memory: within three gradients a rank with every method, at densities of up to 5 %") {
  const held_memory::Gradients gradients = held_memory::sampled_gradients(65'536, 16);
  for (const std::uint32_t ranks : {8U, 16U})
    for (const aggregate::Method& method : aggregate::methods())
      for (const double density : {0.001, 0.01, 0.05}) {
        CAPTURE(ranks);
        CAPTURE(method.name);
        CAPTURE(density);
        const double max = held_memory::max_held(method, density, ranks, gradients);
        CHECK(max >= 1);                                      // the gradient is counted
        CHECK(max <= (method.name == "ok-topk" ? 3.05 : 3));  // a message more may wait for a late rank
      }
}

TEST_CASE("memory: gtopk keeps within three gradients where a tenth is selected") {
  const held_memory::Gradients gradients = held_memory::sampled_gradients(65'536, 16);
  CHECK(held_memory::max_held(*aggregate::find_method("gtopk"), 0.1, 16, gradients) <= 3);
}

}  // namespace
