#include "planner/scenarios/results_text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/field.hpp"
#include "core/quantities.hpp"
#include "core/text_table.hpp"
#include "planner/scenarios/fitted_table.hpp"

namespace scenarios {
namespace {

using core::ms;
using core::size_text;
using planner::Metrics;

/// The share that a time saves of another one; nothing is saved of a time of 0.
std::string saved(double us, double other_us) {
  const double share = 1 - us / other_us;
  return std::isfinite(share) ? fmt::format("{:.1f} %", 100 * share) : "-";
}

/// By entry: "*" for the fastest on its number of workers. Where another one is not certainly slower, both
/// get "=".
std::vector<std::string_view> ranks(const Results& results) {
  struct Best {
    const Entry* first = nullptr;
    bool is_shared = false;
  };
  std::map<std::int64_t, Best> best;  // by workers
  for (const Entry& entry : results.entries) {
    const Entry*& first = best[entry.metrics.workers].first;
    if (first == nullptr || entry.metrics.iteration_us < first->metrics.iteration_us) first = &entry;
  }
  for (const Entry& entry : results.entries) {
    Best& own = best[entry.metrics.workers];
    if (is_as_fast(entry, *own.first)) own.is_shared = true;
  }
  std::vector<std::string_view> out;
  for (const Entry& entry : results.entries) {
    const Best& own = best[entry.metrics.workers];
    const bool is_fastest = entry.metrics.iteration_us == own.first->metrics.iteration_us;
    const bool is_equal = is_as_fast(entry, *own.first) || (is_fastest && own.is_shared);
    out.push_back(is_equal ? "=" : is_fastest ? "*" : "");
  }
  return out;
}

/// Formats "fc.bias .. layer4.2.bn3.weight", or the only name.
std::string span_of(const std::vector<std::string>& tensors) {
  return tensors.size() == 1 ? tensors.front() : fmt::format("{} .. {}", tensors.front(), tensors.back());
}

std::string pipeline_words(const planner::PlanFile& plan) {
  return plan.target.empty() ? plan.pipeline
                             : fmt::format("{} as {} behaves", plan.pipeline, core::one_line(plan.target));
}

/// The transfer of a group if it differs from the plan's.
std::string transfer_of(const planner::PlanGroup& group) {
  std::string out;
  if (group.transfer.all_reduce) out = group.transfer.all_reduce->name + " all-reduce";
  if (!group.transfer.compressor) return out;
  const planner::Compressor& compressor = *group.transfer.compressor;
  return (out.empty() ? "" : out + ", ") +
         (compressor.is_none() ? "uncompressed" : "compressed by " + planner::described(compressor));
}

std::string interval_title() { return fmt::format("{:g} % interval", 100 * planner::kIntervalShare); }

/// How the intervals were found; nothing if there are none.
std::string interval_note(const Results& results) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
  for (const Entry& entry : results.entries) {
    if (!entry.interval) continue;
    fewest = std::min(fewest, entry.interval->samples);
    most = std::max(most, entry.interval->samples);
  }
  if (most == 0) return "";
  return fmt::format("{} = of {} iterations drawn from the spread of the inputs\n", interval_title(),
                     fewest == most ? fmt::to_string(most) : fmt::format("{} to {}", fewest, most));
}

/// One row per phase and a total row per number of workers.
std::string job_table(const Results& results, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {{"workers", "phase", "schedule", "epochs",
                                                 "iterations an epoch", "first epoch ms", "iteration ms",
                                                 "seconds", "cost"}};
  for (const JobResult& job : results.jobs) {
    for (const PhaseResult& phase : job.phases)
      rows.push_back({fmt::to_string(job.workers), phase.name, phase.schedule, fmt::to_string(phase.epochs),
                      fmt::to_string(phase.iterations_per_epoch), ms(phase.first_epoch_iteration_us),
                      ms(phase.iteration_us), fmt::format("{:.1f}", phase.seconds), ""});
    rows.push_back({fmt::to_string(job.workers), "all of the job", "", "", "", "", "",
                    fmt::format("{:.1f}", job.seconds), job.cost ? fmt::format("{:.2f}", *job.cost) : ""});
  }
  if (rows.size() == 1) return "";
  return '\n' + fitted_table(rows, width,
                             {.left = {1, 2},
                              .name = 2,
                              .unit = "",
                              .columns = {"first epoch ms", "iterations an epoch", "epochs"},
                              .complete = "--json"});
}

/// One row per change of each entry.
std::string what_if_table(const Results& results, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {
      {"workers", "schedule", "what if", "iteration ms", "exposed ms", "saves"}};
  for (const Entry& entry : results.entries)
    for (const Changed& each : entry.what_if)
      rows.push_back({fmt::to_string(entry.metrics.workers), entry.schedule, each.change,
                      ms(each.metrics.iteration_us), ms(each.metrics.exposed_communication_us),
                      saved(each.metrics.iteration_us, entry.metrics.iteration_us)});
  if (rows.size() == 1) return "";
  return '\n' +
         fitted_table(rows, width,
                      {.left = {1, 2}, .name = 1, .unit = " ms", .columns = {}, .complete = ""}) +
         "the groups stay as they are; the best plan under a change may be another, as plan --explain says\n";
}

bool has_stages(const Results& results) {
  return std::ranges::any_of(results.entries, [](const Entry& entry) { return !entry.stages.empty(); });
}

std::string mb(std::int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / 1e6); }

