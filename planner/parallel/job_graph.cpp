#include "planner/parallel/job_graph.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/graph/copied_out.hpp"
#include "planner/graph/groups_by_layer.hpp"
#include "planner/parallel/parts.hpp"
#include "planner/parallel/slots.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::TaskId;
using sim::Time;
using Kind = StageTask::Kind;

bool is_forward(const Slot& slot) { return slot.kind == PassKind::forward; }

Kind task_kind(PassKind kind) {
  switch (kind) {
    case PassKind::forward: return Kind::forward;
    case PassKind::backward: return Kind::backward;
    case PassKind::input_gradients: return Kind::input_gradients;
    case PassKind::weight_gradients: return Kind::weight_gradients;
  }
  return Kind::forward;
}

bool gathers(const Op& op) { return op.kind == CollectiveKind::all_gather; }
bool reduces(const Op& op) { return op.issue == Issue::gradients || op.issue == Issue::backward_end; }

std::uint32_t last_step(const PartGroups& groups, const Op& op) {
  return groups.workload.gradients[groups.groups[op.group].end - 1].backward_step;
}

/// The collectives of a process group by when they are issued.
struct IssuedOps {
  std::vector<const Op*> gathers;  ///< those for a pass, in the order in which forward uses their groups
  std::size_t gathers_seen = 0;    ///< how many of them this pass has come to
  std::vector<std::vector<const Op*>> by_step;  ///< by the step of backward that yields the last gradient
  std::vector<const Op*> at_end;                ///< of backward
  std::vector<std::vector<const Op*>> between;  ///< shard groups, by group of tensors

  explicit IssuedOps(const PartGroups& groups)
      : by_step(groups.workload.backward.size()), between(groups.groups.size()) {
    for (const Op& op : groups.program.ops) {
      if (op.issue == Issue::forward) gathers.push_back(&op);
      if (op.issue == Issue::gradients) by_step[last_step(groups, op)].push_back(&op);
      if (op.issue == Issue::backward_end) at_end.push_back(&op);
      if (op.issue == Issue::scattered) between[op.group].push_back(&op);
    }
    std::ranges::stable_sort(gathers, std::greater{}, [](const Op* op) { return op->group; });
  }
};

/// The first and the last task of a pass.
struct Pass {
  TaskId first{};
  TaskId last{};
};

/// Tasks of one stage, written in the order in which it runs them.
class StageWriter {
 public:
  StageWriter(const Parallel& parallel, const std::vector<ModelPart>& parts, std::int64_t stage,
              sim::TaskGraphBuilder& builder, std::vector<StageTask>& tasks)
      : parallel_(parallel),
        parts_(parts),
        stage_(stage),
        builder_(builder),
        tasks_(tasks),
        own_parts_(parallel.parts_on(stage)),
        issued_(parts.size()),
        gathered_(parts.size()),
        begun_(parts.size()),
        copied_out_(parts.size()) {
    for (const std::int64_t part : own_parts_)
      for (const PartGroups& groups : parts[static_cast<std::size_t>(part)].groups)
        issued_[static_cast<std::size_t>(part)].emplace_back(groups);
  }

