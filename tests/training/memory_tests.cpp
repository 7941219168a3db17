// No rank holds more than three gradients, whatever the method.

#include <doctest/doctest.h>

#include "bench/held_memory.hpp"

namespace {

TEST_CASE("memory: within three gradients a rank with every method, at densities of up to 5 %") {
  const bench::Gradients gradients = bench::sampled_gradients(65'536, 16);
  for (const std::uint32_t ranks : {8U, 16U})
    for (const training::Method& method : training::methods())
      for (const double density : {0.001, 0.01, 0.05}) {
        CAPTURE(ranks);
        CAPTURE(method.name);
        CAPTURE(density);
        const double max = bench::max_held(method, density, ranks, gradients);
        CHECK(max >= 1);  // the gradient is counted
        CHECK(max <= 3);
      }
}

TEST_CASE("memory: gtopk keeps within three gradients where a tenth is selected") {
  const bench::Gradients gradients = bench::sampled_gradients(65'536, 16);
  CHECK(bench::max_held(*training::find_method("gtopk"), 0.1, 16, gradients) <= 3);
}

}  // namespace
