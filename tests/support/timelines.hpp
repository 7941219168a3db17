// A simulated run as short text: "F1 0-2, F2 2-5, B2 5-9" on compute, "A1 9-19" on the channel.

#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "planner/run/predict.hpp"
#include "sim/simulate.hpp"
#include "tests/support/planning.hpp"

namespace support {

/// F forward and B backward of a layer (B1.b: of one tensor), f and b of a whole micro-batch, R read, T tick,
/// E encode, D decode, A all-reduce, S reduce-scatter and G all-gather of a group, L and H LARS and its
/// gather, U update (U1: of a group), g all-gather before backward; one prime for each micro-batch after the
/// first counted one.
inline std::string name(const planner::TaskLabel& whole, const planner::Workload& workload,
                        std::size_t groups) {
  using Kind = planner::TaskLabel::Kind;
  planner::TaskLabel label = whole;
  std::string primes;
  const auto count_from = [&](std::size_t count) {
    primes.assign(label.item / count, '\'');
    label.item %= static_cast<std::uint32_t>(count);
  };
  if (label.kind == Kind::forward) count_from(workload.forward.size());
  if (label.kind == Kind::backward) count_from(workload.backward.size());
  if (label.kind == Kind::forward_gather || label.kind == Kind::backward_gather) count_from(groups);
  const auto numbered = [&](std::string_view letter) {
    return fmt::format("{}{}{}", letter, label.item + 1, primes);
  };
  switch (label.kind) {
    case Kind::read: return "R";
    case Kind::forward: return numbered("F");
    case Kind::backward: {
      const planner::BackwardStep& step = workload.backward[label.item];
      std::string layer = fmt::format("B{}", step.layer + 1);
      if (step.tensor == planner::BackwardStep::kWholeLayer) return layer + primes;
      return layer + '.' + static_cast<char>('a' + step.tensor);
    }
    case Kind::micro_batch_forward: return numbered("f");
    case Kind::micro_batch_backward: return numbered("b");
    case Kind::tick: return numbered("T");
    case Kind::encode: return numbered("E");
    case Kind::decode: return numbered("D");
    case Kind::all_reduce: return numbered("A");
    case Kind::reduce_scatter: return numbered("S");
    case Kind::all_gather:
    case Kind::forward_gather: return numbered("G");
    case Kind::lars: return "L";
    case Kind::lars_gather: return "H";
    case Kind::update: return "U";
    case Kind::group_update: return numbered("U");
    case Kind::backward_gather: return numbered("g");
  }
  return "?";
}

/// The tasks of one stream, in the order in which they were written; times in microseconds.
inline std::string stream(const Scene& scene, const planner::Run& run, sim::StreamId wanted) {
  std::string out;
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].stream != wanted) continue;
    const sim::Span& span = run.timeline.spans[i];
    out += fmt::format(
        "{}{} {}-{}", out.empty() ? "" : ", ",
        name(planner::TaskLabel::unpack(tasks[i].label), scene.setting.workload, run.groups.size()),
        sim::to_us(span.start), sim::to_us(span.end));
  }
  return out;
}

/// With the graph of all workers, each with its own tasks, if any task has random times.
inline planner::Run run_whole(const Scene& scene, const planner::Schedule& schedule) {
  planner::Run out = scene.run(schedule);
  if (!scene.setting.conditions.jitter.any()) return out;
  out.lowered = planner::lower_every_worker(scene.setting, out);
  out.timeline = sim::simulate(out.lowered.graph);
  return out;
}

}  // namespace support
