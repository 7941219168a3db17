#include "planner/scenarios/divided_plan.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/json_text.hpp"
#include "core/limits.hpp"
#include "core/printable.hpp"
#include "core/quantities.hpp"
#include "core/text_table.hpp"
#include "planner/advise/make_plan.hpp"
#include "planner/job/registry.hpp"
#include "planner/parallel/parts.hpp"
#include "planner/scenarios/divided_run.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/supported.hpp"
#include "planner/scenarios/warnings.hpp"

namespace scenarios {
namespace {

using core::ms;
using nlohmann::ordered_json;
using planner::ParallelRun;
using planner::PartGroups;
using planner::PlanFile;
using planner::Schedule;

constexpr std::array<std::string_view, 2> kTargets = {"fsdp", "megatron"};

PlanFile whole_plan(const Scenario& scenario, const Schedule& schedule, const ParallelRun& run) {
  PlanFile out;
  out.model = scenario.profile.model;
  out.workers = run.metrics.workers;
  out.pipeline = schedule.pipeline->name;
  out.options = schedule.options;
  out.all_reduce = all_reduce(scenario, schedule);
  out.data_types = scenario.conditions.data_types;
  out.recompute = scenario.conditions.recompute;
  out.optimality = run.is_exact               ? planner::Optimality::exact
                   : schedule.fusion.searches ? planner::Optimality::heuristic
                                              : planner::Optimality::given;
  out.iteration_us = run.metrics.iteration_us;
  // without constraints, which exclude groups but are no bound
  out.lower_bound_us =
      run.is_exact
          ? run_divided(scenario, out.workers, planner::with_optimal_fusion(schedule)).metrics.iteration_us
          : out.iteration_us - run.metrics.exposed_communication_us;
  return out;
}

PartPlan part_plan(const PlanFile& whole, const planner::Parallel& parallel, std::size_t part,
                   const PartGroups& groups) {
  PartPlan out = {.stage = parallel.stage_of(static_cast<std::int64_t>(part)),
                  .of_experts = groups.of_experts,
                  .plan = whole};
  if (parallel.stages.virtual_stages > 1) out.part = static_cast<std::int64_t>(part);
  out.plan.workers = groups.transfers.front().all_workers();
  out.plan.options = without_level(std::move(out.plan.options), groups.transfers.front());
  for (const planner::Group& group : groups.groups)
    out.plan.groups.push_back(plan_group(groups.workload, group, groups.transfers));
  return out;
}

/// "stage 1, part 5, experts".
std::string place_of(const PartPlan& part) {
  return fmt::format("stage {}{}{}", part.stage, part.part ? fmt::format(", part {}", *part.part) : "",
                     part.of_experts ? ", experts" : "");
}

ordered_json place_json(const PartPlan& part) {
  ordered_json out = {{"stage", part.stage}};
  if (part.part) out["part"] = *part.part;
  out["process_group"] = part.of_experts ? "expert" : "dense";
  return out;
}

/// The gradients of process groups, one group after another.
planner::Workload joined(std::span<const PartGroups> members) {
  planner::Workload out = members.front().workload;
  for (const PartGroups& member : members.subspan(1))
    for (const planner::Gradient& gradient : member.workload.gradients) out.add(gradient);
  return out;
}

planner::Groups joined_groups(std::span<const PartGroups> members) {
  planner::Groups out;
  std::uint32_t begin = 0;
  for (const PartGroups& member : members) {
    for (planner::Group group : member.groups) {
      group.begin += begin;
      group.end += begin;
      out.push_back(std::move(group));
    }
    begin += member.workload.gradient_count();
  }
  return out;
}

/// The groups of `count` gradients from `begin` on, as if these were all.
planner::Groups shifted(const planner::Groups& groups, std::uint32_t begin, std::uint32_t count) {
  planner::Groups out;
  for (planner::Group group : groups)
    if (begin <= group.begin && group.begin < begin + count) {
      group.begin -= begin;
      group.end -= begin;
      out.push_back(std::move(group));
    }
  return out;
}

class Emitting {
 public:
  Emitting(std::string_view target, const Scenario& scenario, const Schedule& schedule,
           const ParallelRun& run)
      : target_(target), scenario_(scenario), schedule_(schedule), run_(run) {
    for (std::size_t part = 0; part < run.parts.size(); ++part)
      for (const PartGroups& groups : run.parts[part].groups)
        if (has_groups(part)) planned_[part_name(groups.workload)] = groups.groups;
  }

