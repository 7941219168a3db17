#include "profiler/traces/kineto/iteration.hpp"

#include <algorithm>
#include <limits>

#include "profiler/traces/kineto/host_kernels.hpp"
#include "profiler/traces/kineto/marked_steps.hpp"

namespace kineto {
namespace {

constexpr double kNsPerUs = 1000;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct Sums {
  std::int64_t first_forward_ns = kNever;
  std::int64_t first_launched_ns = kNever;
  std::int64_t end_ns = 0;
  std::int64_t layers_ns = 0;
  std::int64_t exchange_ns = 0;
  std::int64_t optimizer_ns = 0;
  std::int64_t optimizer_wait_ns = 0;
  std::int64_t exposed_ns = 0;
  std::int64_t exposed_before_ns = 0;
  std::int64_t wait_ns = 0;
  std::int64_t idle_before_ns = 0;
};

/// Returns whether a kernel belongs to a layer of the micro-batch that is kept.
bool is_of_layer(const Calls& calls, const Work& work) {
  return (work.role == Role::forward || work.role == Role::backward) && work.call >= 0 &&
         calls.calls[static_cast<std::size_t>(work.call)].step >= 0;
}

/// From when on each step holds but one pass forward and backward: the last of its micro-batches that is
/// kept, or the one after its last but one update.
std::vector<std::int64_t> last_passes(const Calls& calls) {
  std::vector<std::int64_t> out;
  for (const Step& step : calls.steps) out.push_back(step.kept_from_ns);
  std::vector<bool> has_updated(calls.steps.size(), false);
  for (const Work& work : calls.work) {
    if (work.step < 0) continue;
    const auto step = static_cast<std::size_t>(work.step);
    if (work.role == Role::optimizer) has_updated[step] = true;
    const bool trains = work.role == Role::forward && work.call >= 0 &&
                        calls.calls[static_cast<std::size_t>(work.call)].has_backward;
    if (!trains || !has_updated[step]) continue;
    out[step] = std::max(out[step], work.launched_ns);
    has_updated[step] = false;
  }
  return out;
}

/// Says of compute kernels, in order, whether what was exposed before them is communication of earlier passes
/// than the last of their step. The simulation has one pass, so that it is as much a part of the iteration's
/// other work as the kernels of micro-batches that are left out. Before the first kernel of a step it is
/// communication of the step before.
class EarlierPasses {
 public:
  explicit EarlierPasses(const Calls& calls) : last_ns_(last_passes(calls)), states_(calls.steps.size()) {}

  bool were_exposed(const Work& work) {
    if (work.role == Role::communication || work.role == Role::copy) return false;
    const auto step = static_cast<std::size_t>(work.step);
    State& state = states_[step];
    const bool out = state.has_begun && !state.has_ended && last_ns_[step] != INT64_MIN;
    state = {.has_begun = true, .has_ended = state.has_ended || work.launched_ns >= last_ns_[step]};
    return out;
  }

 private:
  struct State {
    bool has_begun = false;
    bool has_ended = false;  ///< a kernel of the last pass has run
  };
  std::vector<std::int64_t> last_ns_;
  std::vector<State> states_;  ///< of each step
};

std::vector<Sums> sums_of(const Trace& trace, const Calls& calls) {
  std::vector<Sums> out(calls.steps.size());
  EarlierPasses earlier(calls);
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    const Work& work = calls.work[i];
    if (work.step < 0) continue;
    Sums& sums = out[static_cast<std::size_t>(work.step)];
    sums.end_ns = std::max(sums.end_ns, trace.kernels[i].end_ns);
    (earlier.were_exposed(work) ? sums.exposed_before_ns : sums.exposed_ns) += work.time.exposed_ns;
    sums.wait_ns += work.time.wait_ns;
    sums.idle_before_ns += work.idle_before_ns;
    if (work.role == Role::optimizer) sums.optimizer_wait_ns += work.time.wait_ns;
    if (work.role == Role::forward && trace.kernels[i].start_ns < sums.first_forward_ns) {
      sums.first_forward_ns = trace.kernels[i].start_ns;
      sums.first_launched_ns = work.launched_ns;
    }
    if (is_of_layer(calls, work)) {
      sums.layers_ns += work.time.busy_ns + work.time.exchange_ns;
      sums.exchange_ns += work.time.exchange_ns;
    }
    if (work.role == Role::optimizer)
      sums.optimizer_ns += work.time.busy_ns + work.time.exchange_ns + work.time.wait_ns;
  }
  for (std::size_t step = 0; step < out.size(); ++step)  // kernels are lost that were launched before it
    if (calls.steps[step].first_lost_ns < out[step].first_launched_ns) out[step].first_forward_ns = kNever;
  return out;
}

constexpr double us(std::int64_t ns) { return static_cast<double>(ns) / kNsPerUs; }

Iteration iteration(const Sums& sums, const HostIteration& host, std::int64_t length_ns) {
  return {.length_us = us(length_ns),
          .optimizer_us = us(sums.optimizer_ns),
          .optimizer_wait_us = us(sums.optimizer_wait_ns),
          .layers_us = us(sums.layers_ns),
          .exchange_us = us(sums.exchange_ns),
          .exposed_us = us(sums.exposed_ns),
          .exposed_before_us = us(sums.exposed_before_ns),
          .wait_us = us(sums.wait_ns),
          .host_us = us(host.layers_ns + host.rest_ns),
          .synchronizes = host.synchronizes,
          .has_next = true};
}

/// What a step takes whose next one is not known: until its last kernel, or until the next step would begin.
std::int64_t until_end_ns(const Sums& sums, const Step& step, bool is_marked, std::int64_t gap_ns) {
  const std::int64_t ran = sums.end_ns - sums.first_forward_ns;
  return is_marked ? std::max(ran, step.end_ns - step.start_ns + gap_ns) : ran;
}

}  // namespace

std::vector<Iteration> find_iterations(const Trace& trace, const Calls& calls,
                                       const std::vector<HostIteration>& host) {
  const std::vector<Sums> sums = sums_of(trace, calls);
  const StepGaps gaps(calls.steps, calls.has_steps);
  const bool by_markers = calls.has_steps && computes_on_host(trace);
  std::vector<Iteration> out(sums.size());
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const std::int64_t begin = sums[at].first_forward_ns;
    if (begin == kNever || !gaps.has_next(at) || sums[at + 1].first_forward_ns == kNever) continue;
    const std::int64_t length_ns = by_markers ? calls.steps[at + 1].start_ns - calls.steps[at].start_ns
                                              : sums[at + 1].first_forward_ns - begin;
    out[at] = iteration(sums[at], host[at], length_ns);
    out[at].idle_us = us(sums[at + 1].idle_before_ns);
  }
  const bool is_alone =
      std::none_of(out.begin(), out.end(), [](const Iteration& each) { return each.has_next; });
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const Step& step = calls.steps[at];
    const bool ends = calls.has_steps && sums[at].end_ns <= step.end_ns;
    if (out[at].has_next || sums[at].first_forward_ns == kNever || !(ends || is_alone)) continue;
    const std::int64_t marked_ns = step.end_ns - step.start_ns + gaps.usual_ns();
    out[at] =
        iteration(sums[at], host[at],
                  by_markers ? marked_ns : until_end_ns(sums[at], step, calls.has_steps, gaps.usual_ns()));
    out[at].idle_us = std::max(0.0, out[at].length_us - us(sums[at].end_ns - sums[at].first_forward_ns));
    out[at].has_next = false;
  }
  return out;
}

}  // namespace kineto
