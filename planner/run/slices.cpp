#include "planner/run/slices.hpp"

#include <fmt/format.h>

#include "planner/job/names.hpp"
#include "sim/graph_algorithms.hpp"

namespace planner {
namespace {

using core::Slice;
using Kind = TaskLabel::Kind;

class Namer {
 public:
  Namer(const Setting& setting, const CommunicationPlan& plan) : setting_(setting), plan_(plan) {}

  std::string name(const TaskLabel& label) const {
    const auto& layers = setting_.workload.profile->layers;
    switch (label.kind) {
      case Kind::read: return "read input";
      case Kind::forward: return "forward " + layers[label.item % layers.size()].name;
      case Kind::backward: {
        const std::vector<BackwardStep>& steps = setting_.workload.backward;
        return "backward " + step_name(setting_.workload, steps[label.item % steps.size()]);
      }
      case Kind::micro_batch_forward: return fmt::format("forward of micro-batch {}", label.item + 1);
      case Kind::micro_batch_backward: return fmt::format("backward of micro-batch {}", label.item + 1);
      case Kind::tick: return fmt::format("until the tick of group {}", label.item + 1);
      case Kind::encode: return group_name("encode", label.item);
      case Kind::decode: return group_name("decode", label.item);
      case Kind::all_reduce: return group_name("all-reduce", label.item);
      case Kind::reduce_scatter: return group_name("reduce-scatter", label.item);
      case Kind::all_gather:
      case Kind::forward_gather: return group_name("all-gather", group_of(label));
      case Kind::backward_gather: return group_name("all-gather before backward,", group_of(label));
      case Kind::lars: return "LARS or LAMB, this worker's share";
      case Kind::lars_gather: return "all-gather of LARS rates";
      case Kind::update: return "update";
      case Kind::group_update: return group_name("update", label.item);
    }
    return "";
  }

  /// Adds group, bytes and tensors to slices that belong to a group.
  void add_arguments(const TaskLabel& label, Slice& slice) const {
    slice.arguments.emplace_back("iteration", fmt::to_string(label.iteration + 1));
    if (label.kind == Kind::lars_gather)
      slice.arguments.emplace_back("bytes", fmt::to_string(4 * setting_.workload.forward.size()));
    const bool of_group = TaskLabel::collective(label.kind) || label.kind == Kind::encode ||
                          label.kind == Kind::decode || label.kind == Kind::group_update;
    if (!of_group) return;
    const Group& group = plan_.groups[group_of(label)];
    slice.arguments.emplace_back("group", fmt::to_string(group_of(label) + 1));
    const Transfer& transfer = plan_.transfers[group.transfer].transfer();
    if (plan_.transfers.size() > 1 || !transfer.compressor.is_none())
      slice.arguments.emplace_back("transfer",
                                   core::json_string(fmt::format("{}, {}", transfer.all_reduce.name,
                                                                 core::printable(transfer.compressor.name))));
    const Payload payload = payload_of(setting_.workload, group);
    const auto collective = TaskLabel::collective(label.kind);
    slice.arguments.emplace_back(
        "bytes", collective
                     ? fmt::format("{:.0f}", plan_.transfers[group.transfer].wire_bytes(*collective, payload))
                     : fmt::to_string(payload.bytes));
    add_tensors(setting_.workload, group, slice);
  }

 private:
  /// The group of a gather; gathers are numbered through micro-batches.
  std::uint32_t group_of(const TaskLabel& label) const {
    return label.item % static_cast<std::uint32_t>(plan_.groups.size());
  }

  std::string group_name(std::string_view what, std::uint32_t group) const {
    return fmt::format("{} group {}", what, group + 1);
  }

  const Setting& setting_;
  const CommunicationPlan& plan_;
};

/// The non-empty streams of the first workers only: viewers cannot open a trace of thousands.
std::vector<bool> shown_streams(const Lowered& lowered, const sim::Timeline& timeline) {
  constexpr std::size_t kMaxWorkers = 16;
  std::vector<bool> shown(lowered.graph.streams().size());
  const auto tasks = lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const sim::StreamId stream = tasks[i].stream;
    if (timeline.spans[i].start < timeline.spans[i].end)
      shown[sim::index(stream)] = lowered.is_shared(stream) || Lowered::worker_of(stream) < kMaxWorkers;
  }
  return shown;
}

}  // namespace

std::string_view category(Kind kind) {
  switch (kind) {
    case Kind::read: return "input";
    case Kind::forward:
    case Kind::micro_batch_forward: return "forward";
    case Kind::backward:
    case Kind::micro_batch_backward: return "backward";
    case Kind::tick: return "cycle";
    case Kind::all_reduce:
    case Kind::reduce_scatter:
    case Kind::all_gather:
    case Kind::backward_gather:
    case Kind::forward_gather:
    case Kind::lars_gather: return "communication";
    case Kind::encode:
    case Kind::decode: return "compression";
    case Kind::lars:
    case Kind::update:
    case Kind::group_update: return "update";
  }
  return "";
}

void add_tensors(const Workload& workload, const Group& group, Slice& slice) {
  slice.arguments.emplace_back("tensors", fmt::to_string(group.end - group.begin));
  slice.arguments.emplace_back("first", core::json_string(tensor_name(workload, group.begin)));
  slice.arguments.emplace_back("last", core::json_string(tensor_name(workload, group.end - 1)));
}

void add_slices(const Setting& setting, const Executable& executable, const sim::Timeline& timeline,
                const std::string& process, std::vector<core::Track>& tracks, std::vector<Slice>& slices) {
  const Lowered& lowered = executable.lowered;
  const std::vector<bool> shown = shown_streams(lowered, timeline);
  std::vector<std::size_t> track_of(shown.size());
  for (std::size_t stream = 0; stream < shown.size(); ++stream) {
    track_of[stream] = tracks.size();
    if (shown[stream]) tracks.push_back({.process = process, .thread = lowered.graph.streams()[stream]});
  }

  const Namer namer(setting, executable);
  const auto tasks = lowered.graph.tasks();
  std::vector<bool> is_critical(tasks.size());  // whether the task is on the critical path of the whole run
  for (const sim::TaskId task : sim::critical_path(lowered.graph, timeline))
    is_critical[sim::index(task)] = true;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    const sim::Span& span = timeline.spans[i];
    const std::size_t stream = sim::index(tasks[i].stream);
    if (span.start == span.end || !shown[stream]) continue;
    Slice slice = {.track = track_of[stream],
                   .name = namer.name(label),
                   .category = std::string(category(label.kind)),
                   .start = span.start,
                   .end = span.end};
    namer.add_arguments(label, slice);
    if (is_critical[i]) slice.arguments.emplace_back("critical", "true");
    slices.push_back(std::move(slice));
  }
}

}  // namespace planner
