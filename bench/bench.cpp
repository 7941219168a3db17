// Benchmarks of the simulator and the planner, one line each: time (best of several), peak memory, and the
// ratio to a fixed reference task timed in the same run, because machines are shared and noisy.

#include <fmt/core.h>

#include "bench/benches.hpp"
#include "bench/measure.hpp"

int main() {
  fmt::print("{:<80} {:>10.3f} ms\n", "reference: 1,000,000 steps of a priority queue of 2,048",
             bench::reference_ms());
  bench::simulation();
  bench::plans();
  bench::cupcake();
  bench::steps();
  bench::messages();
  bench::selections();
}
