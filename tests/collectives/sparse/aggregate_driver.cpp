// Sums gradients for bench/convergence.py: `aggregate_driver METHOD DENSITY FEEDBACK SEED RANKS ELEMENTS
// RECOMPUTE_EVERY`. Each iteration reads the gradients of all ranks, as RANKS x ELEMENTS floats, and writes
// RANKS words received, RANKS numbers of elements selected locally and the number selected globally, as
// 64-bit integers, and the sum, as ELEMENTS floats. Fails where ranks do not end with the same sum.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/sparse/wire.hpp"
#include "collectives/transport/counted.hpp"
#include "collectives/transport/in_process.hpp"
#include "tests/collectives/sparse/aggregate.hpp"

namespace {

template <typename Value>
void write(const std::vector<Value>& values) {
  std::fwrite(values.data(), sizeof(Value), values.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const aggregate::Method* method = arguments.size() == 7 ? aggregate::find_method(arguments[0]) : nullptr;
  if (method == nullptr) return 2;
  aggregate::Options options = {.density = std::stod(arguments[1]), .error_feedback = arguments[2] == "1"};
  options.seed = std::stoul(arguments[3]);
  options.recompute_every = std::stoul(arguments[6]);
  const auto ranks = static_cast<std::uint32_t>(std::stoul(arguments[4]));
  std::vector<aggregate::State> states(ranks, aggregate::initial_state(options));
  std::vector<std::vector<float>> gradients(ranks, std::vector<float>(std::stoul(arguments[5])));
  for (;;) {
    for (std::vector<float>& each : gradients)
      if (std::fread(each.data(), sizeof(float), each.size(), stdin) != each.size()) return 0;
    std::vector<std::int64_t> counts(2 * ranks + 1);
    transport::run_ranks(ranks, [&](transport::Transport& end) {
      transport::Counted counted(end);
      const std::uint32_t rank = end.rank();
      const aggregate::Selected selected =
          method->aggregate(*method, counted, options, states[rank], gradients[rank]);
      counts[rank] = counted.total().bytes_received / sparse::kBytesPerWord;
      counts[ranks + rank] = static_cast<std::int64_t>(selected.local);
      if (rank == 0) counts[2 * ranks] = static_cast<std::int64_t>(selected.global);
    });
    for (const std::vector<float>& each : gradients)
      if (each != gradients[0]) return 1;
    write(counts);
    write(gradients[0]);
    std::fflush(stdout);
  }
}