void add_memory(std::vector<std::string>& row, const planner::MemoryPeak& memory) {
  row.push_back(mb(planner::total(memory.bytes)));
  const std::size_t first = row.size();
  for (const std::int64_t part : memory.bytes) row.push_back(mb(part));
  if (!memory.has_activations) row[first + static_cast<std::size_t>(planner::MemoryPart::activations)] = "-";
  row.push_back(ms(sim::to_us(memory.at)));
}

/// One row per entry whose memory is asked for, or per stage of each.
std::string memory_table(const Results& results, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {{"workers", "schedule"}};
  if (has_stages(results)) rows.front().emplace_back("stage");
  rows.front().emplace_back("peak MB");
  for (const std::string_view part : planner::kMemoryParts) rows.front().emplace_back(part);
  rows.front().emplace_back("at ms");
  for (const Entry& entry : results.entries) {
    if (!entry.memory) continue;
    const std::vector<std::string> row = {fmt::to_string(entry.metrics.workers), entry.schedule};
    if (entry.stages.empty()) add_memory(rows.emplace_back(row), *entry.memory);
    for (const planner::StageMetrics& stage : entry.stages) {
      rows.push_back(row);
      rows.back().push_back(fmt::to_string(stage.stage));
      add_memory(rows.back(), stage.memory.value());
    }
  }
  if (rows.size() == 1) return "";
  return '\n' + fitted_table(rows, width,
                             {.left = {1},
                              .name = 1,
                              .unit = "",
                              .columns = {"master", "at ms", "buffers", "gathered", "gradients"},
                              .complete = "--json"});
}

/// One row per stage of each entry.
std::string stage_table(const Results& results, std::size_t width) {
  std::vector<std::vector<std::string>> rows = {{"workers", "schedule", "stage", "groups", "forward ms",
                                                 "backward ms", "bubble ms", "channel ms", "passes end ms",
                                                 "end ms"}};
  for (const Entry& entry : results.entries)
    for (const planner::StageMetrics& stage : entry.stages)
      rows.push_back({fmt::to_string(entry.metrics.workers), entry.schedule, fmt::to_string(stage.stage),
                      fmt::to_string(stage.groups), ms(stage.forward_us), ms(stage.backward_us),
                      ms(stage.bubble_us), ms(stage.communication_us), ms(stage.passes_end_us),
                      ms(stage.end_us)});
  if (rows.size() == 1) return "";
  return '\n' +
         fitted_table(rows, width,
                      {.left = {1},
                       .name = 1,
                       .unit = " ms",
                       .columns = {"passes end", "channel", "groups"},
                       .complete = "--json"}) +
         "bubble = waiting for other stages if collectives took no time; exposed = what collectives add to "
         "the passes of all stages\n";
}

/// The worker for which the others wait most, and its share of all waiting.
std::string most_waited_for(const planner::WorkerReport& report, std::int64_t workers) {
  if (report.waited_for.empty()) return "-";
  const planner::WorkerTime& first = report.waited_for.front();
  const double all = report.waiting.mean_us * static_cast<double>(workers);
  return fmt::format("{} ({:.0f} %)", first.worker, 100 * first.us / all);
}

