#include "profiler/traces/kineto/communication.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_size.hpp"

namespace kineto {
namespace {

using core::CollectiveKind;
using core::Gathers;

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

/// When the first kernel of each step's forward passes runs; never where there is none.
std::vector<std::int64_t> forward_starts(const Trace& trace, const Calls& calls) {
  std::vector<std::int64_t> out(calls.steps.size(), INT64_MAX);
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const Work& work = calls.work[i];
    if (work.step < 0 || work.role != Role::forward) continue;
    std::int64_t& start_ns = out[static_cast<std::size_t>(work.step)];
    start_ns = std::min(start_ns, trace.kernels[i].start_ns);
  }
  return out;
}

/// Launches of kernels of layers, in order, and whether they are of backward.
std::vector<std::pair<std::int64_t, bool>> launches_of_layers(const Calls& calls) {
  std::vector<std::pair<std::int64_t, bool>> out;
  for (const Work& work : calls.work)
    if (work.step >= 0 && (work.role == Role::forward || work.role == Role::backward))
      out.emplace_back(work.launched_ns, work.role == Role::backward);
  std::sort(out.begin(), out.end());
  return out;
}

/// FSDP says in annotations what it does for which module.
bool wraps_modules(const Trace& trace) {
  return std::any_of(trace.ranges.begin(), trace.ranges.end(), [&](const Range& range) {
    const std::string_view name = trace.texts[range.name];
    return name.starts_with("FSDP::") || name.starts_with("FullyShardedDataParallel.");
  });
}

/// Bytes of gathered parameters by the pass in which they are gathered, and the time of the other gathers.
class GatheredBytes {
 public:
  GatheredBytes(const Trace& trace, const Calls& calls)
      : passes_(passes_of(calls)),
        starts_(forward_starts(trace, calls)),
        launches_(launches_of_layers(calls)) {
    for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
      const Work& work = calls.work[i];
      const Kernel& kernel = trace.kernels[i];
      if (work.role == Role::communication && work.step >= 0 && !work.is_exchange &&
          kind_of(trace, kernel) == CollectiveKind::all_gather)
        add(work, kernel, static_cast<double>(bytes_of(trace, kernel)));
    }
  }

  /// When parameters are gathered. A pass counts only with a tenth of all bytes, because other gathers, of a
  /// loss for example, are small. FSDP gathers the model's own parameters before the first layer runs.
  Gathers when(bool by_modules) const {
    constexpr double kHardlyAny = 0.1;
    if (all_ <= 0) return Gathers::never;
    if (backward_ >= kHardlyAny * all_) return Gathers::for_forward_and_backward;
    if (by_modules) return Gathers::for_forward;
    if (forward_ >= kHardlyAny * all_) return Gathers::beside_forward;
    return 2 * beside_ns_ > outside_ns_ ? Gathers::beside_forward : Gathers::after_update;
  }

 private:
  void add(const Work& work, const Kernel& kernel, double bytes) {
    all_ += bytes;
    const auto& [first, last] = passes_[static_cast<std::size_t>(work.step)];
    if (work.launched_ns > first && work.launched_ns < last) {
      const auto next =
          std::lower_bound(launches_.begin(), launches_.end(), std::pair(work.launched_ns, false));
      (next != launches_.begin() && (next - 1)->second ? backward_ : forward_) += bytes;
      return;
    }
    outside_ns_ += kernel.end_ns - kernel.start_ns;
    const std::size_t next = static_cast<std::size_t>(work.step) + (work.launched_ns > first ? 1 : 0);
    if (next >= starts_.size()) return;
    beside_ns_ += std::max<std::int64_t>(0, kernel.end_ns - std::max(starts_[next], kernel.start_ns));
  }

  Spans passes_;
  std::vector<std::int64_t> starts_;
  std::vector<std::pair<std::int64_t, bool>> launches_;
  double all_ = 0;
  double forward_ = 0;
  double backward_ = 0;
  std::int64_t outside_ns_ = 0;
  std::int64_t beside_ns_ = 0;  ///< of that, when the next forward pass has begun
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
  out.gathers = GatheredBytes(trace, calls).when(wraps_modules(trace));
  return out;
}

}  // namespace kineto
