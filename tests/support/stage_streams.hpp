// What the stages of a pipeline run, as text.

#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "planner/parallel/run.hpp"

namespace support {

/// Passes as F, B, I or W with the micro-batch, of later parts of a stage with as many primes, of one layer
/// with its number in the part; collectives as G (gather), R (reduce) or S (sum over shard groups) with the
/// group.
inline std::string stream(const planner::ParallelRun& run, std::int64_t stages, sim::StreamId wanted) {
  std::string out;
  for (std::size_t i = 0; i < run.graph.tasks.size(); ++i) {
    if (run.graph.graph.tasks()[i].stream != wanted) continue;
    const planner::StageTask& task = run.graph.tasks[i];
    const planner::Workload& workload = run.parts[static_cast<std::size_t>(task.part)].workload;
    const auto at = static_cast<std::size_t>(task.item);
    std::string name;
    switch (task.kind) {
      case planner::StageTask::Kind::forward:
      case planner::StageTask::Kind::backward:
      case planner::StageTask::Kind::input_gradients:
      case planner::StageTask::Kind::weight_gradients: {
        const bool is_forward = task.kind == planner::StageTask::Kind::forward;
        name = fmt::format("{}{}", "FBIW"[static_cast<std::size_t>(task.kind)], task.micro_batch + 1);
        name.append(static_cast<std::size_t>(task.part / stages), '\'');
        if (task.item != planner::StageTask::kWholePass)
          name += fmt::format(".{}", is_forward ? at + 1 : workload.backward[at].layer + 1);
        break;
      }
      case planner::StageTask::Kind::message:
        name = fmt::format("{}{}", task.item == 1 ? '>' : '<', task.micro_batch + 1);
        break;
      case planner::StageTask::Kind::gather: name = fmt::format("G{}", at + 1); break;
      case planner::StageTask::Kind::reduce: name = fmt::format("R{}", at + 1); break;
      case planner::StageTask::Kind::tie: name = "T"; break;
      case planner::StageTask::Kind::sum: name = fmt::format("S{}", at + 1); break;
    }
    if (task.process_group == 1) name += "x";
    const sim::Span& span = run.timeline.spans[i];
    out += fmt::format("{}{} {}-{}", out.empty() ? "" : ", ", name, sim::to_us(span.start),
                       sim::to_us(span.end));
  }
  return out;
}

inline std::string compute(const planner::ParallelRun& run, std::int64_t stage) {
  return stream(run, static_cast<std::int64_t>(run.stages.size()), planner::JobGraph::compute(stage));
}
inline std::string channel(const planner::ParallelRun& run, std::int64_t stage) {
  return stream(run, static_cast<std::int64_t>(run.stages.size()), planner::JobGraph::channel(stage));
}

}  // namespace support
