#include "profiler/traces/kineto/communication.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>

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
  bool add(const Trace& trace, const Kernel& kernel, const Work& work, CollectiveKind kind) {
    const std::int64_t workers = group_size(trace, kernel);
    if (workers < 2 || workers > core::kMaxWorkers) return false;
    const auto bytes = static_cast<double>(bytes_of(trace, kernel));
    const double us = static_cast<double>(kernel.end_ns - kernel.start_ns) / kNsPerUs;
    if (bytes <= 0 || bytes > static_cast<double>(core::kMaxBytes) || us <= 0) return false;
    Curve& curve = curves_[{kind, work.group, workers}];
    const auto [found, is_new] = curve.min_us.try_emplace(bytes, us);
    if (!is_new) found->second = std::min(found->second, us);
    if (!work.is_exchange) curve.bytes += bytes;
    return true;
  }

  /// The curves of one group. Collectives of gradients and parameters that it lacks are those of another.
  void write(const Trace& trace, const Calls& calls, Communication& out) const {
    const std::map<CollectiveKind, std::uint32_t> group_of = chosen(calls.gradient_group);
    std::set<std::uint32_t> used;
    for (const auto& [key, curve] : curves_) {
      const auto [kind, group, workers] = key;
      const auto found = group_of.find(kind);
      if (found == group_of.end() || found->second != group) continue;
      used.insert(group);
      out.series.push_back({.path = trace.path,
                            .collective = kind,
                            .workers = workers,
                            .points = {curve.min_us.begin(), curve.min_us.end()},
                            .is_continued = true});
    }
    for (const std::uint32_t group : used) out.groups.push_back(title(calls.groups, group));
    for (const auto& [key, curve] : curves_)
      if (const auto group = std::get<std::uint32_t>(key); used.insert(group).second)
        out.other_groups.push_back(title(calls.groups, group));
  }

 private:
  struct Curve {
    std::map<double, double> min_us;
    double bytes = 0;  ///< of gradients and parameters
  };

  std::map<CollectiveKind, std::uint32_t> chosen(std::optional<std::uint32_t> group) const {
    std::map<CollectiveKind, std::uint32_t> out;
    std::map<CollectiveKind, double> bytes;
    for (const auto& [key, curve] : curves_) {
      const auto [kind, of, workers] = key;
      const double weight = group == of ? std::numeric_limits<double>::infinity() : curve.bytes;
      if (weight <= bytes[kind]) continue;
      bytes[kind] = weight;
      out[kind] = of;
    }
    return out;
  }

  std::map<std::tuple<CollectiveKind, std::uint32_t, std::int64_t>, Curve> curves_;
};

/// From the first to the last launch of a kernel of layers, of each step.
Spans passes_of(const Calls& calls) {
  Spans out(calls.steps.size(), {INT64_MAX, INT64_MIN});
  for (const Work& work : calls.work) {
    if (work.step < 0 || (work.role != Role::forward && work.role != Role::backward)) continue;
    auto& [first, last] = out[static_cast<std::size_t>(work.step)];
    first = std::min(first, work.launched_ns);
    last = std::max(last, work.launched_ns);
  }
  return out;
}

/// FSDP gathers most parameters while passes run; what others gather there, a loss for example, is small.
bool gathers_after_update(const Trace& trace, const Calls& calls) {
  constexpr double kHardlyAny = 0.1;
  const Spans passes = passes_of(calls);
  double all = 0;
  double in_passes = 0;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const Work& work = calls.work[i];
    if (work.role != Role::communication || work.step < 0 ||
        kind_of(trace, trace.kernels[i]) != CollectiveKind::all_gather)
      continue;
    const auto& [first, last] = passes[static_cast<std::size_t>(work.step)];
    const bool is_in_passes = work.launched_ns > first && work.launched_ns < last;
    if (is_in_passes && work.is_exchange) continue;  // of a layer
    const auto bytes = static_cast<double>(bytes_of(trace, trace.kernels[i]));
    all += bytes;
    if (is_in_passes) in_passes += bytes;
  }
  return all > 0 && in_passes < kHardlyAny * all;
}

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
    if (!kind) {
      ++out.other_kinds;
    } else if (!sizes.add(trace, kernel, work, *kind)) {
      ++out.without_size;
      if (group_size(trace, kernel) == 0 && bytes_of(trace, kernel) > 0) ++out.without_group;
    }
    if (work.step >= 0)
      nccl[static_cast<std::size_t>(work.step)].emplace_back(kernel.start_ns, kernel.end_ns);
  }
  for (const Spans& of_step : nccl)
    out.busy_us.push_back(static_cast<double>(length_ns(united(of_step))) / kNsPerUs);
  sizes.write(trace, calls, out);
  out.gathers_after_update = gathers_after_update(trace, calls);
  return out;
}

}  // namespace kineto
