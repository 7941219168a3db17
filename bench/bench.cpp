// Benchmarks of the simulator and the planner, one line each: time (best of several), peak memory, and the
// ratio to a fixed reference task timed in the same run, because machines are shared and noisy. Arguments
// name the parts to run; without any, all run.

#include <string_view>

#include <fmt/core.h>

#include "bench/benches.hpp"
#include "bench/measure.hpp"

namespace {

struct Part {
  std::string_view name;
  void (*run)();
};

constexpr Part kParts[] = {{"simulation", bench::simulation}, {"plans", bench::plans},
                           {"cupcake", bench::cupcake},       {"sweeps", bench::sweeps},
                           {"steps", bench::steps},           {"messages", bench::messages},
                           {"selections", bench::selections}};

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    bool is_known = false;
    for (const Part& part : kParts) is_known = is_known || part.name == argv[i];
    if (is_known) continue;
    fmt::print(stderr, "{}: expected one of", argv[i]);
    for (const Part& part : kParts) fmt::print(stderr, " {}", part.name);
    fmt::print(stderr, "\n");
    return 2;
  }
  fmt::print("{:<80} {:>10.3f} ms\n", "reference: 1,000,000 steps of a priority queue of 2,048",
             bench::reference_ms());
  for (const Part& part : kParts) {
    bool is_wanted = argc == 1;
    for (int i = 1; i < argc; ++i) is_wanted = is_wanted || part.name == argv[i];
    if (is_wanted) part.run();
  }
  return 0;
}