  /// The plans of a part, each for the gradients of one process group; they are in the order of `groups`.
  void add(std::size_t part, std::span<const PartGroups> groups, std::span<const PartPlan> plans) {
    // Megatron-LM has one number for all groups, which the first part of the first stage alone uses.
    if (has_one_number()) {
      if (part == 0 && !groups.empty()) add_together(part, groups, plans.front());
      return;
    }
    // experts first, so that the modules around them take what is left
    for (std::size_t i = groups.size(); i-- > 0;) add_together(part, groups.subspan(i, 1), plans[i]);
  }

  planner::Emission finish() && {
    if (gathers_at_once_)
      text_ += "# Priced with all gathers of parameters issued when the iteration begins, not one by one.\n";
    if (has_one_number() && run_.parts.size() > 1)
      text_ += fmt::format("# All other parts of the model have one bucket each{}, as in Megatron-LM.\n",
                           scenario_.parallel->expert > 1 ? ", and one more for their experts" : "");
    if (!closing_.empty()) closing_.insert(closing_.begin(), "\n");
    return {.text = fmt::format("{}{}{}", fmt::join(setup_, ""), text_, fmt::join(closing_, "")),
            .json = {{"target", target_}, {"stages", std::move(stages_)}}};
  }

 private:
  void add_together(std::size_t part, std::span<const PartGroups> members, const PartPlan& plan) {
    const planner::Workload workload = joined(members);
    const auto iteration_us = [&](const planner::Behaviour& behaviour, const planner::Groups& made) {
      if (behaviour.compresses) return run_.metrics.iteration_us;  // as planned
      GroupsByPart all = planned_;
      std::uint32_t begin = 0;
      for (const PartGroups& member : members) {
        const std::uint32_t count = member.workload.gradient_count();
        all[part_name(member.workload)] = shifted(made, begin, count);
        begin += count;
      }
      Schedule own = with_groups(schedule_, std::move(all));
      own.pipeline = behaviour.pipeline;
      own.options = behaviour.options;
      if (behaviour.pipeline->name == "zero") {
        gathers_at_once_ = true;
        own.options.prefetch.reset();
      }
      return run_divided(scenario_, run_.metrics.workers, own).metrics.iteration_us;
    };
    const planner::Parallel& parallel = *scenario_.parallel;
    const planner::Division division = {
        .pipeline = parallel.pipeline,
        .data = run_.metrics.workers / parallel.tensor / parallel.pipeline,
        .expert = parallel.expert,
        .tensor = parallel.tensor,
        .of_experts = plan.of_experts,
        .part = run_.parts[part].workload,
        .dense_gradients = members.size() > 1 ? members.front().workload.gradient_count() : 0,
        .stage_elements = elements_of_stage(plan.stage)};
    const planner::Emission one =
        planner::emit(target_, {.plan = plan.plan,
                                .groups = joined_groups(members),
                                .workload = workload,
                                .iteration_us = iteration_us,
                                .accumulation_steps = scenario_.parallel->stages.micro_batches,
                                .types = scenario_.conditions.data_types,
                                .recomputes = scenario_.conditions.recompute.has_value(),
                                .division = &division});
    add_new(one.setup, setup_);
    const std::string place = members.size() > 1 ? place_of(plan) + ", with experts" : place_of(plan);
    text_ += fmt::format("{}# {}\n{}", text_.empty() && setup_.empty() ? "" : "\n", place, one.text);
    add_new(one.closing, closing_);
    ordered_json item = place_json(plan);
    if (members.size() > 1) item["process_group"] = "both";
    item.update(one.json);
    stages_.push_back(std::move(item));
  }

