#include "planner/scenarios/run.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "core/printable.hpp"
#include "core/quantities.hpp"
#include "planner/advise/make_plan.hpp"
#include "planner/choose/fusion/optimal.hpp"
#include "planner/job/registry.hpp"
#include "planner/parallel/stage_slices.hpp"
#include "planner/run/slices.hpp"
#include "planner/scenarios/divided_run.hpp"
#include "planner/scenarios/for_target.hpp"
#include "planner/scenarios/prices.hpp"
#include "planner/scenarios/supported.hpp"
#include "planner/scenarios/warnings.hpp"

namespace scenarios {
namespace {

using planner::Schedule;
using planner::Setting;

/// The settings of one number of workers, constructed on first use: schedules may differ in their all-reduce.
class Settings {
 public:
  Settings(const Scenario& scenario, std::int64_t workers) : scenario_(scenario), workers_(workers) {}

  const Setting& of(const Schedule& schedule) {
    const planner::Algorithm& algorithm = all_reduce(scenario_, schedule);
    for (const auto& [known, setting] : made_)
      if (known == algorithm) return *setting;
    made_.emplace_back(algorithm, std::make_unique<Setting>(scenario_.profile, scenario_.network, workers_,
                                                            algorithm, scenario_.conditions));
    return *made_.back().second;
  }