/// What the critical path consists of, as far as it was traced.
std::string path_words(const planner::WorkerReport& report) {
  const auto& path = report.critical_path;
  if (!path) return "-";
  const double whole_us = path->communicating_us + path->computing_us + path->untraced_us;
  std::string out = fmt::format("{:.0f} % communication", 100 * path->communicating_us / whole_us);
  if (!path->senders.empty())
    out += fmt::format(", {:.0f} % of it messages of worker {}",
                       100 * path->senders.front().us / path->communicating_us, path->senders.front().worker);
  if (path->untraced_us > 0)
    out += fmt::format(", {:.0f} % not traced", std::max(1.0, 100 * path->untraced_us / whole_us));
  return out;
}

/// One row per entry whose workers differ.
std::string worker_table(const Results& results, std::size_t width) {
  Rows rows = {{"workers", "schedule", "p50 ms", "p95 ms", "p99 ms", "waiting ms", "longest ms", "for worker",
                "critical path"}};
  const bool has_links = std::ranges::any_of(results.entries, [](const Entry& entry) {
    return entry.by_worker && !entry.by_worker->utilisation.links.empty();
  });
  if (has_links) rows.front().emplace_back("busiest link");
  for (const Entry& entry : results.entries) {
    if (!entry.by_worker) continue;
    const planner::WorkerReport& report = *entry.by_worker;
    rows.push_back({fmt::to_string(entry.metrics.workers), entry.schedule, ms(report.iteration.p50_us),
                    ms(report.iteration.p95_us), ms(report.iteration.p99_us), ms(report.waiting.mean_us),
                    ms(report.waiting.max_us), most_waited_for(report, entry.metrics.workers),
                    path_words(report)});
    const auto& links = report.utilisation.links;
    if (has_links)
      rows.back().push_back(links.empty() ? "-"
                                          : fmt::format("{} {:.0f} %", core::one_line(links.front().link),
                                                        100 * links.front().share));
  }
  if (rows.size() == 1) return "";
  const std::string table = fitted_table(rows, width,
                                         {.left = {1, 7, 8, 9},
                                          .name = 1,
                                          .unit = " ms",
                                          .columns = {"busiest link", "critical path", "for worker"},
                                          .complete = "--json"});
  const bool has_worker = table.find("for worker") < table.find('\n');
  return '\n' + table +
         "p50, p95, p99 = of iterations; waiting = of a worker for others, in the mean and longest" +
         (has_worker ? ", and for whom most\n" : "\n");
}

}  // namespace

std::vector<std::string> without_folders(std::vector<std::string> names) {
  std::vector<std::string> out;
  for (const std::string& name : names) {
    std::istringstream words(name);
    std::string& shorter = out.emplace_back();
    for (std::string word; std::getline(words, word, ' ');)
      shorter += (shorter.empty() ? "" : " ") + word.substr(word.rfind('/') + 1);
  }
  const auto count = [](const std::vector<std::string>& all) {
    return std::set<std::string>(all.begin(), all.end()).size();
  };
  return count(out) == count(names) ? out : names;
}

std::string results_table(Results results, std::size_t width) {
  std::vector<std::string> names;
  for (const Entry& entry : results.entries) names.push_back(entry.schedule);
  names = without_folders(std::move(names));
  for (std::size_t i = 0; i < names.size(); ++i) results.entries[i].schedule = names[i];
  Rows rows = {{"workers", "schedule", "groups", "iteration ms", "exposed ms", "channel ms", "samples/s",
                "speedup", "efficiency", ""}};
  const std::string intervals = interval_note(results);
  constexpr std::size_t kBeforeInterval = 4;
  if (!intervals.empty())
    rows.front().insert(rows.front().begin() + kBeforeInterval, interval_title() + " ms");
  const std::vector<std::string_view> marks = ranks(results);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Entry& entry = results.entries[i];
    const Metrics& p = entry.metrics;
    rows.push_back({fmt::to_string(p.workers), entry.schedule, fmt::to_string(p.groups), ms(p.iteration_us),
                    ms(p.exposed_communication_us), ms(p.communication_us),
                    fmt::format("{:.1f}", p.throughput_samples_per_s), fmt::format("{:.2f}", p.speedup),
                    fmt::format("{:.1f} %", 100 * p.scaling_efficiency), std::string(marks[i])});
    if (!intervals.empty())
      rows.back().insert(
          rows.back().begin() + kBeforeInterval,
          !entry.interval ? "-"
                          : fmt::format("{} to {}", ms(entry.interval->low_us), ms(entry.interval->high_us)));
  }
  std::vector<std::string_view> left_out = {"speedup", "channel"};
  if (!intervals.empty()) left_out.insert(left_out.end(), {"samples/s", "groups"});
  std::string out = fitted_table(std::move(rows), width,
                                 {.left = {1},
                                  .has_marks = true,
                                  .name = 1,
                                  .unit = " ms",
                                  .columns = std::move(left_out),
                                  .complete = "--csv"});
  out += has_stages(results) ? "iteration = forward + backward + bubble"
                             : "iteration = forward + backward + coding";
  const bool has_channel = out.find("channel") < out.find('\n');
  out +=
      " + exposed communication + update + unoverlapped input (or an overlapped input that takes longer)\n";
  out += has_channel ? "channel = communication, hidden or not; * fastest" : "* fastest";
  out += std::ranges::count(marks, "=") > 0
             ? "; = not told apart: not slower in 97.5 % of the iterations drawn\n"
             : "\n";
  return out + intervals + stage_table(results, width) + memory_table(results, width) +
         worker_table(results, width) + what_if_table(results, width) + job_table(results, width);
}

