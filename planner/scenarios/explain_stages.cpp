#include "planner/scenarios/explain_stages.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/job/names.hpp"
#include "planner/parallel/stage_slices.hpp"
#include "planner/scenarios/divided_run.hpp"
#include "sim/simulate.hpp"

namespace scenarios {
namespace {

using planner::JobGraph;
using planner::ParallelRun;
using planner::PartGroups;
using planner::Schedule;
using planner::StageTask;
using planner::WhatIf;
using sim::Span;
using sim::Time;
using Kind = StageTask::Kind;

/// Called before a step, which it names.
using OnStep = std::function<void(const std::string& what)>;

bool is_of(const StageTask& task, std::int64_t part, std::size_t process_group, std::size_t group) {
  return planner::is_collective(task.kind) && task.kind != Kind::tie && task.part == part &&
         task.process_group == static_cast<std::int64_t>(process_group) &&
         task.item == static_cast<std::int64_t>(group);
}

class Explainer {
 public:
  Explainer(const Scenario& scenario, const Schedule& schedule, const ParallelRun& run, OnStep on_step,
            bool combines)
      : scenario_(scenario),
        schedule_(schedule),
        run_(run),
        on_step_(std::move(on_step)),
        combines_(combines),
        ran_(planner::ran_stages(run, *scenario.parallel)),
        facts_(planner::stage_facts(ran_)),
        before_(planner::before_stages(run.conditions)),
        planned_(groups_by_part(run)) {}

  StageExplanation explain() && {
    out_.iteration_us = run_.metrics.iteration_us;
    out_.tries_other_groups = tasks_of_other_groups() <= kMaxTasksOfOtherGroups;
    out_.without_collectives_us = iteration_without(
        [](const StageTask& task, sim::StreamId) { return planner::is_collective(task.kind); });
    if (run_.tied)
      out_.tied_saves_us = out_.iteration_us - iteration_without([](const StageTask& task, sim::StreamId) {
                             return task.kind == Kind::tie;
                           });
    for (std::int64_t stage = 0; stage < scenario_.parallel->pipeline; ++stage) add_stage(stage);
    for (std::size_t part = 0; part < run_.parts.size(); ++part)
      for (std::size_t of = 0; of < run_.parts[part].groups.size(); ++of) add_groups(part, of);
    add_what_ifs();
    if (combines_) add_combined();
    return std::move(out_);
  }

 private:
  // ---- collectives that take no time

  /// The iteration if the collectives of which `is_free(task, stream)` is true take no time.
  template <typename IsFree>
  double iteration_without(const IsFree& is_free) const {
    const auto tasks = run_.graph.graph.tasks();
    std::vector<bool> free(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) free[i] = is_free(run_.graph.tasks[i], tasks[i].stream);
    return planner::iteration_us(sim::simulate(run_.graph.graph.with_free(free)).makespan, run_.conditions);
  }

  void add_stage(std::int64_t stage) {
    const planner::StageMetrics& metrics = run_.stages[static_cast<std::size_t>(stage)];
    waits_.push_back(planner::waits_for_collectives(ran_, facts_, stage));
    StageReason reason = {
        .stage = stage, .bubble_us = metrics.bubble_us, .communication_us = metrics.communication_us};
    for (const Span& wait : waits_.back()) reason.exposed_us += sim::to_us(wait.end - wait.start);
    reason.saves_us = out_.iteration_us - iteration_without([&](const StageTask&, sim::StreamId stream) {
                        return stream == JobGraph::channel(stage) || stream == JobGraph::between(stage);
                      });
    out_.stages.push_back(reason);
  }

  // ---- groups

  /// The tasks of all runs with two groups merged or one split.
  double tasks_of_other_groups() const {
    double runs = 0;
    for (const planner::ModelPart& part : run_.parts)
      for (const PartGroups& groups : part.groups) runs += groups.workload.gradient_count();
    return runs * static_cast<double>(run_.graph.tasks.size());
  }

