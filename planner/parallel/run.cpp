#include "planner/parallel/run.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/parallel/parts.hpp"
#include "planner/parallel/slots.hpp"
#include "planner/parallel/slowest_replica.hpp"
#include "planner/pipeline/whole_segments.hpp"
#include "planner/run/cost_warnings.hpp"
#include "planner/schedule/choice.hpp"
#include "sim/simulate.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

void check_conditions(const Conditions& conditions) {
  const auto refuse = [](const char* expected, const char* got, const char* pointer) {
    throw core::Unsupported(fmt::format("{}, with the key parallel", expected), got, pointer);
  };
  if (conditions.jitter.any()) refuse("no jitter", "some", "/jitter");
  if (!conditions.failures.empty()) refuse("no failures", "some", "/failures");
  if (conditions.fidelity != Fidelity::closed) refuse("fidelity closed", "another", "/fidelity");
  if (conditions.lars_us > 0 || conditions.lamb_us > 0)
    refuse("optimizer_us alone", "lars_us or lamb_us", "/update");
  if (conditions.accumulation_steps > 1)
    refuse("micro_batches in parallel.stages", "accumulation_steps", "/accumulation_steps");
}

/// The conditions of a part on which groups are chosen: without what comes before and after, and with this
/// number of micro-batches in a row.
Conditions of_part(const Conditions& conditions, std::int64_t micro_batches) {
  Conditions out = conditions;
  out.stragglers.clear();
  out.accumulation_steps = micro_batches;
  out.iterations = 1;
  out.read_us = 0;
  out.waiting_us = 0;
  out.optimizer_us = 0;
  out.memory.reset();
  return out;
}

bool has_tensor_with(const core::Profile& profile, const std::string& part_of_name) {
  return std::ranges::any_of(profile.layers, [&](const core::ProfileLayer& layer) {
    return std::ranges::any_of(layer.tensors, [&](const core::ProfileTensor& tensor) {
      return tensor.name.find(part_of_name) != std::string::npos;
    });
  });
}

std::size_t stage_of(const Parallel& parallel, std::size_t part) {
  return static_cast<std::size_t>(parallel.stage_of(static_cast<std::int64_t>(part)));
}

/// The parts as the slowest replica computes them.
std::vector<core::Profile> slowed(std::vector<core::Profile> parts, const Parallel& parallel,
                                  const std::vector<double>& slowdowns) {
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (const double slowdown = slowdowns[stage_of(parallel, part)]; slowdown != 1)
      parts[part] = core::scaled(parts[part], slowdown);
  return parts;
}

/// The conditions of the slowest replica, of which all stages wait for the slowest update.
Conditions with_slowest(const Conditions& conditions, const std::vector<double>& slowdowns) {
  Conditions out = conditions;
  out.stragglers.clear();
  out.optimizer_us *= *std::ranges::max_element(slowdowns);
  return out;
}

class Runner {
 public:
  Runner(const core::Profile& profile, const core::Network& network, std::int64_t workers,
         const Algorithm& all_reduce, const Conditions& conditions, const Schedule& schedule,
         const Parallel& parallel, const std::vector<double>& slowdowns, std::int64_t chosen_for)
      : profile_(profile),
        workers_(workers),
        all_reduce_(all_reduce),
        conditions_(conditions),
        schedule_(schedule),
        parallel_(parallel),
        slowdowns_(slowdowns),
        chosen_for_(chosen_for),
        divides_(parallel.divides_backward()),
        job_(std::make_shared<DividedJob>(
            DividedJob{process_groups(parallel, network, workers),
                       slowed(parts_of(profile, parallel, conditions.recompute), parallel, slowdowns)})) {
    out_.conditions = with_slowest(conditions, slowdowns);
  }

