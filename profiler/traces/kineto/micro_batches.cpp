#include "profiler/traces/kineto/micro_batches.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace kineto {
namespace {

using MicroBatch = std::vector<Call*>;

std::vector<MicroBatch> micro_batches(const std::vector<Call*>& step) {
  std::vector<MicroBatch> out(1);
  bool has_gradients = false;
  std::int64_t last_gradient_ns = INT64_MIN;
  for (Call* call : step) {
    if (has_gradients && call->start_ns >= last_gradient_ns) {
      out.emplace_back();
      has_gradients = false;
    }
    out.back().push_back(call);
    for (const Gradient& gradient : call->gradients) {
      last_gradient_ns = std::max(last_gradient_ns, gradient.at_ns);
      has_gradients = true;
    }
  }
  if (!has_gradients && out.size() > 1) {  // what follows the last backward pass
    out[out.size() - 2].insert(out[out.size() - 2].end(), out.back().begin(), out.back().end());
    out.pop_back();
  }
  return out;
}

/// The names and shapes of the calls with gradients: two micro-batches with the same ones have the same
/// parameters.
std::vector<std::pair<TextId, std::vector<TextId>>> parameters_of(const MicroBatch& batch) {
  std::vector<std::pair<TextId, std::vector<TextId>>> out;
  for (const Call* call : batch) {
    if (call->gradients.empty()) continue;
    out.emplace_back(call->name, std::vector<TextId>());
    for (const Gradient& gradient : call->gradients) out.back().second.push_back(gradient.shapes);
  }
  return out;
}

/// Launches of kernels of updates, in order.
std::vector<std::int64_t> launches_of_updates(const Calls& calls) {
  std::vector<std::int64_t> out;
  for (const Work& work : calls.work)
    if (work.role == Role::optimizer) out.push_back(work.launched_ns);
  std::sort(out.begin(), out.end());
  return out;
}

using Parameters = decltype(parameters_of(MicroBatch()));

/// How many micro-batches from `first` on accumulate the same gradients, before anything is updated.
std::size_t accumulated(const std::vector<MicroBatch>& all, const std::vector<Parameters>& parameters,
                        const std::vector<std::int64_t>& updates, std::size_t first) {
  std::size_t end = first + 1;
  while (end < all.size() && parameters[end] == parameters[first]) {
    const auto update = std::lower_bound(updates.begin(), updates.end(), all[end - 1].front()->start_ns);
    if (update != updates.end() && *update < all[end].front()->start_ns) break;
    ++end;
  }
  return end - first;
}

void leave_out(Step& step, const std::vector<MicroBatch>& all, std::size_t first, std::size_t end) {
  step.kept_from_ns = all[end].front()->start_ns;
  step.left_out_ns.emplace_back(first == 0 ? INT64_MIN : all[first].front()->start_ns, step.kept_from_ns);
  for (std::size_t i = first; i < end; ++i) {
    step.left_out += all[i].size();
    for (Call* call : all[i]) call->step = -1;
  }
}

}  // namespace

std::int64_t keep_last_micro_batches(Calls& calls) {
  std::vector<std::vector<Call*>> steps(calls.steps.size());
  for (Call& call : calls.calls) steps[static_cast<std::size_t>(call.step)].push_back(&call);
  const std::vector<std::int64_t> updates = launches_of_updates(calls);
  std::int64_t most = 1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].empty()) continue;
    const std::vector<MicroBatch> all = micro_batches(steps[i]);
    std::vector<Parameters> parameters;
    parameters.reserve(all.size());
    for (const MicroBatch& batch : all) parameters.push_back(parameters_of(batch));
    const bool are_alike = std::all_of(parameters.begin(), parameters.end(),
                                       [&](const auto& each) { return each == parameters[0]; });
    for (std::size_t first = 0; first < all.size();) {
      const std::size_t count = are_alike ? all.size() : accumulated(all, parameters, updates, first);
      most = std::max(most, static_cast<std::int64_t>(count));
      if (count > 1) leave_out(calls.steps[i], all, first, first + count - 1);
      first += count;
    }
  }
  return most;
}

}  // namespace kineto
