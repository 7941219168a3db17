#include "planner/parallel/stage_slices.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "planner/job/names.hpp"
#include "planner/run/slices.hpp"
#include "sim/graph_algorithms.hpp"

namespace planner {
namespace {

using core::Slice;
using sim::Time;
using Kind = StageTask::Kind;

class Namer {
 public:
  explicit Namer(const RanStages& ran) : ran_(ran) {}

  std::string name(const StageTask& task) const {
    switch (task.kind) {
      case Kind::forward: return pass_name("forward", task, [&] { return layer_name(task, task.item); });
      case Kind::backward: return pass_name("backward", task, [&] { return step_name(task); });
      case Kind::input_gradients: return pass_name("input gradients", task, [&] { return step_name(task); });
      case Kind::weight_gradients:
        return pass_name("weight gradients", task, [&] { return step_name(task); });
      case Kind::message:
        return fmt::format("{} of micro-batch {} to stage {}{}", task.item == 1 ? "activations" : "gradients",
                           task.micro_batch + 1, ran_.parallel.stage_of(task.part), of_part(task));
      case Kind::gather: return group_name("all-gather", task);
      case Kind::reduce:
        return group_name(
            task.collective == core::CollectiveKind::all_reduce ? "all-reduce" : "reduce-scatter", task);
      case Kind::sum: return group_name("all-reduce between shard groups,", task);
      case Kind::tie: return "all-reduce of tied tensors";
    }
    return "";
  }

  static std::string_view category(Kind kind) {
    switch (kind) {
      case Kind::forward: return "forward";
      case Kind::backward:
      case Kind::input_gradients:
      case Kind::weight_gradients: return "backward";
      default: return "communication";
    }
  }

  void add_arguments(const StageTask& task, Slice& slice) const {
    if (!is_collective(task.kind))
      slice.arguments.emplace_back("micro_batch", fmt::to_string(task.micro_batch + 1));
    if (ran_.parallel.stages.virtual_stages > 1)
      slice.arguments.emplace_back("part", fmt::to_string(task.part));
    if (is_collective(task.kind)) add_group(task, slice);
  }

 private:
  const ModelPart& part_of(const StageTask& task) const {
    return ran_.parts[static_cast<std::size_t>(task.part)];
  }

  const PartGroups& groups_of(const StageTask& task) const {
    if (task.kind == Kind::tie) return ran_.tied.value();
    return part_of(task).groups[static_cast<std::size_t>(task.process_group)];
  }

  /// ", part 5", where a stage has several.
  std::string of_part(const StageTask& task) const {
    return ran_.parallel.stages.virtual_stages > 1 ? fmt::format(", part {}", task.part) : "";
  }

  template <typename Item>
  std::string pass_name(std::string_view what, const StageTask& task, const Item& item) const {
    if (task.item == StageTask::kWholePass)
      return fmt::format("{} of micro-batch {}{}", what, task.micro_batch + 1, of_part(task));
    return fmt::format("{} {}, micro-batch {}", what, item(), task.micro_batch + 1);
  }

  const std::string& layer_name(const StageTask& task, std::int64_t layer) const {
    return part_of(task).workload.profile->layers[static_cast<std::size_t>(layer)].name;
  }

  const std::string& step_name(const StageTask& task) const {
    const Workload& workload = part_of(task).workload;
    return planner::step_name(workload, workload.backward[static_cast<std::size_t>(task.item)]);
  }

  std::string group_name(std::string_view what, const StageTask& task) const {
    return fmt::format("{} group {}{}{}", what, task.item + 1,
                       groups_of(task).of_experts ? " of experts" : "", of_part(task));
  }

  void add_group(const StageTask& task, Slice& slice) const {
    const PartGroups& groups = groups_of(task);
    const std::size_t number = task.kind == Kind::tie ? 0 : static_cast<std::size_t>(task.item);
    const Group& group = groups.groups[number];
    const TransferCost& transfer = groups.transfers[group.transfer];
    slice.arguments.emplace_back("group", fmt::to_string(number + 1));
    slice.arguments.emplace_back("workers", fmt::to_string(transfer.all_workers()));
    slice.arguments.emplace_back(
        "bytes",
        fmt::format("{:.0f}", transfer.wire_bytes(task.collective, payload_of(groups.workload, group))));
    add_tensors(groups.workload, group, slice);
  }