  ParallelRun run() && {
    check();
    for (std::size_t part = 0; part < job_->profiles.size(); ++part) add_part(part);
    if (!parallel_.tied_tensors.empty()) tie_ends();
    out_.graph = lower_stages(parallel_, out_.parts, conditions_.overlap, tied_time_);
    out_.timeline = sim::simulate(out_.graph.graph);
    for (std::int64_t stage = 0; stage < parallel_.pipeline; ++stage)
      out_.stages.push_back(metrics_of(stage));
    note_memory();
    note_bubbles();
    summarize();
    return std::move(out_);
  }

 private:
  void check() const {
    check_conditions(conditions_);
    if (conditions_.memory) check_activations(profile_, parallel_.stages.micro_batches);
    if (!schedule_.compressor.is_none())
      throw core::Unsupported("no compression, with the key parallel", schedule_.compressor.name,
                              "/schedules");
    const Program program = schedule_.pipeline->program(1, schedule_.options);
    check_program(program);
    if (program.reduces_each_batch && parallel_.stages.micro_batches > 1)
      throw core::Unsupported("gradients that are reduced once, beside several micro-batches of parallel",
                              "stage 2, which reduces them in each", "/schedules");
    if (conditions_.recompute && divides_)
      throw core::Unsupported("no recompute where backward passes are divided", "some", "/recompute");
    check_experts();
    constexpr double kMaxPasses = 1e6;  // some seconds, and 500 MB
    const double passes =
        2 * static_cast<double>(parallel_.parts()) * static_cast<double>(parallel_.stages.micro_batches);
    if (passes > kMaxPasses)
      throw core::Unsupported(fmt::format("at most {:.0e} passes of micro-batches through parts", kMaxPasses),
                              fmt::format("{:.6g}", passes), "/parallel");
  }

  void check_experts() const {
    if (parallel_.expert == 1) return;
    for (const std::string& name : parallel_.expert_tensors)
      if (std::ranges::none_of(job_->profiles,
                               [&](const core::Profile& part) { return has_tensor_with(part, name); }))
        throw core::Unsupported("parts of names of tensors",
                                fmt::format("'{}', which no tensor has", core::printable(name)),
                                "/parallel/expert_tensors");
    const bool any = std::ranges::any_of(job_->profiles, [&](const core::Profile& part) {
      return !gradients_of(make_workload(part), parallel_, true).gradients.empty();
    });
    if (!any)
      throw core::Unsupported("tensors of experts, in layers of kind experts or named by expert_tensors",
                              "none", "/parallel/expert");
  }

  // ---- groups of tensors

  void add_part(std::size_t part) {
    ModelPart out = {.workload = make_workload(job_->profiles[part]), .groups = {}};
    for (const bool of_experts : {false, true}) {
      const ProcessGroup& group = of_experts ? job_->groups.expert : job_->groups.dense;
      Workload workload = gradients_of(out.workload, parallel_, of_experts);
      if (workload.gradients.empty() || group.workers == 1) continue;
      const Schedule schedule = on_stage(parallel_.stage_of(static_cast<std::int64_t>(part)));
      out.groups.push_back(choose_groups(part, group, std::move(workload), schedule));
      out.groups.back().of_experts = of_experts;
    }
    is_exact_ = is_exact_ && out.groups.size() <= 1;
    out_.parts.push_back(std::move(out));
  }

  PartGroups choose_groups(std::size_t part, const ProcessGroup& group, Workload workload,
                           const Schedule& schedule) {
    Setting setting(job_->profiles[part], group.network, group.workers, all_reduce_,
                    of_part(conditions_, chosen_for_));
    setting.workload = in_last_pass(part, workload);
    Choice choice = choose(setting, schedule);
    is_exact_ = is_exact_ && choice.proof && choice.proof->optimality_gap == Time::zero() &&
                schedule.pipeline->program(1, schedule.options).ops.size() == 1;
    for (const Group& each : choice.groups)
      if (each.tick > Time::zero())
        throw core::Unsupported("a fusion without a cycle, with the key parallel", schedule_.fusion.kind,
                                "/schedules");
    PartGroups out = {.workload = std::move(workload),
                      .groups = std::move(choice.groups),
                      .transfers = std::move(choice.transfers)};
    out.program = schedule_.pipeline->program(static_cast<std::uint32_t>(out.groups.size()),
                                              for_model(schedule_.options, out.workload));
    check_undivided(setting, out.program, out.groups);
    for (Warning& warning : choice.warnings) out_.warnings.push_back(std::move(warning));
    for (Warning& warning :
         cost_warnings(setting, {.groups = out.groups, .transfers = out.transfers, .program = out.program}))
      out_.warnings.push_back(std::move(warning));
    return out;
  }