std::string optimality_words(const planner::PlanFile& plan, std::string_view exact) {
  switch (plan.optimality) {
    case planner::Optimality::exact: return fmt::format("exact: {}", exact);
    case planner::Optimality::given: return "the schedule's own groups, not optimised";
    case planner::Optimality::heuristic: break;
  }
  return plan.optimality_gap_us > 0
             ? fmt::format("heuristic: a better one may save {} ms", ms(plan.optimality_gap_us))
             : "heuristic";
}

std::string lower_bound_label(const planner::PlanFile& plan) {
  return fmt::format("lower bound of pipeline {}", pipeline_words(plan));
}

std::string plan_table(const planner::PlanFile& plan) {
  const bool is_predicted = plan.iteration_us > 0 || !plan.compared_with.empty();
  const planner::Program program = planner::pipeline(plan.pipeline).program(1, plan.options);
  const bool is_all_reduced = program.has_all_reduces_alone();
  std::string out = fmt::format(
      "{} on {}, pipeline {}, {} {}{}: {}{}\n\n", core::one_line(plan.model),
      core::counted(plan.workers, "worker"), pipeline_words(plan), plan.all_reduce.name,
      !plan.target.empty() ? "costs"
      : is_all_reduced     ? "all-reduce"
                           : "collectives",
      plan.compressor.is_none() ? "" : ", compressed by " + planner::described(plan.compressor),
      core::counted(plan.groups.size(), "group"),
      is_predicted ? fmt::format(", {} ms per iteration ({})", ms(plan.iteration_us),
                                 optimality_words(plan, plan.target.empty()
                                                            ? "no other grouping is faster"
                                                            : "no other grouping that it can form is faster"))
                   : "");
  if (plan.data_types.any() || plan.recompute)
    out += fmt::format("data types: {}; recompute: {}\n\n", planner::data_types_words(plan.data_types),
                       planner::recompute_words(plan.recompute));
  std::vector<std::vector<std::string>> rows = {{"group", "tensors", "size", "in backward order", ""}};
  for (std::size_t i = 0; i < plan.groups.size(); ++i)
    rows.push_back({fmt::to_string(i + 1), fmt::to_string(plan.groups[i].tensors.size()),
                    size_text(static_cast<double>(plan.groups[i].bytes)), span_of(plan.groups[i].tensors),
                    transfer_of(plan.groups[i])});
  out += core::aligned(rows, {3, 4}) + '\n';
  if (!is_predicted)
    return out +
           "the plan holds no prediction: a scenario with the fusion {\"kind\": \"plan\", \"file\": PLAN} "
           "predicts its iteration time\n";

  if (plan.sampled)
    out += fmt::format(
        "{} of {} sampled iterations: {} ms; of the exact plan of the mean {} ms; no plan beats {} ms\n\n",
        plan.sampled->objective == "mean" ? "mean" : "95th percentile", plan.sampled->samples,
        ms(plan.sampled->iteration_us), ms(plan.sampled->exact_plan_us), ms(plan.sampled->lower_bound_us));
  rows = {{"schedule", "iteration ms", "this plan saves"}, {"this plan", ms(plan.iteration_us), ""}};
  for (const planner::ComparedPlan& other : plan.compared_with)
    rows.push_back({other.schedule, ms(other.iteration_us), saved(plan.iteration_us, other.iteration_us)});
  rows.push_back({lower_bound_label(plan), ms(plan.lower_bound_us), ""});
  return out + core::aligned(rows, {0});
}

}  // namespace scenarios