  void add_groups(std::size_t part, std::size_t process_group) {
    const PartGroups& groups = run_.parts[part].groups[process_group];
    const std::int64_t stage = scenario_.parallel->stage_of(static_cast<std::int64_t>(part));
    for (std::size_t number = 0; number < groups.groups.size(); ++number) {
      on_step_(fmt::format("stage {}, group {}", stage, number + 1));
      const planner::Group& group = groups.groups[number];
      StageGroupReason added = {
          .stage = stage,
          .of_experts = groups.of_experts,
          .number = number,
          .reason = {.first_tensor = planner::tensor_name(groups.workload, group.begin),
                     .last_tensor = planner::tensor_name(groups.workload, group.end - 1),
                     .bytes = planner::bytes_of(groups.workload, group)}};
      if (scenario_.parallel->stages.virtual_stages > 1) added.part = static_cast<std::int64_t>(part);
      observe(part, process_group, added);
      const auto is_free = [&](const StageTask& task, sim::StreamId) {
        return is_of(task, static_cast<std::int64_t>(part), process_group, number);
      };
      added.saves_us = out_.iteration_us - iteration_without(is_free);
      if (out_.tries_other_groups)
        planner::add_boundary_costs(
            groups.workload, groups.groups, number, out_.iteration_us,
            [&](const planner::Groups& other) { return iteration_with(groups, other); }, added.reason);
      out_.groups.push_back(std::move(added));
    }
  }

  /// When the gradients of the group are ready, and when its collectives run.
  void observe(std::size_t part, std::size_t process_group, StageGroupReason& added) const {
    const PartGroups& groups = run_.parts[part].groups[process_group];
    const std::uint32_t last_step =
        groups.workload.gradients[groups.groups[added.number].end - 1].backward_step;
    const auto tasks = run_.graph.graph.tasks();
    Time ready{};
    Time channel_free{};
    bool is_sent = false;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const StageTask& task = run_.graph.tasks[i];
      const Span span = {run_.timeline.spans[i].start + before_, run_.timeline.spans[i].end + before_};
      const bool is_last_pass = task.is_last && task.part == static_cast<std::int64_t>(part);
      if (is_last_pass && (task.item == StageTask::kWholePass || task.item == last_step)) ready = span.end;
      const bool is_of_group = is_of(task, static_cast<std::int64_t>(part), process_group, added.number);
      if (is_of_group)
        added.reason.exposed_us +=
            sim::to_us(planner::overlap(span, waits_[static_cast<std::size_t>(added.stage)]));
      if (is_of_group && task.kind == Kind::reduce && !is_sent) {
        is_sent = true;
        added.reason.sendable_us = sim::to_us(ready);
        added.reason.start_us = sim::to_us(span.start);
        added.reason.end_us = sim::to_us(span.end);
        added.reason.waited_for = span.start == ready          ? "gradients"
                                  : span.start == channel_free ? "channel"
                                                               : "pass";
      }
      if (tasks[i].stream == JobGraph::channel(added.stage)) channel_free = span.end;
    }
  }

  /// The iteration with other groups for one part and process group.
  std::optional<double> iteration_with(const PartGroups& of, const planner::Groups& groups) const {
    GroupsByPart all = planned_;
    all[part_name(of.workload)] = groups;
    return iteration_of(scenario_, with_groups(schedule_, std::move(all)));
  }

  std::optional<double> iteration_of(const Scenario& scenario, const Schedule& schedule) const {
    try {
      return run_divided(scenario, run_.metrics.workers, schedule).metrics.iteration_us;
    } catch (const core::Unsupported&) {  // such as groups that divide what is computed again together
      return std::nullopt;
    }
  }

  // ---- what if

  void add_what_ifs() {
    constexpr double kFree = std::numeric_limits<double>::infinity();
    add(out_.free, {.text = "startups", .startup = kFree});
    add(out_.free, {.text = "bytes", .bandwidth = kFree}, scenario_.parallel->stages.p2p_us);
    add(out_.free, {.text = "forward and backward", .compute = nearly_free_compute()});
    if (scenario_.parallel->stages.p2p_us > 0) add(out_.free, {.text = "messages between stages"}, 0.0);
    if (!out_.free.empty())
      out_.bound_by = std::ranges::min_element(out_.free, {}, &WhatIf::best_plan_us)->change;
    add(out_.other, {.text = "startups twice as long", .startup = 0.5});
    add(out_.other, {.text = "startups half as long", .startup = 2});
    add(out_.other, {.text = "half the bandwidth", .bandwidth = 0.5});
    add(out_.other, {.text = "twice the bandwidth", .bandwidth = 2});
    add(out_.other, {.text = "compute twice as slow", .compute = 0.5});
    add(out_.other, {.text = "compute twice as fast", .compute = 2});
  }

