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

}  // namespace

std::int64_t keep_last_micro_batches(Calls& calls) {
  std::vector<std::vector<Call*>> steps(calls.steps.size());
  for (Call& call : calls.calls) steps[static_cast<std::size_t>(call.step)].push_back(&call);
  std::int64_t most = 1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    std::vector<MicroBatch> all = micro_batches(steps[i]);
    const auto last = parameters_of(all.back());
    const std::int64_t begin_ns = all.back().empty() ? INT64_MIN : all.back().front()->start_ns;
    all.pop_back();
    if (!std::all_of(all.begin(), all.end(),
                     [&](const MicroBatch& batch) { return parameters_of(batch) == last; }))
      continue;
    most = std::max(most, static_cast<std::int64_t>(all.size()) + 1);
    if (!all.empty()) calls.steps[i].kept_from_ns = begin_ns;
    for (const MicroBatch& batch : all) {
      calls.steps[i].left_out += batch.size();
      for (Call* call : batch) call->step = -1;
    }
  }
  return most;
}

}  // namespace kineto