  /// The workload as the pass computes it that yields the last gradients of the part.
  Workload in_last_pass(std::size_t part, const Workload& workload) const {
    if (!divides_) return workload;
    const auto number = static_cast<std::int64_t>(part);
    const std::vector<Slot> slots =
        slots_of(parallel_.stages, parallel_.pipeline, parallel_.stage_of(number));
    const auto last = std::find_if(slots.rbegin(), slots.rend(), [&](const Slot& slot) {
      return slot.part == number && yields_weight_gradients(slot.kind);
    });
    return last->kind == PassKind::backward ? workload
                                            : weights_alone(workload, parallel_.stages.weight_share);
  }

  bool shards_parameters() const {
    return schedule_.pipeline->program(1, schedule_.options).sharding == Sharding::parameters;
  }

  /// Where all gradients are sent at once, all-reduces are chosen as for after_backward.
  Schedule on_stage(std::int64_t stage) const {
    Schedule out = schedule_;
    if (!parallel_.sends_under_backward(stage, shards_parameters()) && out.pipeline->name == "wfbp")
      out.pipeline = &pipeline("after_backward");
    return out;
  }

  /// The first and the last stage sum the gradients of tied tensors in one all-reduce.
  void tie_ends() {
    const auto refuse = [](const char* expected) {
      throw core::Unsupported(expected, "some", "/parallel/tied_tensors");
    };
    const Program program = schedule_.pipeline->program(1, schedule_.options);
    if (program.sharding >= Sharding::gradients) refuse("no tied_tensors where gradients are sharded");
    if (std::ranges::any_of(program.ops,
                            [](const Op& op) { return op.kind == CollectiveKind::reduce_scatter; }) &&
        program.sharding == Sharding::nothing)
      refuse("no tied_tensors where gradients are summed in two halves");
    const std::size_t last = job_->profiles.size() - 1;
    Schedule at_once = preset_schedule("dense");
    at_once.all_reduce = schedule_.all_reduce;
    const bool is_exact = is_exact_;  // nothing is chosen here
    PartGroups tied =
        choose_groups(last, job_->groups.tied, tied_gradients(out_.parts[last].workload, parallel_), at_once);
    is_exact_ = is_exact;
    const Payload payload = payload_of(tied.workload, tied.groups.front());
    const TransferCost& transfer = tied.transfers[tied.groups.front().transfer];
    tied_time_ = transfer.time(CollectiveKind::all_reduce, payload);
    tied_bytes_ = transfer.sent_bytes(CollectiveKind::all_reduce, payload);
    out_.tied = std::move(tied);
  }

  // ---- metrics

