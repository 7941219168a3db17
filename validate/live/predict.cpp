#include "validate/live/predict.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/json_text.hpp"
#include "planner/run/all_workers.hpp"
#include "planner/run/metrics.hpp"
#include "validate/live/names.hpp"
#include "validate/live/runnable.hpp"

namespace live {
namespace {

using planner::TaskLabel;
using sim::Time;
using Kind = TaskLabel::Kind;

const planner::Compressor& measured(const planner::Compressor& compressor, const RunSpec& spec,
                                    const Calibration& calibration) {
  const RequestedCompressor requested = {.compressor = compressor, .error_feedback = spec.error_feedback};
  for (std::size_t i = 0; i < calibration.requested.size(); ++i)
    if (calibration.requested[i] == requested) return calibration.compressors[i];
  if (std::ranges::find(calibration.compressors, compressor) != calibration.compressors.end())
    return compressor;  // already resolved
  for (const planner::Compressor& known : calibration.compressors)
    if (known.name == compressor.name && known.ratio > 0 && !compressor.is_none()) return known;
  return compressor;
}

/// The iteration between the last two marks, for workers that are alike.
Iteration last_iteration(const planner::Simulated& run, const sim::Timeline& timeline, std::size_t worker) {
  const Time begin = run.marks[run.marks.size() - 2];
  const Time end = run.marks.back();
  Iteration out = {.length_us = sim::to_us(end - begin), .pieces = {}};
  const auto tasks = run.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const sim::Span& span = timeline.spans[i];
    const bool is_shared =
        run.lowered.is_channel(tasks[i].stream) || tasks[i].stream == planner::Lowered::kTicks;
    if (span.start < begin || span.end > end || span.start == span.end) continue;
    if (!is_shared && planner::Lowered::worker_of(tasks[i].stream) != worker) continue;
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    if (label.kind == Kind::tick) continue;
    const double start_us = sim::to_us(span.start - begin);
    out.pieces.push_back({.kind = label.kind,
                          .item = label.item,
                          .ready_us = start_us,
                          .start_us = start_us,
                          .end_us = sim::to_us(span.end - begin)});
  }
  std::ranges::stable_sort(out.pieces, {}, &Piece::end_us);
  return out;
}

/// One iteration per worker. Workers are alike unless there are stragglers; a graph with a window or with
/// interference is not simulated separately for workers that differ.
std::vector<Iteration> iterations_of(const planner::Setting& setting, const planner::Simulated& run) {
  const auto workers = static_cast<std::size_t>(setting.costs.workers());
  const sim::TaskGraph& graph = run.lowered.graph;
  const bool is_simple = graph.windows().empty() && graph.interferences().empty();
  std::vector<Iteration> out;
  if (setting.conditions.stragglers.empty() || !is_simple) {
    out.assign(workers, last_iteration(run, run.timeline, 0));
    return out;
  }
  std::vector<std::int64_t> shown(workers);
  for (std::size_t i = 0; i < workers; ++i) shown[i] = static_cast<std::int64_t>(i);
  const planner::Simulated apart = planner::simulate_workers_of(setting, run);
  for (const planner::ShownWorker& worker : planner::simulate_all_workers(setting, apart, shown).shown)
    out.push_back(last_iteration(apart, worker.timeline, 0));
  return out;
}

/// A worker holds the tasks of its whole run, each in about 200 bytes.
void check_size(const RunSpec& spec, const planner::Simulated& run) {
  constexpr std::size_t kMaxTasks = 5'000'000;
  const std::size_t per_iteration = run.lowered.graph.tasks().size() / (run.marks.size() - 1) + 1;
  const std::size_t iterations = std::size_t{spec.warm_up} + spec.iterations;
  if (iterations > kMaxTasks / per_iteration)
    throw core::InputError(
        fmt::format("{}: expected at most {} iterations with the warm-up, as each has {} tasks, got {}",
                    core::printable(spec.name), kMaxTasks / per_iteration, per_iteration, iterations));
}

Prediction predicted(const RunSpec& spec, const Calibration& calibration) {
  planner::Schedule schedule = spec.schedule;
  schedule.compressor = measured(schedule.compressor, spec, calibration);
  schedule.options.pads_tensors = false;  // workers divide groups, not each of their tensors
  planner::Conditions conditions = spec.conditions;
  if (!conditions.overlap.slows()) conditions.overlap = calibration.overlap;
  core::Profile profile = calibration.profile;
  for (core::ProfileLayer& layer : profile.layers)
    layer.frozen_elements = 0;  // workers have no such parameters
  const planner::Setting setting(profile, calibration.network, spec.workers,
                                 schedule.all_reduce.value_or(spec.all_reduce), conditions);
  planner::Choice choice = planner::choose(setting, schedule);
  Prediction out;
  std::vector<planner::TransferCost> transfers;
  for (const planner::TransferCost& transfer : choice.transfers) {
    planner::Transfer own = transfer.transfer();
    own.compressor = measured(own.compressor, spec, calibration);
    out.transfers.push_back(own);
    transfers.push_back(planner::cost_of(setting, std::move(own)));
  }
  planner::Simulated run =
      planner::simulate_groups(setting, schedule, std::move(choice.groups), std::move(transfers));
  for (const planner::Group& group : run.groups) {
    out.bytes.push_back(planner::bytes_of(setting.workload, group));
    out.is_encoded.push_back(
        run.transfers[group.transfer].is_encoded(planner::payload_of(setting.workload, group)));
  }
  out.iteration_us = planner::summarize(setting, run).iteration_us;
  out.iterations = iterations_of(setting, run);
  check_size(spec, run);
  out.lowered = planner::lower_one_worker(setting, run, spec.warm_up + spec.iterations);
  out.groups = std::move(run.groups);
  for (const planner::Warning& warning : choice.warnings) out.warnings.push_back(warning.text);
  return out;
}

}  // namespace

Prediction predict(const RunSpec& spec, const Calibration& calibration) {
  check_runnable(spec);
  try {
    Prediction out = predicted(spec, calibration);
    for (std::size_t g = 0; g < out.groups.size(); ++g)
      if (out.bytes[g] % 4 != 0 || (out.groups[g].part && out.groups[g].part->from % 4 != 0))
        throw core::InputError(fmt::format("{}: expected groups of whole elements, got one of {} bytes",
                                           core::printable(spec.name), out.bytes[g]));
    return out;
  } catch (const core::Unsupported& problem) {
    throw core::InputError(fmt::format("{}: expected {}, got {}", core::printable(spec.name),
                                       problem.expected(), problem.got()));
  }
}

std::string prediction_text(const RunSpec& spec, const Prediction& prediction) {
  using nlohmann::ordered_json;
  ordered_json groups = ordered_json::array();
  for (std::size_t g = 0; g < prediction.groups.size(); ++g)
    groups.push_back({{"tensors", prediction.groups[g].end - prediction.groups[g].begin},
                      {"bytes", prediction.bytes[g]},
                      {"encoded", bool{prediction.is_encoded[g]}}});
  ordered_json workers = ordered_json::array();
  for (const Iteration& iteration : prediction.iterations) workers.push_back(iteration_json(iteration));
  return core::json_text({{"format", "fusewise.live-prediction"},
                          {"version", 1},
                          {"name", spec.name},
                          {"pipeline", spec.schedule.pipeline->name},
                          {"iteration_us", prediction.iteration_us},
                          {"groups", std::move(groups)},
                          {"workers", std::move(workers)}});
}

}  // namespace live