  std::int64_t elements_of_stage(std::int64_t stage) const {
    std::int64_t out = 0;
    for (std::size_t part = 0; part < run_.parts.size(); ++part)
      if (scenario_.parallel->stage_of(static_cast<std::int64_t>(part)) == stage)
        out += core::parameter_count(*run_.parts[part].workload.profile);
    return out;
  }

  static void add_new(const std::vector<std::string>& lines, std::vector<std::string>& out) {
    for (const std::string& line : lines)
      if (std::ranges::find(out, line) == out.end()) out.push_back(line);
  }

  bool has_one_number() const { return target_ == "megatron"; }
  bool has_groups(std::size_t part) const { return !has_one_number() || part == 0; }

  std::string_view target_;
  const Scenario& scenario_;
  const Schedule& schedule_;
  const ParallelRun& run_;
  GroupsByPart planned_;
  std::vector<std::string> setup_;
  std::string text_;
  std::vector<std::string> closing_;
  bool gathers_at_once_ = false;
  ordered_json stages_ = ordered_json::array();
};

}  // namespace

DividedPlan divided_plan(const Scenario& scenario, std::int64_t workers, const Schedule& schedule,
                         const PlanOptions& options) {
  const std::string& emit = options.emit;
  if (!emit.empty() && std::ranges::find(kTargets, emit) == kTargets.end())
    throw core::InputError(
        fmt::format("--emit: expected one of {} for a scenario with the key parallel, got '{}'",
                    fmt::join(kTargets, ", "), emit));
  if (emit == "fsdp" && !scenario.parallel->tied_tensors.empty())
    scenario.file.at("parallel")
        .at("tied_tensors")
        .expected("no tied_tensors with --emit fsdp, as FSDP2 does not sum them", "some");
  const planner::StageOrder order = scenario.parallel->stages.order;
  if (emit == "megatron" && order != planner::StageOrder::one_f_one_b &&
      order != planner::StageOrder::interleaved)
    scenario.file.at("parallel")
        .at("stages")
        .expected("the schedule 1f1b or interleaved, which Megatron-LM has, with --emit megatron", "another");
  return supported(scenario, workers, schedule, [&] {
    const ParallelRun run = run_divided(scenario, workers, schedule);
    DividedPlan out = {.whole = whole_plan(scenario, schedule, run),
                       .parts = {},
                       .warnings = {},
                       .emission = {},
                       .explanation = {}};
    Warnings warnings;
    warnings.add(run.warnings);
    out.warnings = warnings.texts(scenario);
    std::optional<Emitting> emitting;
    if (!emit.empty()) emitting.emplace(emit, scenario, schedule, run);
    for (std::size_t part = 0; part < run.parts.size(); ++part) {
      const std::vector<PartGroups>& all = run.parts[part].groups;
      for (const PartGroups& groups : all)
        out.parts.push_back(part_plan(out.whole, *scenario.parallel, part, groups));
      if (!emitting) continue;
      emitting->add(part, all, std::span(out.parts).last(all.size()));
    }
    if (out.parts.empty()) throw core::Unsupported("data groups of at least 2 workers", "1");
    if (emitting) out.emission = std::move(*emitting).finish();
    if (options.explain)
      out.explanation = explain_stages(scenario, schedule, run, options.progress, options.combine);
    for (const std::string_view other : {"wfbp", "sync-easgd", "ddp", "mg-wfbp"})
      out.whole.compared_with.push_back(
          {.schedule = std::string(other),
           .iteration_us =
               run_divided(scenario, workers, planner::preset_schedule(other)).metrics.iteration_us});
    return out;
  });
}

std::string divided_plan_text(const DividedPlan& plan, std::size_t width) {
  std::string out = fmt::format("{} on {}, pipeline {}, {} all-reduce: {} ms per iteration ({})\n\n",
                                core::one_line(plan.whole.model), core::counted(plan.whole.workers, "worker"),
                                plan.whole.pipeline, plan.whole.all_reduce.name, ms(plan.whole.iteration_us),
                                optimality_words(plan.whole, "no other groups are faster"));
  std::vector<std::vector<std::string>> rows = {
      {"stage", "workers", "group", "tensors", "MB", "in backward order"}};
  for (const PartPlan& part : plan.parts)
    for (std::size_t i = 0; i < part.plan.groups.size(); ++i) {
      const planner::PlanGroup& group = part.plan.groups[i];
      rows.push_back({place_of(part), fmt::to_string(part.plan.workers), fmt::to_string(i + 1),
                      fmt::to_string(group.tensors.size()),
                      fmt::format("{:.1f}", static_cast<double>(group.bytes) / 1e6),
                      core::one_line(group.tensors.front()) +
                          (group.tensors.size() > 1 ? " .. " + core::one_line(group.tensors.back()) : "")});
    }
  out += core::aligned(rows, {0, 5}, width) + '\n';
  rows = {{"schedule", "iteration ms"}, {"this plan", ms(plan.whole.iteration_us)}};
  for (const planner::ComparedPlan& other : plan.whole.compared_with)
    rows.push_back({other.schedule, ms(other.iteration_us)});
  rows.push_back({lower_bound_label(plan.whole), ms(plan.whole.lower_bound_us)});
  return out + core::aligned(rows, {0}, width);
}

std::string divided_plan_json(const DividedPlan& plan) {
  ordered_json compared = ordered_json::array();
  for (const planner::ComparedPlan& other : plan.whole.compared_with)
    compared.push_back({{"schedule", other.schedule}, {"iteration_us", other.iteration_us}});
  ordered_json parts = ordered_json::array();
  for (const PartPlan& part : plan.parts) {
    ordered_json item = place_json(part);
    item["plan"] = ordered_json::parse(planner::plan_text(part.plan));
    parts.push_back(std::move(item));
  }
  return core::json_text({{"format", "fusewise.stage-plans"},
                          {"version", 1},
                          {"model", plan.whole.model},
                          {"workers", plan.whole.workers},
                          {"pipeline", plan.whole.pipeline},
                          {"exact", plan.whole.optimality == planner::Optimality::exact},
                          {"iteration_us", plan.whole.iteration_us},
                          {"lower_bound_us", plan.whole.lower_bound_us},
                          {"compared_with", std::move(compared)},
                          {"parts", std::move(parts)}});
}

DividedPlan read_divided_plan(const core::Field& file) {
  constexpr double kMaxUs = core::kMaxTimeUs * 10;
  file.check_format("fusewise.stage-plans");
  file.allow_only({"format", "version", "model", "workers", "pipeline", "exact", "iteration_us",
                   "lower_bound_us", "compared_with", "parts"});
  DividedPlan out;
  out.whole.model = file.at("model").name();
  out.whole.workers = file.at("workers").integer(1, core::kMaxWorkers);
  out.whole.pipeline = file.at("pipeline").one_of(planner::names(planner::pipelines()));
  (void)file.at("exact").boolean();  // the plans of the parts say so, too
  out.whole.iteration_us = file.at("iteration_us").number(0, kMaxUs);
  out.whole.lower_bound_us = file.at("lower_bound_us").number(0, kMaxUs);
  for (const core::Field& item : file.at("compared_with").items()) {
    item.allow_only({"schedule", "iteration_us"});
    out.whole.compared_with.push_back(
        {.schedule = item.at("schedule").name(), .iteration_us = item.at("iteration_us").number(0, kMaxUs)});
  }
  for (const core::Field& item : file.at("parts").non_empty_items()) {
    item.allow_only({"stage", "part", "process_group", "plan"});
    PartPlan part = {.stage = item.at("stage").integer(0, core::kMaxWorkers),
                     .of_experts = item.at("process_group").one_of({"dense", "expert"}) == "expert",
                     .plan = planner::read_plan_file(item.at("plan"))};
    if (const auto number = item.find("part")) part.part = number->integer(0, core::kMaxElements);
    out.parts.push_back(std::move(part));
  }
  out.whole.all_reduce = out.parts.front().plan.all_reduce;
  out.whole.optimality = out.parts.front().plan.optimality;
  return out;
}

}  // namespace scenarios
