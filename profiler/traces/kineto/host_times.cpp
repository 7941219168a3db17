#include "profiler/traces/kineto/host_times.hpp"

#include <algorithm>
#include <cstddef>

namespace kineto {
namespace {

/// Launches that take much longer than others wait until the device's queue has room.
Spans full_queue(const Trace& trace) {
  constexpr std::int64_t kMinNs = 100'000;
  constexpr std::int64_t kTimesMedian = 10;
  std::vector<std::int64_t> lengths;
  lengths.reserve(trace.launches.size());
  for (const Launch& launch : trace.launches) lengths.push_back(launch.end_ns - launch.at_ns);
  if (lengths.empty()) return {};
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  const std::int64_t limit = std::max(kMinNs, kTimesMedian * *middle);
  Spans out;
  for (const Launch& launch : trace.launches)
    if (launch.end_ns - launch.at_ns > limit) out.emplace_back(launch.at_ns, launch.end_ns);
  return out;
}

/// Indices of kernels that compute, in the order in which they were launched.
std::vector<std::size_t> launched(const Calls& calls) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < calls.work.size(); ++i)
    if (calls.work[i].has_launch && calls.work[i].role != Role::communication) out.push_back(i);
  std::stable_sort(out.begin(), out.end(), [&](std::size_t a, std::size_t b) {
    return calls.work[a].launched_ns < calls.work[b].launched_ns;
  });
  return out;
}

/// The time of spans before a moment; moments must not fall.
class Before {
 public:
  explicit Before(const Spans& spans) : spans_(spans) {}
  explicit Before(Spans&&) = delete;

  std::int64_t ns(std::int64_t at) {
    for (; next_ < spans_.size() && spans_[next_].second <= at; ++next_)
      sum_ += spans_[next_].second - spans_[next_].first;
    return sum_ + (next_ < spans_.size() ? std::max<std::int64_t>(0, at - spans_[next_].first) : 0);
  }

 private:
  const Spans& spans_;
  std::size_t next_ = 0;
  std::int64_t sum_ = 0;
};

/// Marks the iterations in which the host waited until everything that it had launched was done. The first
/// launches of iterations come in `begins`, by step; -1 for steps without.
void find_synchronizations(const Trace& trace, const Calls& calls, const std::vector<std::size_t>& order,
                           const std::vector<std::int64_t>& begins, std::vector<HostIteration>& out) {
  if (begins.empty()) return;
  constexpr std::int64_t kToReturnNs = 100'000;  // from the last kernel's end to that of the call
  std::size_t next = 0;
  std::int64_t done_ns = INT64_MIN;
  std::size_t step = 0;
  Spans blocked = trace.blocked;
  std::sort(blocked.begin(), blocked.end());
  for (const auto& [start, end] : blocked) {
    for (; next < order.size() && calls.work[order[next]].launched_ns < start; ++next)
      done_ns = std::max(done_ns, trace.kernels[order[next]].end_ns);
    while (step + 1 < begins.size() && (begins[step + 1] < 0 || begins[step + 1] <= start)) ++step;
    if (done_ns <= end + kToReturnNs && next > 0 && begins[step] >= 0 && begins[step] <= start)
      out[step].synchronizes = true;
  }
}

}  // namespace

std::vector<HostIteration> add_host_times(const Trace& trace, Calls& calls) {
  std::vector<HostIteration> out(calls.steps.size());
  std::vector<std::int64_t> begins(calls.steps.size(), -1);
  Spans waits = trace.blocked;
  const Spans full = full_queue(trace);
  waits.insert(waits.end(), full.begin(), full.end());
  waits = united(std::move(waits));
  Before waited(waits);
  std::int32_t step = -1;
  std::int64_t last_ns = 0;  // of the host's own time
  const std::vector<std::size_t> order = launched(calls);
  for (const std::size_t i : order) {
    const Work& work = calls.work[i];
    const std::int64_t now_ns = work.launched_ns - waited.ns(work.launched_ns);
    const std::int64_t took_ns = now_ns - last_ns;
    last_ns = now_ns;
    const bool begins_step = work.role == Role::forward && work.step > step;
    if (step >= 0) {
      HostIteration& iteration = out[static_cast<std::size_t>(step)];
      const bool of_layer = !begins_step && work.call >= 0 && work.step == step &&
                            (work.role == Role::forward || work.role == Role::backward);
      (of_layer ? iteration.layers_ns : iteration.rest_ns) += took_ns;
      if (of_layer) {
        Call& call = calls.calls[static_cast<std::size_t>(work.call)];
        (work.role == Role::forward ? call.forward_host_ns : call.backward_host_ns) += took_ns;
      }
    }
    if (!begins_step) continue;
    step = work.step;
    begins[static_cast<std::size_t>(step)] = work.launched_ns;
  }
  find_synchronizations(trace, calls, order, begins, out);
  return out;
}

}  // namespace kineto
