// Points of a sweep: 1,000 of each schedule, computed and formatted on one thread.

#include <string>

#include <fmt/format.h>

#include "bench/benches.hpp"
#include "bench/inputs.hpp"
#include "bench/measure.hpp"
#include "planner/sweep/point.hpp"

namespace bench {
namespace {

/// ResNet-50 has 161 tensors.
sweep::Sweep sweep_of(const std::string& schedule) {
  const std::string text = fmt::format(R"({{"format": "fusewise.scenario", "version": 1, "workers": [8],
      "profile": "{0}/resnet50-v100.profile.json", "network": "{0}/v100-10gbe.network.json",
      "schedules": [{1}], "sweep": {{"bandwidth_factor": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
      "startup_factor": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1],
      "workers": [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]}}}})",
                                       traces_folder(), schedule);
  return sweep::read_sweep(core::Field::parse(text, "bench"));
}

void bench_sweep(const std::string& schedule, const Bound& bound = {}) {
  const sweep::Sweep sweep = sweep_of(schedule);
  const Measurement result = measure(3, [&] {
    sweep::Computer computer(sweep, sweep::Rows::csv);
    for (std::size_t point = 0; point < sweep.points; ++point)
      if (computer.compute(point).row.empty()) fmt::print("never\n");
  });
  report(fmt::format("sweep, {} points, {}, 161 tensors", sweep.points, schedule), result, bound);
}

}  // namespace

void sweeps() {
  const Bound bound = {.ms = 20};  // 50,000 points a second
  bench_sweep(R"("ddp")", bound);
  bench_sweep(R"("wfbp")", bound);
  bench_sweep(R"("fusewise")", bound);
  bench_sweep(R"("fusewise-dear")");
}

}  // namespace bench
