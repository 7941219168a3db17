#include "validate/suite/noise.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "profiler/common/noise.hpp"

namespace suite {
namespace {

/// Part of the kernel's work for the workers' own packets is charged to kernel threads.
constexpr double kMaxBusyElsewhere = 0.15;

}  // namespace

std::vector<double> lengths_us(const live::Record& record) {
  std::vector<double> out;
  for (const live::WorkerRecord& worker : record.workers) {
    out.resize(std::max(out.size(), worker.iterations.size()));
    for (std::size_t i = 0; i < worker.iterations.size(); ++i)
      out[i] = std::max(out[i], worker.iterations[i].length_us);
  }
  return out;
}

std::vector<std::string> noise_of(const live::Record& record) {
  std::vector<double> loops;
  for (const live::WorkerRecord& worker : record.workers)
    loops.insert(loops.end(), worker.loop_us.begin(), worker.loop_us.end());
  if (loops.empty()) return {"no fixed loop was timed beside it"};
  std::vector<std::string> out = profiler::noise_verdict(loops, lengths_us(record), {}, {}).reasons;
  if (record.busy_elsewhere.value_or(0) > kMaxBusyElsewhere)
    out.push_back(
        fmt::format("other processes took {:.0f} % of the processors", 100 * *record.busy_elsewhere));
  return out;
}

}  // namespace suite