  StageMetrics metrics_of(std::int64_t stage) const {
    StageMetrics out = {.stage = stage};
    Time communication{};
    Time passes_end{};
    Time end{};
    const auto tasks = out_.graph.graph.tasks();
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      const sim::StreamId stream = tasks[task].stream;
      const sim::Span& span = out_.timeline.spans[task];
      const bool is_collective = stream == JobGraph::channel(stage) || stream == JobGraph::between(stage);
      if (stream == JobGraph::compute(stage)) passes_end = std::max(passes_end, span.end);
      if (is_collective) communication += span.end - span.start;
      if (is_collective || stream == JobGraph::compute(stage)) end = std::max(end, span.end);
    }
    for (const std::int64_t part : parallel_.parts_on(stage)) {
      const ModelPart& of = out_.parts[static_cast<std::size_t>(part)];
      const std::int64_t batches = parallel_.stages.micro_batches;
      out.forward_us += sim::to_us(batches * of.workload.forward_total);
      out.backward_us += sim::to_us(batches * of.workload.backward_total);
      for (const PartGroups& groups : of.groups)
        out.groups += static_cast<std::int64_t>(groups.groups.size());
    }
    out.communication_us = sim::to_us(communication);
    out.passes_end_us = sim::to_us(passes_end);
    out.end_us = sim::to_us(end);
    return out;
  }

  void note_memory() {
    if (!conditions_.memory) return;
    const RanStages ran = ran_stages(out_, parallel_);
    for (StageMetrics& stage : out_.stages) stage.memory = stage_memory(ran, stage.stage).peak;
  }

  /// The same stages without collectives.
  void note_bubbles() {
    std::vector<ModelPart> alone = out_.parts;
    for (ModelPart& part : alone) part.groups.clear();
    const sim::Timeline timeline = sim::simulate(lower_stages(parallel_, alone, {}).graph);
    alone_us_ = sim::to_us(timeline.makespan);
    for (StageMetrics& stage : out_.stages)
      stage.bubble_us = std::max(0.0, alone_us_ - stage.forward_us - stage.backward_us);
  }

  void summarize() {
    const auto slowest =
        std::ranges::max_element(out_.stages, [](const StageMetrics& a, const StageMetrics& b) {
          return a.forward_us + a.backward_us < b.forward_us + b.backward_us;
        });
    const double read_us = conditions_.read_is_overlapped ? 0 : conditions_.read_us;
    Metrics& out = out_.metrics;
    out.workers = workers_;
    for (const StageMetrics& stage : out_.stages) {
      out.groups += stage.groups;
      out.communication_us = std::max(out.communication_us, stage.communication_us);
    }
    out.forward_us = slowest->forward_us;
    out.backward_us = slowest->backward_us;
    out.update_us = out_.conditions.optimizer_us;
    out.read_us = read_us + conditions_.waiting_us;
    const double stages_us = sim::to_us(out_.timeline.makespan);
    out.exposed_communication_us = std::max(0.0, stages_us - alone_us_);
    out.iteration_us = iteration_us(out_.timeline.makespan, out_.conditions);
    out.bytes_sent_per_worker = sent_per_worker();
    note_speed();
    // several parts that overlap share a channel, and a slower pass delays other stages
    bool is_alone = true;
    for (std::int64_t stage = 0; stage < parallel_.pipeline; ++stage)
      is_alone = is_alone && (parallel_.stages.virtual_stages == 1 ||
                              !parallel_.sends_under_backward(stage, shards_parameters()));
    out_.is_exact = is_exact_ && is_alone && !conditions_.overlap.slows();
    out_.job = job_;
  }

  /// Mean over the stages.
  double sent_per_worker() const {
    double sent = 2 * tied_bytes_;
    const auto sent_bytes = [](const PartGroups& groups, std::size_t group, CollectiveKind kind) {
      const Group& of = groups.groups[group];
      return groups.transfers[of.transfer].sent_bytes(kind, payload_of(groups.workload, of));
    };
    for (const ModelPart& part : out_.parts)
      for (const PartGroups& groups : part.groups)
        for (const Op& op : groups.program.ops)
          if (op.kind != CollectiveKind::all_gather) sent += sent_bytes(groups, op.group, op.kind);
    for (const StageTask& task : out_.graph.tasks)
      if (task.kind == StageTask::Kind::gather)
        sent += sent_bytes(out_.parts[static_cast<std::size_t>(task.part)]
                               .groups[static_cast<std::size_t>(task.process_group)],
                           static_cast<std::size_t>(task.item), CollectiveKind::all_gather);
    return sent / static_cast<double>(parallel_.pipeline);
  }

  /// Against one tensor group without stragglers that runs all parts, as often as there are workers in it.
  void note_speed() {
    Metrics& out = out_.metrics;
    const auto batches = static_cast<double>(parallel_.stages.micro_batches);
    const auto data = static_cast<double>(workers_ / parallel_.tensor / parallel_.pipeline);
    double alone_us = 0;
    for (std::size_t part = 0; part < out_.parts.size(); ++part) {
      const Workload& workload = out_.parts[part].workload;
      alone_us += batches * sim::to_us(workload.forward_total + workload.backward_total) /
                  slowdowns_[stage_of(parallel_, part)];
    }
    alone_us += (conditions_.read_is_overlapped ? 0 : conditions_.read_us) + conditions_.optimizer_us;
    if (conditions_.read_is_overlapped) alone_us = std::max(alone_us, conditions_.read_us);
    constexpr double kUsPerSecond = 1e6;
    out.throughput_samples_per_s =
        static_cast<double>(profile_.batch_size) * batches * data / out.iteration_us * kUsPerSecond;
    out.speedup = static_cast<double>(parallel_.tensor) * data * alone_us / out.iteration_us;
    out.scaling_efficiency = out.speedup / static_cast<double>(workers_);
  }

  const core::Profile& profile_;
  std::int64_t workers_;
  const Algorithm& all_reduce_;
  const Conditions& conditions_;
  const Schedule& schedule_;
  const Parallel& parallel_;
  const std::vector<double>& slowdowns_;  ///< by stage
  std::int64_t chosen_for_;               ///< number of micro-batches in a row
  bool divides_;                          ///< whether some backward passes are divided
  std::shared_ptr<const DividedJob> job_;
  bool is_exact_ = true;
  double alone_us_ = 0;
  std::optional<Time> tied_time_;
  double tied_bytes_ = 0;
  ParallelRun out_;
};

}  // namespace

