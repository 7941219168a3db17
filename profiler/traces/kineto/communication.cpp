#include "profiler/traces/kineto/communication.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_size.hpp"

namespace kineto {
namespace {

using core::CollectiveKind;

constexpr double kNsPerUs = 1000;

/// Keeps the shortest time of each size: a kernel also waits for the other ranks, and the shortest waited
/// least.
class Sizes {
 public:
  bool add(const Trace& trace, const Kernel& kernel, CollectiveKind kind) {
    const std::int64_t workers = group_size(trace, kernel);
    if (workers < 2 || workers > core::kMaxWorkers) return false;
    const auto bytes = static_cast<double>(bytes_of(trace, kernel));
    const double us = static_cast<double>(kernel.end_ns - kernel.start_ns) / kNsPerUs;
    if (bytes <= 0 || bytes > static_cast<double>(core::kMaxBytes) || us <= 0) return false;
    const auto [found, is_new] = min_us_[{kind, workers}].try_emplace(bytes, us);
    if (!is_new) found->second = std::min(found->second, us);
    return true;
  }

  std::vector<traces::Series> series(const Trace& trace) const {
    std::vector<traces::Series> out;
    for (const auto& [key, points] : min_us_)
      out.push_back({.path = trace.path,
                     .collective = key.first,
                     .workers = key.second,
                     .points = {points.begin(), points.end()},
                     .is_continued = true});
    return out;
  }

 private:
  std::map<std::pair<CollectiveKind, std::int64_t>, std::map<double, double>> min_us_;
};

}  // namespace

Communication find_communication(const Trace& trace, const Calls& calls) {
  Communication out;
  Sizes sizes;
  std::vector<Spans> nccl(calls.steps.size());
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const Kernel& kernel = trace.kernels[i];
    const Work& work = calls.work[i];
    if (work.role != Role::communication) continue;
    ++out.kernels;
    const std::optional<CollectiveKind> kind = kind_of(trace, kernel);
    if (!kind)
      ++out.other_kinds;
    else if (!sizes.add(trace, kernel, *kind))
      ++out.without_size;
    if (work.step >= 0)
      nccl[static_cast<std::size_t>(work.step)].emplace_back(kernel.start_ns, kernel.end_ns);
  }
  for (const Spans& of_step : nccl)
    out.busy_us.push_back(static_cast<double>(length_ns(united(of_step))) / kNsPerUs);
  out.series = sizes.series(trace);
  return out;
}

}  // namespace kineto