  /// A million times as fast, or as fast as the clock can tell of the shortest part.
  double nearly_free_compute() const {
    constexpr double kNearlyFree = 1e6;
    constexpr double kShortestUs = 1e-5;
    double out = kNearlyFree;
    for (const planner::ModelPart& part : run_.parts)
      out =
          std::min(out, sim::to_us(part.workload.forward_total + part.workload.backward_total) / kShortestUs);
    return std::max(out, 1.0);
  }

  void add_combined() {
    const bool has_messages = scenario_.parallel->stages.p2p_us > 0;
    out_.combined = planner::combined_what_ifs(
        has_messages ? "messages between stages" : "",
        [&](const std::string& change, const planner::InputFactors& factors) {
          std::optional<double> p2p_us;
          if (factors.is_other_free)
            p2p_us = 0;
          else if (factors.per_byte == 0)
            p2p_us = scenario_.parallel->stages.p2p_us;
          return what_if({.text = change,
                          .startup = 1 / factors.startup,
                          .bandwidth = 1 / factors.per_byte,
                          .compute = std::min(1 / factors.compute, nearly_free_compute())},
                         p2p_us);
        });
  }

  void add(std::vector<WhatIf>& rows, const planner::Change& change,
           std::optional<double> p2p_us = {}) const {
    if (const std::optional<WhatIf> row = what_if(change, p2p_us)) rows.push_back(*row);
  }

  /// None where nothing can be run, as times become too long or too short.
  std::optional<WhatIf> what_if(const planner::Change& change, std::optional<double> p2p_us) const {
    on_step_("what if: " + change.text);
    Scenario then = with_change(scenario_, run_, change);
    then.conditions.optimizer_us = scenario_.conditions.optimizer_us;
    if (p2p_us) then.parallel->stages.p2p_us = *p2p_us;
    const std::optional<double> this_plan_us = iteration_of(then, with_groups(schedule_, planned_));
    if (!this_plan_us) return std::nullopt;
    const double best_us =
        iteration_of(then, planner::with_optimal_fusion(schedule_)).value_or(*this_plan_us);
    return WhatIf{.change = change.text,
                  .this_plan_us = *this_plan_us,
                  .best_plan_us = std::min(*this_plan_us, best_us)};
  }

  const Scenario& scenario_;
  const Schedule& schedule_;
  const ParallelRun& run_;
  OnStep on_step_;
  bool combines_;
  planner::RanStages ran_;
  planner::StageFacts facts_;
  Time before_;  // of the stages
  GroupsByPart planned_;
  std::vector<std::vector<Span>> waits_;  // for a stage's own collectives, by stage
  StageExplanation out_;
};

}  // namespace

StageExplanation explain_stages(
    const Scenario& scenario, const Schedule& schedule, const ParallelRun& run,
    const std::function<void(std::size_t total, const std::string& what)>& progress, bool combines) {
  if (run.graph.tasks.size() > kMaxExplainedTasks)
    throw core::Unsupported(
        fmt::format("stages of at most {} tasks where they are explained", kMaxExplainedTasks),
        fmt::to_string(run.graph.tasks.size()), "/parallel");
  constexpr std::size_t kWhatIfs = 9;
  const bool has_messages = scenario.parallel->stages.p2p_us > 0;
  const std::size_t combined = planner::combinations(has_messages);
  combines &= static_cast<double>(2 * combined * run.graph.tasks.size()) <= kMaxTasksOfOtherGroups;
  const std::size_t total = static_cast<std::size_t>(run.metrics.groups) + kWhatIfs + (has_messages ? 1 : 0) +
                            (combines ? combined : 0);
  return Explainer(
             scenario, schedule, run,
             [&](const std::string& what) {
               if (progress) progress(total, what);
             },
             combines)
      .explain();
}

}  // namespace scenarios
