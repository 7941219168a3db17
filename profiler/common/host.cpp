#include "profiler/common/host.hpp"

#include <algorithm>
#include <fstream>
#include <thread>

#include <sched.h>
#include <sys/resource.h>

namespace profiler {
namespace {

std::optional<double> number_in(const char* file) {
  std::ifstream in(file);
  double value = 0;
  return in >> value ? std::optional(value) : std::nullopt;  // "max" is not a number: no limit
}

/// Returns the value of a line "key:   value" in a file.
std::optional<std::string> value_of(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
}

std::optional<double> left_of_control_group() {
  const auto max = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  return max && used ? std::optional(std::max(0.0, *max - *used)) : std::nullopt;
}

std::optional<double> left_of_address_space() {
  constexpr double kPage = 4096;
  rlimit limit{};
  const auto pages = number_in("/proc/self/statm");
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || !pages) return std::nullopt;
  return std::max(0.0, static_cast<double>(limit.rlim_cur) - *pages * kPage);
}

}  // namespace

std::string processor_name() {
  const auto name = value_of("/proc/cpuinfo", "model name");
  return name && !name->empty() ? *name : "unknown processor";
}

int processor_count() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::optional<double> free_memory_bytes() {
  std::optional<double> min;
  const auto consider = [&](const std::optional<double>& bytes) {
    if (bytes) min = std::min(min.value_or(*bytes), *bytes);
  };
  constexpr double kKibi = 1024;
  if (const auto text = value_of("/proc/meminfo", "MemAvailable"))
    consider(std::strtod(text->c_str(), nullptr) * kKibi);
  consider(left_of_control_group());
  consider(left_of_address_space());
  return min;
}

}  // namespace profiler