 private:
  const Scenario& scenario_;
  std::int64_t workers_;
  std::vector<std::pair<planner::Algorithm, std::unique_ptr<Setting>>> made_;
};

/// `metrics` returns those of a schedule under one change.
template <typename MetricsUnder>
std::vector<Changed> changed(const Schedule& schedule, const std::vector<planner::Change>& changes,
                             const MetricsUnder& metrics) {
  std::vector<Changed> out;
  for (const planner::Change& change : changes) {
    try {
      out.push_back({.change = change.text, .metrics = metrics(change)});
    } catch (const planner::NeverEnds& problem) {
      throw planner::NeverEnds(
          fmt::format("with --what-if '{}': {}", core::printable(change.text), problem.what()));
    } catch (const core::Unsupported& problem) {
      throw core::InputError(fmt::format("--what-if: expected {}, got {} with '{}' (schedule '{}')",
                                         problem.expected(), problem.got(), core::printable(change.text),
                                         core::printable(schedule.name)));
    }
  }
  return out;
}

/// The iterations of an epoch, rounded up. Divides by one factor after the other, which gives the same
/// result, because the samples of an iteration may exceed 64 bits.
std::int64_t iterations_of_epoch(const Scenario& scenario, const Phase& phase, std::int64_t workers) {
  std::int64_t left = scenario.job->samples;
  for (const std::int64_t factor :
       {workers, phase.profile.batch_size, scenario.conditions.accumulation_steps})
    left = (left - 1) / factor + 1;
  return left;
}

/// Runs one phase on one number of workers.
PhaseResult run_phase(const Scenario& whole, std::int64_t workers, const Phase& phase, Warnings& warnings) {
  Scenario scenario = scenario_of(whole, phase);
  const Schedule& schedule = scenario.schedules.front();
  const auto iteration_us = [&](double read_us) {
    scenario.conditions.read_us = read_us;
    Settings settings(scenario, workers);
    const planner::Run run = planner::run(settings.of(schedule), schedule);
    warnings.add(run.warnings);
    return run.metrics.iteration_us;
  };
  return supported(scenario, workers, schedule, [&]() -> PhaseResult {
    const double later_us = iteration_us(phase.input.later_us);
    const double first_us = phase.input.first_epoch_us == phase.input.later_us
                                ? later_us
                                : iteration_us(phase.input.first_epoch_us);
    const std::int64_t iterations = iterations_of_epoch(whole, phase, workers);
    const double epochs_us = first_us + static_cast<double>(phase.epochs - 1) * later_us;
    return {.name = phase.name,
            .schedule = schedule.name,
            .epochs = phase.epochs,
            .iterations_per_epoch = iterations,
            .first_epoch_iteration_us = first_us,
            .iteration_us = later_us,
            .seconds = static_cast<double>(iterations) * epochs_us / 1e6};
  });
}

JobResult run_job(const Scenario& scenario, std::int64_t workers, Warnings& warnings) {
  JobResult out = {.workers = workers, .phases = {}, .seconds = 0, .cost = {}};
  for (const Phase& phase : scenario.job->phases) {
    out.phases.push_back(run_phase(scenario, workers, phase, warnings));
    out.seconds += out.phases.back().seconds;
  }
  constexpr double kSecondsPerHour = 3600;
  if (const auto price = scenario.job->price_per_worker_hour)
    out.cost = *price * static_cast<double>(workers) * out.seconds / kSecondsPerHour;
  return out;
}

/// The number of samples of an entry's interval: all intervals of a scenario take a second, or up to four
/// where the least number of samples takes that long. 0 if even that is not enough; then there is a warning.
/// `work` is that of a sample, in steps of about a nanosecond.
std::int64_t samples_for(std::int64_t workers, const Schedule& schedule, double work, std::size_t entries,
                         Warnings& warnings) {
  constexpr double kSecond = 1e9;  // steps
  constexpr double kMaxSeconds = 4;
  work = std::max(1.0, work);
  const double of_entry = kSecond / static_cast<double>(entries);
  if (static_cast<double>(planner::kMinSamples) * work <= kMaxSeconds * of_entry)
    return static_cast<std::int64_t>(std::clamp(of_entry / work, static_cast<double>(planner::kMinSamples),
                                                static_cast<double>(planner::kMaxSamples)));
  const std::string text = fmt::format(
      "{} workers, schedule '{}': no interval, as {} simulations of {:.1e} steps are too many; --samples {} "
      "makes it",
      workers, schedule.name, planner::kMinSamples, work, planner::kMinSamples);
  warnings.add({{.subject = text, .weight = 0, .text = text}});
  return 0;
}

/// Warns where the profile does not say what activations take, and where the peak is above the scenario's
/// cap. `where` names the run, and the stage if there is one.
void warn_of_memory(const Scenario& scenario, const planner::MemoryPeak& peak, const std::string& where,
                    Warnings& warnings) {
  const std::string left_out =
      "memory: activations are left out, as not every layer of the profile has activation_bytes";
  if (!peak.has_activations) warnings.add({{.subject = left_out, .weight = 0, .text = left_out}});
  const std::optional<std::int64_t> cap = scenario.conditions.memory->cap_bytes;
  if (!cap || planner::total(peak.bytes) <= *cap) return;
  const std::string text = fmt::format("{}: a worker holds {} bytes, more than the {} of memory.cap_bytes",
                                       where, planner::total(peak.bytes), *cap);
  warnings.add({{.subject = text, .weight = 0, .text = text}});
}

Entry entry_of(const Schedule& schedule, const planner::Metrics& metrics) {
  return {.schedule = schedule.name,
          .pipeline = std::string(schedule.pipeline->name),
          .fusion = schedule.fusion.kind,
          .compression = schedule.compressor.name,
          .metrics = metrics,
          .by_worker = {},
          .what_if = {}};
}

/// The work of a sample of a divided run: inputs are drawn and costs worked out, and its parts are lowered
/// and simulated.
double work_of(const planner::ParallelRun& run) {
  constexpr double kSample = 20'000;
  constexpr double kTask = 150;
  return kSample + kTask * static_cast<double>(run.graph.tasks.size());
}

Entry entry_of_stages(const Scenario& scenario, std::int64_t workers, const Schedule& schedule,
                      const RunOptions& options, std::size_t entries, Warnings& warnings,
                      const std::function<void(std::int64_t, std::int64_t)>& report_progress) {
  planner::ParallelRun run = run_divided(scenario, workers, schedule);
  warnings.add(run.warnings);
  Entry out = entry_of(schedule, run.metrics);
  out.what_if = changed(schedule, options.changes, [&](const planner::Change& change) {
    return what_if_divided(scenario, schedule, run, change);
  });
  if (has_spread(scenario, workers) && options.samples != 0) {
    const std::int64_t samples =
        options.samples ? *options.samples : samples_for(workers, schedule, work_of(run), entries, warnings);
    if (samples > 0)
      out.interval = interval_divided(scenario, schedule, run, samples,
                                      [&](std::int64_t done) { report_progress(done, samples); });
  }
  out.stages = std::move(run.stages);
  for (const planner::StageMetrics& stage : out.stages) {
    if (!stage.memory) continue;
    warn_of_memory(scenario, *stage.memory,
                   fmt::format("{} workers, schedule '{}', stage {}", workers, schedule.name, stage.stage),
                   warnings);
    if (!out.memory || planner::total(stage.memory->bytes) > planner::total(out.memory->bytes))
      out.memory = stage.memory;
  }
  return out;
}

/// The entry without a simulation; none if the options need one, or nothing else gives the metrics.
std::optional<Entry> entry_at_once(const Setting& setting, const Schedule& schedule,
                                   const RunOptions& options, Warnings& warnings) {
  if (!options.may_skip_simulation || options.samples != 0 || !options.changes.empty() ||
      setting.conditions.memory)
    return std::nullopt;
  const std::optional<planner::Prediction> prediction = planner::predict_at_once(setting, schedule);
  if (!prediction) return std::nullopt;
  warnings.add(prediction->warnings);
  return entry_of(schedule, prediction->metrics);
}

/// Compares the samples of all entries on a number of workers with those of the fastest, and drops them. Of
/// several that are as fast it is the same in any order of schedules.
void compare_samples(std::span<Entry> entries) {
  const Entry& first = *std::ranges::min_element(entries, {}, [](const Entry& entry) {
    return std::pair(entry.metrics.iteration_us, std::string_view(entry.schedule));
  });
  for (Entry& entry : entries)
    if (entry.metrics.iteration_us > first.metrics.iteration_us && entry.interval && first.interval)
      entry.interval->slower_share = planner::slower_share(*entry.interval, *first.interval);
  for (Entry& entry : entries)
    if (entry.interval) entry.interval->sampled_us.clear();
}

}  // namespace

const Entry& fastest(const std::vector<Entry>& entries, std::int64_t workers) {
  const Entry* out = nullptr;
  for (const Entry& entry : entries)
    if (entry.metrics.workers == workers &&
        (out == nullptr || entry.metrics.iteration_us < out->metrics.iteration_us))
      out = &entry;
  return *out;
}

bool is_as_fast(const Entry& entry, const Entry& fastest) {
  return entry.metrics.iteration_us > fastest.metrics.iteration_us && entry.interval &&
         entry.interval->slower_share.value_or(1) < planner::kToldApartShare;
}

Results run(const Scenario& scenario, const RunOptions& options) {
  Results results = {.scenario = scenario.name, .warnings = {}, .entries = {}, .jobs = {}};
  Warnings warnings;
  const std::size_t total = scenario.workers.size() * scenario.schedules.size();
  const auto report_progress = [&](std::int64_t samples_done, std::int64_t samples) {
    if (options.progress) options.progress({results.entries.size(), total, samples_done, samples});
  };
  for (const std::int64_t workers : scenario.workers) {
    Settings settings(scenario, workers);
    for (const Schedule& schedule : scenario.schedules) {
      supported(scenario, workers, schedule, [&] {
        if (scenario.parallel) {
          results.entries.push_back(
              entry_of_stages(scenario, workers, schedule, options, total, warnings, report_progress));
          return;
        }
        const Setting& setting = settings.of(schedule);
        if (auto entry = entry_at_once(setting, schedule, options, warnings))
          return results.entries.push_back(*std::move(entry));
        const planner::Run run = planner::run(setting, schedule);
        warnings.add(run.warnings);
        const std::int64_t samples =
            options.samples ? *options.samples
            : !planner::has_spread(setting)
                ? 0
                : samples_for(workers, schedule, planner::work_of(setting, run), total, warnings);
        auto interval = samples == 0
                            ? std::nullopt
                            : planner::interval(setting, schedule, run, samples,
                                                [&](std::int64_t done) { report_progress(done, samples); });
        Entry& entry = results.entries.emplace_back(entry_of(schedule, run.metrics));
        entry.by_worker = planner::report_workers(setting, run);
        entry.what_if = changed(schedule, options.changes, [&](const planner::Change& change) {
          return planner::what_if(setting, schedule, run, change);
        });
        entry.interval = std::move(interval);
        if (scenario.conditions.memory) {
          entry.memory = planner::memory_of(setting, run, run.timeline).peak;
          warn_of_memory(scenario, *entry.memory,
                         fmt::format("{}, schedule '{}'", core::counted(workers, "worker"), schedule.name),
                         warnings);
        }
      });
      report_progress(0, 0);
    }
    compare_samples(std::span(results.entries).last(scenario.schedules.size()));
    if (scenario.job) results.jobs.push_back(run_job(scenario, workers, warnings));
  }
  results.warnings = warnings.texts(scenario);
  return results;
}

namespace {

/// The worker that is shown by default.
std::string_view usual_worker(const planner::Conditions& conditions) {
  if (conditions.has_stragglers()) return "the slowest";
  return conditions.workers_differ() ? "the first" : "each";
}

/// The memory of a worker as values over time.
std::vector<core::Counter> counters_of(const planner::Memory& memory, sim::Time before) {
  std::vector<core::Counter> out;
  for (const planner::MemoryPoint& point : memory.points) {
    core::Counter counter = {.track = 0, .name = "memory", .at = before + point.at, .values = {}};
    for (std::size_t part = 0; part < planner::kMemoryParts.size(); ++part)
      counter.values.emplace_back(planner::kMemoryParts[part], point.bytes[part]);
    out.push_back(std::move(counter));
  }
  return out;
}

/// The timelines of all stages, one iteration.
std::vector<WorkerTimeline> stage_timelines(const Scenario& scenario, std::int64_t workers,
                                            const Schedule& schedule) {
  constexpr std::size_t kMaxTasks = 500'000;  // 100 MB of trace, and viewers open no more
  const planner::Parallel& parallel = *scenario.parallel;
  const planner::ParallelRun run = run_divided(scenario, workers, schedule);
  if (run.graph.tasks.size() > kMaxTasks)
    throw core::Unsupported(fmt::format("stages of at most {} tasks where timelines are drawn", kMaxTasks),
                            fmt::to_string(run.graph.tasks.size()), "/parallel");
  const planner::RanStages ran = planner::ran_stages(run, parallel);
  const planner::StageFacts facts = planner::stage_facts(ran);
  const sim::Time before = planner::before_stages(run.conditions);
  std::vector<WorkerTimeline> out;
  for (std::int64_t stage = 0; stage < parallel.pipeline; ++stage) {
    WorkerTimeline& added = out.emplace_back();
    added.schedule = schedule.name;
    added.stage = stage;
    added.process =
        fmt::format("{}: stage {} of {}{}, {} workers", schedule.name, stage, parallel.pipeline,
                    scenario.conditions.has_stragglers() ? " of the slowest replica" : "", workers);
    added.marks = {sim::Time::zero(), sim::from_us(run.metrics.iteration_us)};
    added.waits = planner::waits_for_collectives(ran, facts, stage);
    planner::add_stage_slices(ran, facts, stage, added.process, added.tracks, added.slices);
    if (scenario.conditions.memory) added.counters = counters_of(planner::stage_memory(ran, stage), before);
  }
  return out;
}

}  // namespace

std::vector<WorkerTimeline> timelines(const Scenario& whole, std::int64_t workers,
                                      const std::vector<std::int64_t>& shown) {
  Scenario scenario = whole;
  constexpr std::int64_t kMaxShown = 3;  // workers are alike, and viewers cannot open a trace of thousands
  scenario.conditions.iterations = std::min(whole.conditions.iterations, kMaxShown);
  std::vector<WorkerTimeline> out;
  Settings settings(scenario, workers);
  for (const Schedule& schedule : scenario.schedules) {
    supported(scenario, workers, schedule, [&] {
      if (scenario.parallel) {
        std::ranges::move(stage_timelines(scenario, workers, schedule), std::back_inserter(out));
        return;
      }
      const Setting& setting = settings.of(schedule);
      planner::Simulated simulated = planner::run(setting, schedule);
      const auto add = [&](const std::string& process, const sim::Timeline& timeline) {
        WorkerTimeline& added = out.emplace_back();
        added.schedule = schedule.name;
        added.process = process;
        added.marks = simulated.marks;
        planner::add_slices(setting, simulated, timeline, process, added.tracks, added.slices);
        if (setting.conditions.memory)
          added.counters = counters_of(planner::memory_of(setting, simulated, timeline), sim::Time::zero());
      };
      if (shown.empty() || simulated.program.by_layer) {  // the by-layer graph does not identify workers
        add(fmt::format("{}: {} of {} workers", schedule.name, usual_worker(scenario.conditions), workers),
            simulated.timeline);
        return;
      }
      if (!simulated.all_workers) simulated = planner::simulate_workers_of(setting, simulated);
      const planner::AllWorkers all = planner::simulate_all_workers(setting, simulated, shown);
      for (const planner::ShownWorker& worker : all.shown)
        add(fmt::format("{}: worker {} of {}", schedule.name, worker.worker, workers), worker.timeline);
    });
  }
  return out;
}

std::string timeline(const Scenario& scenario, std::int64_t workers, const std::vector<std::int64_t>& shown) {
  std::vector<core::Track> tracks;
  std::vector<core::Slice> slices;
  std::vector<core::Counter> counters;
  for (WorkerTimeline& each : timelines(scenario, workers, shown)) {
    for (core::Slice& slice : each.slices) {
      slice.track += tracks.size();
      slices.push_back(std::move(slice));
    }
    for (core::Counter& counter : each.counters) {
      counter.track += tracks.size();
      counters.push_back(std::move(counter));
    }
    tracks.insert(tracks.end(), each.tracks.begin(), each.tracks.end());
  }
  return core::chrome_trace(tracks, slices, counters);
}

namespace {

planner::Emission emit(std::string_view target, const Scenario& scenario, const Setting& setting,
                       const Schedule& schedule, const planner::PlanFile& plan,
                       const planner::Groups& groups) {
  Prices prices(setting, schedule, scenario.all_reduce);
  const auto iteration_us = [&](const planner::Behaviour& behaviour, const planner::Groups& other) {
    return prices.iteration_us(behaviour, other);
  };
  return planner::emit(target, {.plan = plan,
                                .groups = groups,
                                .workload = setting.workload,
                                .iteration_us = iteration_us,
                                .accumulation_steps = scenario.conditions.accumulation_steps,
                                .types = scenario.conditions.data_types,
                                .network = setting.network,
                                .recomputes = scenario.conditions.recompute.has_value()});
}

Setting setting_of(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  return {scenario.profile, scenario.network, workers, all_reduce(scenario, schedule), scenario.conditions};
}

/// The iteration time of the plan that the schedule makes under its own pipeline, as the framework makes of
/// it; none where that is not comparable with a simulation.
std::optional<double> emitted_us(std::string_view target, const Scenario& scenario, std::int64_t workers,
                                 const Schedule& schedule) {
  const planner::Conditions& conditions = scenario.conditions;
  if (conditions.fidelity != planner::Fidelity::closed || conditions.workers_differ() ||
      planner::goes_by_layer(schedule))
    return std::nullopt;
  const Setting setting = setting_of(scenario, workers, schedule);
  const planner::Run run = planner::run(setting, schedule);
  const planner::PlanFile plan = planner::make_plan(setting, schedule, run);
  try {
    return emit(target, scenario, setting, schedule, plan, run.groups)
        .json["makes"]["iteration_us"]
        .get<double>();
  } catch (const core::InputError&) {  // the framework cannot have this plan
    return std::nullopt;
  }
}

Planned plan_for_target(const Scenario& scenario, std::int64_t workers, const Schedule& given,
                        const PlanOptions& options) {
  const planner::Target& target = planner::entry(planner::emitters(), options.target).target();
  const Schedule offered = schedule_for(target, given);
  const Setting setting = setting_of(scenario, workers, offered);
  const ForTarget found = plan_for(target, setting, offered, scenario.all_reduce);
  Warnings warnings;
  warnings.add(found.run.warnings);
  if (scenario.conditions.memory && scenario.conditions.memory->cap_bytes)
    warn_of_memory(scenario, planner::memory_of(setting, found.run, found.run.timeline).peak,
                   fmt::format("a plan for {}", target.name), warnings);
  Planned out = {.plan = planner::make_plan(setting, found.schedule, found.run),
                 .warnings = warnings.texts(scenario),
                 .emission = {},
                 .explanation = {}};
  out.plan.target = target.name;
  out.plan.lower_bound_us = found.lower_bound_us;
  out.plan.optimality_gap_us =
      std::min(out.plan.optimality_gap_us, std::max(0.0, out.plan.iteration_us - found.lower_bound_us));
  if (const auto us = emitted_us(target.name, scenario, workers, given))
    out.plan.compared_with.push_back(
        {.schedule = fmt::format("{}, emitted for {}", given.name, target.name), .iteration_us = *us});
  if (!options.emit.empty())
    out.emission = emit(options.emit, scenario, setting, found.schedule, out.plan, found.run.groups);
  return out;
}

/// Whether the run holds more than the scenario's cap, and its groups were chosen for their time alone,
/// though they can be chosen within the cap. A search within it knows no constraints on the groups.
bool can_hold_less(const Setting& setting, const Schedule& schedule, const planner::Run& run) {
  const std::optional<planner::MemoryOptions>& memory = setting.conditions.memory;
  if (!memory || !memory->cap_bytes || schedule.fusion.kind != "optimal") return false;
  if (planner::constraints_of(schedule.fusion)) return false;
  return planner::total(planner::memory_of(setting, run, run.timeline).peak.bytes) > *memory->cap_bytes &&
         planner::has_memory_front(setting, schedule);
}

}  // namespace

Planned plan(const Scenario& scenario, std::int64_t workers, const Schedule& given,
             const PlanOptions& options) {
  return supported(scenario, workers, given, [&] {
    if (!options.target.empty()) return plan_for_target(scenario, workers, given, options);
    const Setting setting = setting_of(scenario, workers, given);
    Schedule schedule = given;
    planner::Run run = planner::run(setting, schedule);
    Warnings warnings;
    if (can_hold_less(setting, schedule, run)) {
      if (options.progress) options.progress(0, "the fastest plans for each amount of memory");
      schedule = memory_front(scenario, workers, given).chosen;
      run = planner::run(setting, schedule);
      const std::string text = fmt::format(
          "schedule '{}': its fastest plan holds more than the {} bytes of memory.cap_bytes; this is the "
          "fastest within them that --memory-front finds",
          core::printable(given.name), *scenario.conditions.memory->cap_bytes);
      warnings.add({{.subject = text, .weight = 0, .text = text}});
    }
    warnings.add(run.warnings);
    if (scenario.conditions.memory && scenario.conditions.memory->cap_bytes)
      warn_of_memory(scenario, planner::memory_of(setting, run, run.timeline).peak,
                     "a plan without --memory-front", warnings);
    Planned out = {.plan = planner::make_plan(setting, schedule, run),
                   .warnings = warnings.texts(scenario),
                   .emission = {},
                   .explanation = {}};
    if (!options.emit.empty())
      out.emission = emit(options.emit, scenario, setting, schedule, out.plan, run.groups);
    if (options.explain)
      out.explanation = planner::explain(setting, schedule, run, options.progress, options.combine);
    return out;
  });
}

Fronted memory_front(const Scenario& scenario, std::int64_t workers, const Schedule& schedule) {
  if (!scenario.conditions.memory)
    throw core::InputError(fmt::format(
        "{}: /memory: expected the memory of a worker, such as {{\"optimizer\": \"adam\"}}, got nothing",
        core::one_line(scenario.file.source())));
  return supported(scenario, workers, schedule, [&]() -> Fronted {
    const Setting setting(scenario.profile, scenario.network, workers, all_reduce(scenario, schedule),
                          scenario.conditions);
    planner::MemoryFront front = planner::memory_front(setting, schedule);
    Schedule chosen = planner::schedule_of(schedule, front.plans[front.chosen]);
    return {.front = std::move(front), .chosen = std::move(chosen)};
  });
}

Considered consider(const Scenario& scenario, std::int64_t workers, const Schedule& schedule,
                    const planner::ConsiderOptions& options) {
  return supported(scenario, workers, schedule, [&] {
    const Setting setting(scenario.profile, scenario.network, workers, all_reduce(scenario, schedule),
                          scenario.conditions);
    Considered out = {.consideration = planner::consider(setting, schedule, options), .warnings = {}};
    Warnings warnings;
    warnings.add(out.consideration.warnings);
    out.warnings = warnings.texts(scenario);
    return out;
  });
}

}  // namespace scenarios