  /// Adds the stage's tasks, and notes each pass of a micro-batch through a part. Returns the last tasks.
  template <typename Note>
  std::vector<TaskId> run(const Note& note) {
    gather_at_once();
    const std::vector<Slot> slots = slots_of(parallel_.stages, parallel_.pipeline, stage_);
    const std::vector<std::size_t> last_yields = find_last_yields(slots);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots[i];
      first_of_pass_.reset();
      is_last_ = last_yields[static_cast<std::size_t>(slot.part)] == i;
      if (is_forward(slot))
        forward(slot);
      else
        backward(slot);
      begun_[static_cast<std::size_t>(slot.part)] = true;
      note(slot, Pass{.first = *first_of_pass_, .last = *last_});
    }
    while (!waiting_.empty()) send_next_part();
    std::vector<TaskId> out;
    for (const std::optional<TaskId>& each : {last_, last_on_channel_, last_between_})
      if (each) out.push_back(*each);
    return out;
  }

 private:
  const ModelPart& part_of(const Slot& slot) const { return parts_[static_cast<std::size_t>(slot.part)]; }

  /// By part: the pass that yields its last gradients.
  std::vector<std::size_t> find_last_yields(const std::vector<Slot>& slots) const {
    std::vector<std::size_t> out(parts_.size());
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (yields_weight_gradients(slots[i].kind)) out[static_cast<std::size_t>(slots[i].part)] = i;
    return out;
  }

  StageTask task_of(const Slot& slot, std::int64_t item = StageTask::kWholePass) const {
    return {.kind = task_kind(slot.kind),
            .part = slot.part,
            .micro_batch = slot.micro_batch,
            .item = item,
            .is_last = is_last_};
  }

  TaskId add(const StageTask& task, sim::StreamId stream, Time duration) {
    tasks_.push_back(task);
    return builder_.add_task({.duration = duration, .stream = stream, .priority = 0, .label = 0});
  }

  TaskId compute(const StageTask& task, Time duration) {
    const TaskId id = add(task, JobGraph::compute(stage_), duration);
    if (last_) builder_.add_dependency(*last_, id);
    if (!last_ && all_gathered_) builder_.add_dependency(*all_gathered_, id);
    for (const TaskId earlier : std::exchange(next_waits_for_, {})) builder_.add_dependency(earlier, id);
    if (!first_of_pass_) first_of_pass_ = id;
    last_ = id;
    return id;
  }

  /// A collective runs after those before it on the same stream.
  TaskId collective(const StageTask& task, bool is_between, Time duration) {
    std::optional<TaskId>& before = is_between ? last_between_ : last_on_channel_;
    const TaskId id = add(task, is_between ? JobGraph::between(stage_) : JobGraph::channel(stage_), duration);
    if (before) builder_.add_dependency(*before, id);
    before = id;
    return id;
  }

  static Time time_of(const PartGroups& groups, const Op& op) {
    const Group& group = groups.groups[op.group];
    return groups.transfers[group.transfer].time(op.kind, payload_of(groups.workload, group));
  }

  // ---- gathers

  /// Gathers that follow an update are queued at once, part by part in the order of the first forward passes.
  /// Either each layer waits for its own, or the first pass for all.
  void gather_at_once() {
    for (const std::int64_t part : own_parts_)
      for (std::size_t group = 0; group < parts_[static_cast<std::size_t>(part)].groups.size(); ++group) {
        const PartGroups& groups = parts_[static_cast<std::size_t>(part)].groups[group];
        auto& gathered = gathered_[static_cast<std::size_t>(part)].emplace_back(groups.groups.size());
        for (const Op& op : groups.program.ops)
          if (gathers(op) && op.issue != Issue::forward && op.issue != Issue::backward)
            gathered[op.group] =
                gather({.part = part, .process_group = static_cast<std::int64_t>(group)}, op);
        for (const Op& op : groups.program.ops)
          if (gathers(op) && op.delivers == Delivers::next_iteration) all_gathered_ = last_on_channel_;
      }
  }

  TaskId gather(StageTask task, const Op& op) {
    const PartGroups& groups =
        parts_[static_cast<std::size_t>(task.part)].groups[static_cast<std::size_t>(task.process_group)];
    task.kind = Kind::gather;
    task.item = op.group;
    task.collective = op.kind;
    return collective(task, false, time_of(groups, op));
  }

  /// Gathers for a pass are issued as compute comes to their groups, a number of groups ahead, unless the
  /// parameters are there.
  void gather_until(const Slot& slot, std::size_t process_group, std::uint32_t reached) {
    const PartGroups& groups = part_of(slot).groups[process_group];
    auto& gathered = gathered_[static_cast<std::size_t>(slot.part)][process_group];
    const auto count = static_cast<std::uint32_t>(groups.groups.size());
    const bool is_early = gathers_early(groups.program, is_forward(slot));
    std::uint32_t ahead = std::min(count, ahead_of(groups.program, is_forward(slot)).value_or(count));
    // FSDP2 issues further gathers when compute has come to the first group
    if (is_early && reached == 0) ahead = 1;
    IssuedOps& issued = issued_[static_cast<std::size_t>(slot.part)][process_group];
    for (; issued.gathers_seen < issued.gathers.size(); ++issued.gathers_seen) {
      const Op& op = *issued.gathers[issued.gathers_seen];
      if (count - 1 - op.group >= reached + ahead) break;
      // backward uses the groups in the opposite order
      const std::uint32_t group = is_forward(slot) ? op.group : count - 1 - op.group;
      if (gathered[group]) continue;
      Op of_group = op;
      of_group.group = group;
      const TaskId id =
          gather({.part = slot.part, .process_group = static_cast<std::int64_t>(process_group)}, of_group);
      const std::optional<TaskId> after =
          is_early ? copied_out_[static_cast<std::size_t>(slot.part)].awaited(is_forward(slot)) : last_;
      if (after) builder_.add_dependency(*after, id);
      gathered[group] = id;
    }
  }

  static std::optional<std::uint32_t> ahead_of(const Program& program, bool in_forward) {
    return !in_forward && program.backward_prefetch ? program.backward_prefetch : program.prefetch;
  }

  static bool gathers_early(const Program& program, bool in_forward) {
    return program.gathers_early && ahead_of(program, in_forward) != 0U;
  }

  bool has_gathers(const Slot& slot) const {
    return std::any_of(
        part_of(slot).groups.begin(), part_of(slot).groups.end(),
        [](const PartGroups& groups) { return std::ranges::any_of(groups.program.ops, gathers); });
  }

  /// Whether a pass may have to gather, for which it is written layer by layer. Weight gradients need no
  /// parameters.
  bool may_gather(const Slot& slot) const {
    if (slot.kind == PassKind::weight_gradients) return false;
    if (!begun_[static_cast<std::size_t>(slot.part)]) return has_gathers(slot);
    return std::any_of(
        part_of(slot).groups.begin(), part_of(slot).groups.end(), [&](const PartGroups& groups) {
          const std::vector<bool> released = released_after_forward(groups.program, groups.groups.size());
          const bool any = std::ranges::find(released, true) != released.end();
          const bool gathers_for_passes = std::ranges::any_of(
              groups.program.ops, [](const Op& op) { return op.issue == Issue::forward; });
          return any || (is_forward(slot) && gathers_for_passes &&
                         releases_after_backward(parallel_, groups.program));
        });
  }

  void release_after(const Slot& slot) {
    for (std::size_t of = 0; of < part_of(slot).groups.size(); ++of) {
      const PartGroups& groups = part_of(slot).groups[of];
      auto& gathered = gathered_[static_cast<std::size_t>(slot.part)][of];
      if (!is_forward(slot) && !releases_after_backward(parallel_, groups.program)) continue;
      const std::vector<bool> released = released_after_forward(groups.program, groups.groups.size());
      for (const Op& op : groups.program.ops)
        if (op.issue == Issue::forward && (!is_forward(slot) || released[op.group]))
          gathered[op.group].reset();
    }
  }

  // ---- passes

  void forward(const Slot& slot) {
    const Workload& workload = part_of(slot).workload;
    copied_out_[static_cast<std::size_t>(slot.part)].begin_forward(last_);
    if (!may_gather(slot)) {
      compute(task_of(slot), workload.forward_total);
      return;
    }
    const Arrivals by_first_layer = begin_gathers(slot, groups_by_first_layer);
    std::vector<std::uint32_t> reached(by_first_layer.size());
    for (std::uint32_t layer = 0; layer < workload.forward.size(); ++layer) {
      const std::vector<TaskId> awaited = come_to(slot, by_first_layer, layer, reached);
      const TaskId id = compute(task_of(slot, layer), workload.forward[layer]);
      for (const TaskId earlier : awaited) builder_.add_dependency(earlier, id);
    }
    release_after(slot);
  }

  /// By process group and layer or backward step: the groups that are used from there on.
  using Arrivals = std::vector<std::vector<std::vector<std::uint32_t>>>;

  template <typename By>
  Arrivals begin_gathers(const Slot& slot, const By& groups_by) {
    Arrivals out;
    gathers_from_ = tasks_.size();
    for (std::size_t of = 0; of < part_of(slot).groups.size(); ++of) {
      const PartGroups& groups = part_of(slot).groups[of];
      out.push_back(groups_by(groups.workload, groups.groups, groups.program.sharding));
      issued_[static_cast<std::size_t>(slot.part)][of].gathers_seen = 0;
      gather_until(slot, of, 0);
    }
    return out;
  }

  /// Gathers as far ahead as this layer or step allows; returns what it waits for.
  std::vector<TaskId> come_to(const Slot& slot, const Arrivals& arrivals, std::uint32_t at,
                              std::vector<std::uint32_t>& reached) {
    std::vector<TaskId> awaited;
    for (std::size_t of = 0; of < reached.size(); ++of)
      for (const std::uint32_t group : arrivals[of][at]) {
        const auto& gathered = gathered_[static_cast<std::size_t>(slot.part)][of][group];
        if (gathered && sim::index(*gathered) >= gathers_from_)
          copied_out_[static_cast<std::size_t>(slot.part)].add(last_);
        gather_until(slot, of, ++reached[of]);
        if (gathered) awaited.push_back(*gathered);
      }
    return awaited;
  }

  void backward(const Slot& slot) {
    const bool is_sharded = shards_parameters(slot);
    const bool sends =
        is_last_ && !part_of(slot).groups.empty() && parallel_.sends_under_backward(stage_, is_sharded);
    if (sends || may_gather(slot))
      backward_by_step(slot, sends);
    else
      compute(task_of(slot), backward_time(part_of(slot).workload, slot.kind, parallel_.stages.weight_share));
    if (yields_weight_gradients(slot.kind)) release_after(slot);
    for (Waiting& part : waiting_) --part.passes;
    if (sends)
      send_ready(
          slot.part, [](const IssuedOps& issued) -> auto& { return issued.at_end; });
    else if (is_last_)
      waiting_.push_back({.part = slot.part, .passes = passes_of_delay(is_sharded)});
    while (!waiting_.empty() && waiting_.front().passes <= 0) send_next_part();
    if (is_last_ && parallel_.overlap(is_sharded) == StageOverlap::none)
      for (const std::optional<TaskId>& sent : {last_on_channel_, last_between_})
        if (sent) next_waits_for_.push_back(*sent);
  }

  bool shards_parameters(const Slot& slot) const {
    return std::ranges::any_of(part_of(slot).groups, [](const PartGroups& groups) {
      return groups.program.sharding == Sharding::parameters;
    });
  }

  void backward_by_step(const Slot& slot, bool sends) {
    const Workload& workload = part_of(slot).workload;
    const bool gathers_again = may_gather(slot);
    const Arrivals by_first_step = gathers_again ? begin_gathers(slot, groups_by_first_step) : Arrivals{};
    std::vector<std::uint32_t> reached(by_first_step.size());
    for (std::uint32_t step = 0; step < workload.backward.size(); ++step) {
      const std::vector<TaskId> awaited = come_to(slot, by_first_step, step, reached);
      const TaskId id = compute(task_of(slot, step), step_time(workload, workload.backward[step], slot.kind,
                                                               parallel_.stages.weight_share));
      for (const TaskId earlier : awaited) builder_.add_dependency(earlier, id);
      if (sends)
        send_ready(
            slot.part, [step](const IssuedOps& issued) -> auto& { return issued.by_step[step]; });
    }
  }

  /// Later stages wait, so that all stages send the same part at once.
  std::int64_t passes_of_delay(bool is_sharded) const {
    const bool delays = parallel_.stages.order == StageOrder::interleaved &&
                        parallel_.overlap(is_sharded) == StageOverlap::first_stage;
    return delays ? stage_ : 0;
  }

  // ---- gradients

  /// Process groups share a channel, and send in the order in which groups are complete.
  template <typename Which>
  void send_ready(std::int64_t part, const Which& which) {
    const std::vector<IssuedOps>& issued = issued_[static_cast<std::size_t>(part)];
    for (std::size_t process_group = 0; process_group < issued.size(); ++process_group)
      for (const Op* op : which(issued[process_group])) send(part, process_group, *op);
  }

  /// Sends all gradients of the part that has waited longest, in the order in which they were ready.
  void send_next_part() {
    const std::int64_t part = waiting_.front().part;
    waiting_.erase(waiting_.begin());
    const ModelPart& of = parts_[static_cast<std::size_t>(part)];
    std::vector<std::tuple<std::uint32_t, std::size_t, const Op*>> ops;
    for (std::size_t process_group = 0; process_group < of.groups.size(); ++process_group)
      for (const Op& op : of.groups[process_group].program.ops)
        if (reduces(op)) ops.emplace_back(last_step(of.groups[process_group], op), process_group, &op);
    std::ranges::stable_sort(ops, [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    for (const auto& [step, process_group, op] : ops) send(part, process_group, *op);
  }

  void send(std::int64_t part, std::size_t process_group, const Op& op) {
    const PartGroups& groups = parts_[static_cast<std::size_t>(part)].groups[process_group];
    StageTask task = {.kind = Kind::reduce,
                      .part = part,
                      .item = op.group,
                      .process_group = static_cast<std::int64_t>(process_group),
                      .collective = op.kind};
    const TaskId id = collective(task, false, time_of(groups, op));
    builder_.add_dependency(*last_, id);
    if (groups.program.scatters_in_flight) {
      scattering_.push_back(id);
      if (scattering_.size() > *groups.program.scatters_in_flight) {
        next_waits_for_.push_back(scattering_.front());
        scattering_.pop_front();
      }
    }
    if (!groups.transfers[groups.groups[op.group].transfer].is_replicated()) return;
    task.kind = Kind::sum;
    for (const Op* other : issued_[static_cast<std::size_t>(part)][process_group].between[op.group]) {
      task.collective = other->kind;
      builder_.add_dependency(id, collective(task, true, time_of(groups, *other)));
    }
  }

  /// A part whose gradients are sent after so many further backward passes of its stage.
  struct Waiting {
    std::int64_t part = 0;
    std::int64_t passes = 0;
  };

  const Parallel& parallel_;
  const std::vector<ModelPart>& parts_;
  std::int64_t stage_;
  sim::TaskGraphBuilder& builder_;
  std::vector<StageTask>& tasks_;
  std::vector<std::int64_t> own_parts_;
  bool is_last_ = false;        // whether this pass yields the last gradients of its part
  std::optional<TaskId> last_;  // compute task
  std::optional<TaskId> first_of_pass_;
  std::optional<TaskId> last_on_channel_;
  std::optional<TaskId> last_between_;
  std::optional<TaskId> all_gathered_;
  std::vector<Waiting> waiting_;
  std::deque<TaskId> scattering_;               // reduce-scatters that compute has not waited for
  std::vector<TaskId> next_waits_for_;          // the next compute task does
  std::vector<std::vector<IssuedOps>> issued_;  // by part of the stage and process group
  std::vector<std::vector<std::vector<std::optional<TaskId>>>> gathered_;  // by part, process group and group
  std::vector<bool> begun_;                                                // by part
  std::vector<CopiedOut> copied_out_;  // by part: FSDP2's streams serve all process groups of a model
  std::size_t gathers_from_ = 0;       // the first task that a gather of this pass may be
};

class JobWriter {
 public:
  JobWriter(const Parallel& parallel, const std::vector<ModelPart>& parts, const Overlap& overlap,
            std::optional<Time> tied)
      : parallel_(parallel), p2p_(sim::from_us(parallel.stages.p2p_us)) {
    for (std::int64_t stage = 0; stage < parallel.pipeline; ++stage) add_streams(stage, overlap);
    const std::int64_t last = parallel.pipeline - 1;
    std::vector<TaskId> before_tie;
    for (std::int64_t stage = 0; stage <= last; ++stage) {
      const std::vector<TaskId> ends =
          StageWriter(parallel, parts, stage, builder_, tasks_).run([&](const Slot& slot, const Pass& pass) {
            if (slot.kind != PassKind::weight_gradients)
              passes_[{is_forward(slot), slot.part, slot.micro_batch}] = pass;
          });
      if (stage == 0 || stage == last) before_tie.insert(before_tie.end(), ends.begin(), ends.end());
    }
    if (tied) {
      tie(0, 0, before_tie, *tied);
      tie(last, parallel.parts() - 1, before_tie, *tied);
    }
    for (const auto& [which, pass] : passes_) {
      const auto& [goes_forward, part, micro_batch] = which;
      const std::int64_t from = goes_forward ? part - 1 : part + 1;
      if (from < 0 || from >= parallel.parts()) continue;
      send({.kind = Kind::message, .part = part, .micro_batch = micro_batch, .item = goes_forward ? 1 : 0},
           passes_.at({goes_forward, from, micro_batch}).last, pass.first, parallel.stage_of(from));
    }
  }

  JobGraph finish() && { return {.graph = std::move(builder_).build(), .tasks = std::move(tasks_)}; }

 private:
  void add_streams(std::int64_t stage, const Overlap& overlap) {
    for (const char* what : {"compute", "communication", "communication between shard groups",
                             "messages forward", "messages backward"})
      builder_.add_stream(fmt::format("{} of stage {}", what, stage));
    const std::vector<sim::StreamId> channels = {JobGraph::channel(stage), JobGraph::between(stage)};
    if (overlap.compute_slowdown > 0)
      builder_.slow_down(JobGraph::compute(stage), channels, 1 + overlap.compute_slowdown);
    if (overlap.communication_slowdown > 0)
      for (const sim::StreamId channel : channels)
        builder_.slow_down(channel, {JobGraph::compute(stage)}, 1 + overlap.communication_slowdown);
  }

  void tie(std::int64_t stage, std::int64_t part, const std::vector<TaskId>& before, Time duration) {
    tasks_.push_back({.kind = Kind::tie, .part = part});
    const TaskId id = builder_.add_task(
        {.duration = duration, .stream = JobGraph::channel(stage), .priority = 0, .label = 0});
    for (const TaskId each : before) builder_.add_dependency(each, id);
  }

  /// Sends what the pass `from` of this stage yields to the pass `to`.
  void send(const StageTask& task, TaskId from, TaskId to, std::int64_t stage) {
    if (p2p_ == Time::zero() || parallel_.stage_of(task.part) == stage) {
      builder_.add_dependency(from, to);
      return;
    }
    tasks_.push_back(task);
    const TaskId message = builder_.add_task(
        {.duration = p2p_, .stream = JobGraph::messages(stage, task.item == 1), .priority = 0, .label = 0});
    builder_.add_dependency(from, message);
    builder_.add_dependency(message, to);
  }

  const Parallel& parallel_;
  Time p2p_;
  sim::TaskGraphBuilder builder_;
  std::vector<StageTask> tasks_;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, Pass> passes_;  // forward?, part, micro-batch
};

}  // namespace

void check_program(const Program& program) {
  if (program.by_layer || program.one_in_flight)
    throw core::Unsupported("a pipeline whose channel runs in order, with the key parallel",
                            "one that goes by layer", "/schedules");
  const auto any = [&](Issue issue) {
    return std::ranges::any_of(program.ops, [&](const Op& op) { return op.issue == issue; });
  };
  if (program.prefetch && any(Issue::drained))
    throw core::Unsupported("no prefetch of gathers that follow the update, with the key parallel",
                            fmt::to_string(*program.prefetch), "/schedules");
}

std::vector<bool> released_after_forward(const Program& program, std::size_t groups) {
  std::vector<bool> out(groups);
  for (const Op& op : program.ops)
    if (op.issue == Issue::backward) out[op.group] = true;
  return out;
}

JobGraph lower_stages(const Parallel& parallel, const std::vector<ModelPart>& parts, const Overlap& overlap,
                      std::optional<Time> tied) {
  for (const ModelPart& part : parts)
    for (const PartGroups& groups : part.groups) check_program(groups.program);
  return JobWriter(parallel, parts, overlap, tied).finish();
}

}  // namespace planner