  const RanStages& ran_;
};

/// The names of a stage's tracks, in the order of its streams.
constexpr std::array<std::string_view, JobGraph::kStreams> kThreads = {
    "compute", "communication", "communication between shard groups", "activations to other stages",
    "gradients to other stages"};

}  // namespace

bool is_collective(StageTask::Kind kind) {
  return kind == Kind::gather || kind == Kind::reduce || kind == Kind::sum || kind == Kind::tie;
}

Time before_stages(const Conditions& conditions) {
  return sim::from_us((conditions.read_is_overlapped ? 0 : conditions.read_us) + conditions.waiting_us);
}

StageFacts stage_facts(const RanStages& ran) {
  const auto tasks = ran.graph.graph.tasks();
  StageFacts out = {.is_critical = std::vector<bool>(tasks.size()),
                    .without_waits = std::vector<Time>(tasks.size())};
  for (const sim::TaskId task : sim::critical_path(ran.graph.graph, ran.timeline))
    out.is_critical[sim::index(task)] = true;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (is_collective(ran.graph.tasks[i].kind)) continue;
    const Time end = ran.timeline.spans[i].end;
    for (const sim::TaskId next : ran.graph.graph.successors(static_cast<sim::TaskId>(i)))
      out.without_waits[sim::index(next)] = std::max(out.without_waits[sim::index(next)], end);
    out.passes_end = std::max(out.passes_end, end);
  }
  return out;
}

void add_stage_slices(const RanStages& ran, const StageFacts& facts, std::int64_t stage,
                      const std::string& process, std::vector<core::Track>& tracks,
                      std::vector<Slice>& slices) {
  const Namer namer(ran);
  const Time before = before_stages(ran.conditions);
  const auto tasks = ran.graph.graph.tasks();
  std::array<std::vector<std::size_t>, JobGraph::kStreams> by_stream;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::size_t stream = sim::index(tasks[i].stream) - sim::index(JobGraph::compute(stage));
    const sim::Span& span = ran.timeline.spans[i];
    if (stream < by_stream.size() && span.start != span.end) by_stream[stream].push_back(i);
  }
  const std::size_t compute = tracks.size();
  for (std::size_t stream = 0; stream < by_stream.size(); ++stream) {
    for (const std::size_t i : by_stream[stream]) {
      const sim::Span& span = ran.timeline.spans[i];
      const StageTask& task = ran.graph.tasks[i];
      Slice slice = {.track = tracks.size(),
                     .name = namer.name(task),
                     .category = std::string(Namer::category(task.kind)),
                     .start = before + span.start,
                     .end = before + span.end};
      namer.add_arguments(task, slice);
      if (facts.is_critical[i]) slice.arguments.emplace_back("critical", "true");
      slices.push_back(std::move(slice));
    }
    if (!by_stream[stream].empty() || stream == 0)
      tracks.push_back({.process = process, .thread = std::string(kThreads[stream])});
  }
  const auto add = [&](std::size_t track, const char* name, const char* category, Time start, double us) {
    if (us > 0)
      slices.push_back({.track = track,
                        .name = name,
                        .category = category,
                        .start = start,
                        .end = start + sim::from_us(us)});
  };
  add(compute, "update", "update", before + ran.timeline.makespan, ran.conditions.optimizer_us);
  if (ran.conditions.read_us > 0) tracks.push_back({.process = process, .thread = "input"});
  add(tracks.size() - 1, "read input", "input", Time::zero(), ran.conditions.read_us);
}

std::vector<sim::Span> waits_for_collectives(const RanStages& ran, const StageFacts& facts,
                                             std::int64_t stage) {
  const auto tasks = ran.graph.graph.tasks();
  const Time before = before_stages(ran.conditions);
  std::vector<sim::Span> out;
  Time collectives_end{};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const sim::Span& span = ran.timeline.spans[i];
    const sim::StreamId stream = tasks[i].stream;
    if (stream == JobGraph::compute(stage) && span.start > facts.without_waits[i])
      out.push_back({before + facts.without_waits[i], before + span.start});
    if (stream == JobGraph::channel(stage) || stream == JobGraph::between(stage))
      collectives_end = std::max(collectives_end, span.end);
  }
  if (collectives_end > facts.passes_end)
    out.push_back({before + facts.passes_end, before + collectives_end});
  return out;
}

}  // namespace planner
