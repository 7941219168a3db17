#include "profiler/traces/kineto/joined_updates.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "profiler/traces/kineto/marked_steps.hpp"

namespace kineto {
namespace {

constexpr std::string_view kLoads = "enumerate(DataLoader)";

/// What of some kind a step did, by name and shape, and how often.
using Counts = std::map<std::pair<TextId, TextId>, std::size_t>;

bool is_part_of(const Counts& part, const Counts& whole) {
  return std::all_of(part.begin(), part.end(), [&](const auto& each) {
    const auto found = whole.find(each.first);
    return found != whole.end() && each.second <= found->second;
  });
}

struct Signature {
  Counts updates;  ///< gradients with their shapes, optimizers, loaders of data
  Counts nodes;    ///< of backward
  bool has_collectives = false;
  bool loads = false;  ///< data, by PyTorch's loader
  bool operator==(const Signature&) const = default;
};

std::vector<Signature> signatures_of(const Trace& trace, const std::vector<Step>& steps) {
  std::vector<Signature> out(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) out[i].has_collectives = steps[i].has_collectives;
  for (const Range& range : trace.ranges) {
    const std::string_view name = trace.texts[range.name];
    const bool is_gradient = name.find("torch::autograd::AccumulateGrad") != std::string_view::npos;
    const bool loads = name.starts_with(kLoads);
    const bool is_node = !is_gradient && name.find("Backward") != std::string_view::npos;
    if (!is_gradient && !loads && !is_node && !name.starts_with("Optimizer.")) continue;
    const auto after = std::partition_point(
        steps.begin(), steps.end(), [&](const Step& step) { return step.start_ns <= range.start_ns; });
    if (after == steps.begin() || range.start_ns >= (after - 1)->end_ns) continue;
    Signature& signature = out[static_cast<std::size_t>(after - 1 - steps.begin())];
    ++(is_node ? signature.nodes : signature.updates)[{range.name, is_gradient ? range.shapes : TextId{}}];
    signature.loads = signature.loads || loads;
  }
  return out;
}

bool is_part_of(const Signature& part, const Signature& whole) {
  return is_part_of(part.updates, whole.updates) && is_part_of(part.nodes, whole.nodes);
}

/// Whether steps repeat after `period` of them.
bool repeats(const std::vector<Signature>& all, std::size_t period) {
  std::size_t alike = 0;
  for (std::size_t i = 0; i + period < all.size(); ++i) {
    const Signature& a = all[i];
    const Signature& b = all[i + period];
    if (a == b) {
      ++alike;
      continue;
    }
    const bool begins_amid = i == 0 && is_part_of(a, b);
    const bool ends_amid = i + period + 1 == all.size() && is_part_of(b, a);
    if (!begins_amid && !ends_amid) return false;
  }
  return period == 1 || alike >= period;
}

/// The step with which the first whole iteration begins: where data are loaded, or after gradients were
/// summed, if only one step of a period does so.
std::size_t first_of(const std::vector<Signature>& all, std::size_t period) {
  const auto only = [&](bool Signature::*sign) {
    std::size_t out = period;
    std::size_t count = 0;
    for (std::size_t step = 1; step <= period; ++step) {  // the trace holds them as a whole
      if (!(all[step].*sign)) continue;
      out = step % period;
      ++count;
    }
    return count == 1 ? out : period;
  };
  if (const std::size_t loads = only(&Signature::loads); loads < period) return loads;
  if (const std::size_t sums = only(&Signature::has_collectives); sums < period) return (sums + 1) % period;
  return all[0] == all[period] ? 0 : 1;
}

Step joined(const std::vector<Step>& steps, std::size_t from, std::size_t to) {
  Step out = steps[from];
  out.end_ns = steps[to - 1].end_ns;
  return out;
}

}  // namespace

JoinedUpdates joined_updates(const Trace& trace, std::vector<Step> steps) {
  constexpr std::size_t kMost = 8;
  if (steps.size() < 2) return {.steps = std::move(steps)};
  describe_steps(trace, steps);
  std::vector<Signature> all = signatures_of(trace, steps);
  std::size_t period = 1;
  while (period < kMost && period + 1 < steps.size() && !repeats(all, period)) ++period;
  if (period == 1 || !repeats(all, period)) {
    for (Signature& each : all) each.nodes.clear();  // backward passes may differ from data to data
    return {.steps = std::move(steps), .is_ambiguous = !repeats(all, 1)};
  }
  JoinedUpdates out = {.updates = period};
  const std::size_t first = first_of(all, period);
  if (first > 0) out.steps.push_back(joined(steps, 0, first));
  for (std::size_t from = first; from < steps.size(); from += period)
    out.steps.push_back(joined(steps, from, std::min(from + period, steps.size())));
  out.steps.front().may_be_partial = true;
  out.steps.back().may_be_partial = out.steps.back().may_be_partial || (steps.size() - first) % period != 0;
  return out;
}

}  // namespace kineto