double iteration_us(Time stages, const Conditions& conditions) {
  const double read_us = conditions.read_is_overlapped ? 0 : conditions.read_us;
  const double around_us = read_us + conditions.waiting_us + conditions.optimizer_us;
  const double out = sim::to_us(stages) + around_us;
  return conditions.read_is_overlapped ? std::max(out, conditions.read_us) : out;
}

RanStages ran_stages(const ParallelRun& run, const Parallel& parallel) {
  return {.parallel = parallel,
          .conditions = run.conditions,
          .parts = run.parts,
          .tied = run.tied,
          .graph = run.graph,
          .timeline = run.timeline};
}

ParallelRun run_parallel(const core::Profile& profile, const core::Network& network, std::int64_t workers,
                         const Algorithm& all_reduce, const Conditions& given, const Schedule& schedule,
                         const Parallel& parallel) {
  return within_clock([&] {
    check_workers(parallel, workers);
    Conditions conditions = on_workers(given, workers);
    conditions.worker_spread = 0;  // all replicas are in the list, and a part has fewer workers
    const std::vector<double> slowdowns = slowest_replica(parallel, workers, conditions.stragglers);
    const auto chosen_for = [&](std::int64_t micro_batches) {
      return Runner(profile, network, workers, all_reduce, conditions, schedule, parallel, slowdowns,
                    micro_batches)
          .run();
    };
    ParallelRun out = chosen_for(1);
    // Passes of a stage are neither alone nor in a row; the better choice is kept. A few tell what many do.
    constexpr std::int64_t kMaxInRow = 4;
    const std::int64_t in_row = std::min(parallel.stages.micro_batches, kMaxInRow);
    const bool chooses_for_passes =
        schedule.fusion.kind == "optimal" && schedule.pipeline->program(1, schedule.options).has_passes();
    if (in_row == 1 || !chooses_for_passes) return out;
    try {
      ParallelRun other = chosen_for(in_row);
      if (other.metrics.iteration_us < out.metrics.iteration_us) return other;
    } catch (const core::Unsupported&) {  // more than the clock holds
    }
    return out;
  });
}

}  // namespace planner
