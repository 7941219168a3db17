#include "profiler/traces/kineto/communication.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"

namespace kineto {
namespace {

using core::CollectiveKind;

constexpr double kNsPerUs = 1000;

/// Returns nothing for what networks do not describe: broadcasts, all-to-alls, point to point.
std::optional<CollectiveKind> kind_of(const Trace& trace, const Kernel& kernel) {
  return collective_kind(
      trace.texts[kernel.collective < 0
                      ? kernel.name
                      : trace.collectives[static_cast<std::size_t>(kernel.collective)].name]);
}

/// A kernel that reduces has the element's type in its name: "ncclKernel_AllReduce_RING_LL_Sum_half".
std::int64_t bytes_by_kernel(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 8> kAll = {{{"_float", 4},
                                                                              {"_half", 2},
                                                                              {"bfloat16", 2},
                                                                              {"_double", 8},
                                                                              {"_f32", 4},
                                                                              {"_f16", 2},
                                                                              {"_bf16", 2},
                                                                              {"_f64", 8}}};
  for (const auto& [part, bytes] : kAll)
    if (name.find(part) != std::string_view::npos) return bytes;
  return 0;
}

/// Returns the size of a collective as networks define it: the total for scattered and gathered data.
double size_of(const Trace& trace, const Kernel& kernel, const Collective& collective, CollectiveKind kind) {
  std::int64_t each_bytes = element_bytes(trace.texts[collective.dtype]);
  if (each_bytes == 0 && kind != CollectiveKind::all_gather)
    each_bytes = bytes_by_kernel(trace.texts[kernel.name]);
  const auto each = static_cast<double>(each_bytes);
  const std::int64_t elements =
      kind == CollectiveKind::all_gather ? collective.out_elements : collective.in_elements;
  return each * static_cast<double>(elements);
}

/// Keeps the shortest time of each size: a kernel also waits for the other ranks, and the shortest waited
/// least.
class Sizes {
 public:
  bool add(const Trace& trace, const Kernel& kernel, CollectiveKind kind) {
    if (kernel.collective < 0) return false;
    const Collective& collective = trace.collectives[static_cast<std::size_t>(kernel.collective)];
    if (collective.group_size < 2 || collective.group_size > core::kMaxWorkers) return false;
    const double bytes = size_of(trace, kernel, collective, kind);
    const double us = static_cast<double>(kernel.end_ns - kernel.start_ns) / kNsPerUs;
    if (bytes <= 0 || bytes > static_cast<double>(core::kMaxBytes) || us <= 0) return false;
    const auto [found, is_new] = min_us_[{kind, collective.group_size}].try_emplace(bytes, us);
    if (!is_new) found->second = std::min(found->second, us);
    return true;
  }

  std::vector<traces::Series> series(const Trace& trace) const {
    std::vector<traces::Series> out;
    for (const auto& [key, points] : min_us_)
      out.push_back({.path = trace.path,
                     .collective = key.first,
                     .workers = key.second,
                     .points = {points.begin(), points.end()}});
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
  std::vector<Spans> others(calls.steps.size());
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const Kernel& kernel = trace.kernels[i];
    const Work& work = calls.work[i];
    const bool communicates = work.role == Role::communication;
    if (communicates) {
      ++out.kernels;
      const std::optional<CollectiveKind> kind = kind_of(trace, kernel);
      if (!kind)
        ++out.other_kinds;
      else if (!sizes.add(trace, kernel, *kind))
        ++out.without_size;
    }
    if (work.step < 0 || work.role == Role::copy) continue;
    (communicates ? nccl : others)[static_cast<std::size_t>(work.step)].emplace_back(kernel.start_ns,
                                                                                     kernel.end_ns);
  }
  // Kernels of the previous step may hide communication of this one, so all others count.
  Spans all_others;
  for (const Spans& spans : others) all_others.insert(all_others.end(), spans.begin(), spans.end());
  all_others = united(std::move(all_others));
  for (const Spans& of_step : nccl) {
    const Spans busy = united(of_step);
    out.busy_us.push_back(static_cast<double>(length_ns(busy)) / kNsPerUs);
    out.exposed_us.push_back(static_cast<double>(length_ns(busy) - length_ns(common(busy, all_others))) /
                             kNsPerUs);
  }
  out.series = sizes.series(trace);
  return out;
}

}  // namespace kineto
