#include "profiler/traces/kineto/assumed_gradients.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "profiler/traces/kineto/gradient_sizes.hpp"

namespace kineto {
namespace {

/// The backward pass of a call, as the host launched it.
struct Pass {
  Call* call = nullptr;
  std::int64_t first_ns = INT64_MAX;
  std::int64_t last_ns = INT64_MIN;
};

/// The backward passes of each step in the order of their ends.
std::vector<std::vector<Pass>> passes_by_step(Calls& calls) {
  std::vector<Pass> of_call(calls.calls.size());
  for (const Work& work : calls.work) {
    if (work.role != Role::backward || work.call < 0) continue;
    Pass& pass = of_call[static_cast<std::size_t>(work.call)];
    pass.first_ns = std::min(pass.first_ns, work.launched_ns);
    pass.last_ns = std::max(pass.last_ns, work.launched_ns);
  }
  std::vector<std::vector<Pass>> out(calls.steps.size());
  for (std::size_t i = 0; i < of_call.size(); ++i) {
    of_call[i].call = &calls.calls[i];
    if (of_call[i].call->step >= 0 && of_call[i].last_ns != INT64_MIN)
      out[static_cast<std::size_t>(of_call[i].call->step)].push_back(of_call[i]);
  }
  for (std::vector<Pass>& passes : out)
    std::stable_sort(passes.begin(), passes.end(),
                     [](const Pass& a, const Pass& b) { return a.last_ns < b.last_ns; });
  return out;
}

void add_gradients(std::vector<Pass>& passes, const std::vector<Bucket>& buckets) {
  auto next = passes.begin();
  for (const Bucket& bucket : buckets) {
    const auto first = next;
    for (; next != passes.end() && next->last_ns < bucket.launched_ns; ++next)
      next->call->gradients.push_back({.shapes = {}, .at_ns = bucket.launched_ns, .ns = 0});
    if (next != first || passes.empty()) continue;
    const bool runs = next != passes.end() && next->first_ns < bucket.launched_ns;
    (runs || next == passes.begin() ? next : next - 1)
        ->call->gradients.push_back({.shapes = {}, .at_ns = bucket.launched_ns, .ns = 0});
  }
}

/// Gives each gradient the time of the kernels of its call that were launched since the one before it.
void add_times(Calls& calls) {
  for (const Work& work : calls.work) {
    if (work.role != Role::backward || work.call < 0) continue;
    std::vector<Gradient>& gradients = calls.calls[static_cast<std::size_t>(work.call)].gradients;
    if (gradients.empty()) continue;
    const auto ready = std::find_if(gradients.begin(), gradients.end(), [&](const Gradient& gradient) {
      return gradient.at_ns >= work.launched_ns;
    });
    (ready == gradients.end() ? gradients.back() : *ready).ns +=
        work.time.busy_ns + work.time.exchange_ns + work.time.wait_ns;
  }
}

}  // namespace

bool add_assumed_gradients(const Trace& trace, Calls& calls) {
  if (std::any_of(calls.calls.begin(), calls.calls.end(),
                  [](const Call& call) { return !call.gradients.empty(); }))
    return false;
  const std::vector<std::vector<Bucket>> buckets = buckets_of(trace, calls);
  std::vector<std::vector<Pass>> passes = passes_by_step(calls);
  for (std::size_t step = 0; step < passes.size(); ++step) add_gradients(passes[step], buckets[step]);
  add_times(calls);
  return std::any_of(calls.calls.begin(), calls.calls.end(),
                     [](const Call& call) { return !call.gradients.empty(); });
}

}  // namespace kineto
