#include "profiler/traces/kineto/device_time.hpp"

#include <algorithm>
#include <cassert>

namespace kineto {
namespace {

/// The parts of disjoint, ordered spans within a window; windows ask in order, so that `first` only grows.
class Within {
 public:
  explicit Within(const Spans& spans) : spans_(spans) {}
  explicit Within(Spans&&) = delete;

  Spans of(const Span& window) {
    while (first_ < spans_.size() && spans_[first_].second <= window.first) ++first_;
    Spans out;
    for (std::size_t i = first_; i < spans_.size() && spans_[i].first < window.second; ++i)
      out.emplace_back(std::max(spans_[i].first, window.first), std::min(spans_[i].second, window.second));
    return out;
  }

 private:
  const Spans& spans_;
  std::size_t first_ = 0;
};

/// The idle time that communication explains: all of it after a launch, and before it while the host was
/// blocked.
class Waits {
 public:
  Waits(const Spans& communication, const Spans& blocked)
      : blocking_(common(communication, blocked)), before_launch_(blocking_), after_launch_(communication) {}

  Spans of(const Span& idle, std::int64_t launched_ns) {
    Spans out = before_launch_.of({idle.first, launched_ns});
    const Spans after = after_launch_.of({launched_ns, idle.second});
    out.insert(out.end(), after.begin(), after.end());
    return out;
  }

 private:
  Spans blocking_;
  Within before_launch_;
  Within after_launch_;
};

/// The exchanges of passes that were launched before a kernel, within a window. Windows ask in order.
class InPasses {
 public:
  explicit InPasses(const std::vector<LaunchedSpan>& all) : all_(all) {}
  explicit InPasses(std::vector<LaunchedSpan>&&) = delete;

  /// A kernel of which nothing is known but its start was launched at INT64_MIN.
  Spans of(const Span& window, std::int64_t launched_ns) {
    while (first_ < all_.size() && all_[first_].span.second <= window.first) ++first_;
    Spans out;
    for (std::size_t i = first_; i < all_.size() && all_[i].span.first < window.second; ++i) {
      const Span both = {std::max(all_[i].span.first, window.first),
                         std::min(all_[i].span.second, window.second)};
      const bool was_first = all_[i].launched_ns < launched_ns || launched_ns == INT64_MIN;
      if (was_first && both.first < both.second) out.push_back(both);
    }
    return out;
  }

 private:
  const std::vector<LaunchedSpan>& all_;
  std::size_t first_ = 0;
};

/// Even if kernels are launched in time, there is a gap of 1 to 5 us between them.
bool is_gap_of_device(const ComputeKernel& kernel, const Span& idle) {
  constexpr std::int64_t kLaunchNs = 10'000;  // until a launched kernel can begin
  constexpr std::int64_t kLongestNs = 10'000;
  return kernel.launched_ns < idle.first - kLaunchNs && idle.second - idle.first <= kLongestNs;
}

}  // namespace

Spans united(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans out;
  for (const Span& span : spans) {
    if (!out.empty() && span.first <= out.back().second)
      out.back().second = std::max(out.back().second, span.second);
    else
      out.push_back(span);
  }
  return out;
}

std::int64_t length_ns(const Spans& spans) {
  std::int64_t sum = 0;
  for (const auto& [start, end] : spans) sum += end - start;
  return sum;
}

Spans common(const Spans& a, const Spans& b) {
  Spans out;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Span both = {std::max(a[i].first, b[j].first), std::min(a[i].second, b[j].second)};
    if (both.first < both.second) out.push_back(both);
    (a[i].second < b[j].second ? i : j) += 1;
  }
  return out;
}

Spans without(const Spans& spans, const Spans& parts) {
  Spans out;
  std::size_t part = 0;
  for (const auto& [start, end] : spans) {
    std::int64_t from = start;
    while (part < parts.size() && parts[part].second <= start) ++part;
    for (std::size_t i = part; i < parts.size() && parts[i].first < end; ++i) {
      if (parts[i].first > from) out.emplace_back(from, parts[i].first);
      from = std::max(from, parts[i].second);
    }
    if (from < end) out.emplace_back(from, end);
  }
  return out;
}

DeviceSplit split_device_time(const std::vector<ComputeKernel>& kernels, const OtherSpans& others) {
  Waits gradients(others.gradients, others.blocked);
  Waits exchanges(others.exchanges, others.blocked);
  InPasses in_passes(others.in_passes);
  Within copies(others.copies);
  DeviceSplit split;
  std::vector<DeviceTime>& out = split.kernels;
  out.reserve(kernels.size());
  std::int64_t busy_until = kernels.empty() ? 0 : kernels.front().ran.first;
  for (const ComputeKernel& kernel : kernels) {
    assert(out.empty() || kernels[out.size() - 1].ran.first <= kernel.ran.first);
    DeviceTime time;
    if (const Span idle = {busy_until, kernel.ran.first}; idle.first < idle.second) {
      const std::int64_t launched = std::clamp(kernel.launched_ns, idle.first, idle.second);
      Spans explained;
      const auto take = [&](const Spans& spans) {  // what nothing before explains
        const std::int64_t before = length_ns(explained);
        explained.insert(explained.end(), spans.begin(), spans.end());
        explained = united(std::move(explained));
        return length_ns(explained) - before;
      };
      if (kernel.is_of_layer) {
        time.exchange_ns = take(in_passes.of({launched, idle.second}, kernel.launched_ns));
        split.in_passes.insert(split.in_passes.end(), explained.begin(), explained.end());
      }
      time.exposed_ns = take(gradients.of(idle, launched));
      time.exchange_ns += take(exchanges.of(idle, launched));
      time.copying_ns = take(copies.of(idle));
      const Spans rest = without({idle}, explained);
      if (is_gap_of_device(kernel, idle)) {
        time.busy_ns = length_ns(rest);
        split.gaps.insert(split.gaps.end(), rest.begin(), rest.end());
      } else {
        time.wait_ns = length_ns(rest);
        split.waits.insert(split.waits.end(), rest.begin(), rest.end());
      }
    }
    time.busy_ns += std::max<std::int64_t>(0, kernel.ran.second - std::max(busy_until, kernel.ran.first));
    busy_until = std::max(busy_until, kernel.ran.second);
    out.push_back(time);
  }
  return split;
}

}  // namespace kineto
