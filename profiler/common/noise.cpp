#include "profiler/common/noise.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

namespace profiler {
namespace {

constexpr double kMaxLoopSpread = 0.05;
constexpr double kMaxIterationSpread = 0.10;
constexpr double kMaxDrift = 0.05;
constexpr double kMaxBusyElsewhere = 0.05;
/// Processor times have a resolution of 10 ms: they are not reliable over less than this.
constexpr double kMinObservedS = 0.2;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// Relative difference between the medians of the second and the first half.
double drift(const std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  const double first = core::quantile({values.begin(), middle}, 0.5);
  const double second = core::quantile({middle, values.end()}, 0.5);
  return first > 0 ? std::abs(second / first - 1) : 0;
}

}  // namespace

double time_fixed_loop_us() {
  constexpr int kSteps = 200'000;
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t word = 1;
  for (int i = 0; i < kSteps; ++i) word = word * 6364136223846793005U + 1442695040888963407U;
  volatile std::uint64_t sink = word;  // prevents the compiler from removing the loop
  (void)sink;
  const auto took = std::chrono::steady_clock::now() - begun;
  return std::chrono::duration<double, std::micro>(took).count();
}

std::optional<ProcessorTimes> processor_times() {
  std::ifstream file("/proc/stat");
  std::string word;
  // user, nice, system, idle, waiting for disks, interrupts (two kinds), stolen by other guests
  constexpr std::size_t kColumns = 8;
  std::array<double, kColumns> ticks{};
  if (!(file >> word) || word != "cpu") return std::nullopt;
  for (double& each : ticks)
    if (!(file >> each)) return std::nullopt;
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  rusage own{};
  if (getrusage(RUSAGE_SELF, &own) != 0 || per_second <= 0) return std::nullopt;
  double all = 0;
  for (const double each : ticks) all += each;
  if (all <= 0) return std::nullopt;  // the file exists but the system counts nothing
  return ProcessorTimes{.busy_s = (all - ticks[3] - ticks[4]) / per_second,
                        .own_s = seconds(own.ru_utime) + seconds(own.ru_stime),
                        .interrupts_s = (ticks[5] + ticks[6]) / per_second,
                        .all_s = all / per_second};
}

NoiseVerdict noise_verdict(const std::vector<double>& loops, const std::vector<double>& iterations,
                           const std::optional<ProcessorTimes>& before,
                           const std::optional<ProcessorTimes>& after) {
  NoiseVerdict out = {.loop = core::statistics(loops), .busy_elsewhere = {}, .reasons = {}};
  const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
  const double loop_spread = out.loop.spread / out.loop.median;
  if (loop_spread > kMaxLoopSpread)
    out.reasons.push_back(fmt::format("a fixed loop spreads by {}", percent(loop_spread)));
  const core::Statistics iteration = core::statistics(iterations);
  if (iteration.spread > kMaxIterationSpread * iteration.median)
    out.reasons.push_back(
        fmt::format("whole iterations spread by {}", percent(iteration.spread / iteration.median)));
  if (iterations.size() >= 4 && drift(iterations) > kMaxDrift)
    out.reasons.push_back(
        fmt::format("the second half of the iterations differs by {}", percent(drift(iterations))));
  if (before && after && after->all_s - before->all_s >= kMinObservedS) {
    const double others = after->busy_s - before->busy_s - (after->own_s - before->own_s);
    out.busy_elsewhere = std::min(1.0, std::max(0.0, others / (after->all_s - before->all_s)));
    if (*out.busy_elsewhere > kMaxBusyElsewhere)
      out.reasons.push_back(
          fmt::format("other processes took {} of the processors", percent(*out.busy_elsewhere)));
  }
  return out;
}

}  // namespace profiler
