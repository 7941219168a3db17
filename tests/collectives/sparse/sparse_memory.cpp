// What summing compressed gradients takes in memory: `sparse_memory [ELEMENTS [DENSITY]...]` sums gradients
// with every method, with error feedback, on 4, 16 and 64 ranks that are threads. It prints the maximum that
// a rank holds, in gradients.

#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/collectives/sparse/held_memory.hpp"

int main(int argc, char** argv) {
  const std::size_t elements = argc > 1 ? std::stoul(argv[1]) : 65'536;
  std::vector<double> densities;
  for (int i = 2; i < argc; ++i) densities.push_back(std::stod(argv[i]));
  if (densities.empty()) densities = {0.001, 0.01, 0.05};
  constexpr std::uint32_t kRanks[] = {4, 16, 64};
  const held_memory::Gradients gradients = held_memory::sampled_gradients(elements, kRanks[2]);

  fmt::print("| {} elements, 4 / 16 / 64 ranks |", elements);
  for (const double density : densities) fmt::print(" density {} |", density);
  fmt::print("\n| --- |");
  for (std::size_t i = 0; i < densities.size(); ++i) fmt::print(" --- |");
  fmt::print("\n");
  for (const aggregate::Method& method : aggregate::methods()) {
    fmt::print("| {} |", method.name);
    for (const double density : densities) {
      for (const std::uint32_t ranks : kRanks)
        fmt::print("{} {:.2f}", ranks == kRanks[0] ? "" : " /",
                   held_memory::max_held(method, density, ranks, gradients));
      fmt::print(" |");
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}
