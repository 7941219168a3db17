#include "validate/suite/judge.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/text_table.hpp"

namespace suite {
namespace {

using core::percent;

constexpr double kPlansDiffer = 0.05;
constexpr double kGainThatMustShow = 0.05;

bool is_judged(const Row& row) { return row.verdict != Verdict::not_judged; }

/// Returns the predicted time divided by the time of each iteration: the median over all runs.
live::Median share_of(const std::vector<const CaseRun*>& runs, const auto& predicted_us) {
  std::vector<double> out;
  for (const CaseRun* run : runs)
    for (const double us : run->iterations_us) out.push_back(us / predicted_us(*run));
  return live::median_of(std::move(out));
}

void add_errors(const std::vector<const CaseRun*>& runs, Row& row) {
  std::vector<double> iterations;
  std::vector<double> predicted;
  std::vector<double> alpha_beta;
  for (const CaseRun* run : runs) {
    iterations.insert(iterations.end(), run->iterations_us.begin(), run->iterations_us.end());
    predicted.push_back(run->predicted_us);
    if (run->alpha_beta_us) alpha_beta.push_back(*run->alpha_beta_us);
  }
  row.measured_us = live::median_of(std::move(iterations));
  row.predicted_us = live::median_of(std::move(predicted)).value;
  const live::Median share = share_of(runs, [](const CaseRun& run) { return run.predicted_us; });
  row.error = 1 / share.value - 1;
  row.error_low = 1 / share.max - 1;
  row.error_high = 1 / share.min - 1;
  if (alpha_beta.size() < runs.size()) return;
  row.alpha_beta_us = live::median_of(std::move(alpha_beta)).value;
  row.alpha_beta_error = 1 / share_of(runs, [](const CaseRun& run) { return *run.alpha_beta_us; }).value - 1;
}

Row measured(const Case& of, const Tolerance& tolerance) {
  Row row = {.of = of};
  std::vector<const CaseRun*> quiet;
  for (const CaseRun& run : of.runs)
    if (run.noise.empty())
      quiet.push_back(&run);
    else
      row.why = fmt::format("{}", fmt::join(run.noise, ", "));
  if (!quiet.empty()) row.why.clear();
  if (of.runs.empty()) row.why = "not run";
  if (quiet.empty())  // shown nevertheless
    for (const CaseRun& run : of.runs) quiet.push_back(&run);
  if (quiet.empty()) return row;
  add_errors(quiet, row);
  if (row.why.empty())
    row.verdict = std::abs(row.error) <= tolerance.worst ? Verdict::passed : Verdict::failed;
  return row;
}

using Group = std::vector<Row*>;

const Row* find(const Group& group, Part part) {
  const auto found = std::ranges::find_if(group, [&](const Row* row) { return row->of.part == part; });
  return found == group.end() || !is_judged(**found) ? nullptr : *found;
}

void add_null_errors(const Group& group) {
  const Row* wfbp = find(group, Part::wfbp);
  const Row* one = find(group, Part::one_group);
  if (wfbp == nullptr || one == nullptr) return;
  const double null_us = std::min(wfbp->measured_us.value, one->measured_us.value);
  for (Row* row : group)
    if (is_judged(*row)) row->null_error = null_us / row->measured_us.value - 1;
}

bool all_judged(const Group& group) {
  return std::ranges::all_of(group, [](const Row* row) { return is_judged(*row); });
}

Ranking ranking(const Group& group, const Tolerance& tolerance) {
  Ranking out = {.group = group.front()->of.group};
  if (!all_judged(group)) return out;
  const Row* predicted = *std::ranges::min_element(
      group, [](const Row* a, const Row* b) { return a->predicted_us < b->predicted_us; });
  const Row* best = *std::ranges::min_element(
      group, [](const Row* a, const Row* b) { return a->measured_us.value < b->measured_us.value; });
  out.predicted_best = predicted->of.name;
  out.measured_best = best->of.name;
  out.loss = predicted->measured_us.value / best->measured_us.value - 1;
  out.verdict = out.loss <= tolerance.ranking ? Verdict::passed : Verdict::failed;
  return out;
}

bool plans_differ(const Group& group) {
  double min = 0;
  double max = 0;
  for (const Row* row : group) {
    if (!is_judged(*row)) continue;
    min = min == 0 ? row->measured_us.value : std::min(min, row->measured_us.value);
    max = std::max(max, row->measured_us.value);
  }
  return min > 0 && max / min - 1 > kPlansDiffer;
}

void add(Errors& errors, double error) {
  errors.mean = (errors.mean * static_cast<double>(errors.cases) + std::abs(error)) /
                static_cast<double>(errors.cases + 1);
  errors.worst = std::max(errors.worst, std::abs(error));
  ++errors.cases;
}

/// The exact plan must be faster than DDP's if a clear gain was predicted.
void check_gain(const Group& group, std::vector<std::string>& faults) {
  const Row* exact = find(group, Part::exact);
  const Row* ddp = find(group, Part::ddp);
  if (exact == nullptr || ddp == nullptr) return;
  const double predicted = 1 - exact->predicted_us / ddp->predicted_us;
  if (predicted >= kGainThatMustShow && exact->measured_us.value >= ddp->measured_us.value)
    faults.push_back(fmt::format("{}: '{}' was predicted {} faster than '{}' and is not", exact->of.group,
                                 exact->of.name, percent(predicted), ddp->of.name));
}

void check_mean(std::string_view what, const Errors& errors, double max, std::vector<std::string>& faults) {
  if (errors.cases > 0 && errors.mean > max)
    faults.push_back(
        fmt::format("mean error of {} cases is {}, over {}", what, percent(errors.mean), percent(max)));
}

void find_faults(Report& report, const Tolerance& tolerance) {
  std::vector<std::string>& faults = report.faults;
  for (const Row& row : report.rows)
    if (row.verdict == Verdict::failed)
      faults.push_back(fmt::format("{}: '{}' is off by {}, over {}", row.of.group, row.of.name,
                                   percent(std::abs(row.error)), percent(tolerance.worst)));
  check_mean("dense", report.dense, tolerance.mean, faults);
  check_mean("compressed and sparse", report.lossy, tolerance.lossy_mean, faults);
  for (const Ranking& each : report.rankings)
    if (each.verdict == Verdict::failed)
      faults.push_back(fmt::format("{}: '{}', predicted best, takes {} longer than '{}'", each.group,
                                   each.predicted_best, percent(each.loss), each.measured_best));
  const Errors& ours = report.ours_where_plans_differ;
  const Errors& null = report.null_where_plans_differ;
  if (ours.cases > 0 && null.mean < tolerance.null_times * ours.mean)
    faults.push_back(
        fmt::format("where plans differ the null predictor is off by {}, less than {} times our {}",
                    percent(null.mean), tolerance.null_times, percent(ours.mean)));
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed: return "passed";
    case Verdict::failed: return "failed";
    case Verdict::not_judged: break;
  }
  return "not judged";
}

Report judge(std::span<const Case> cases, const Tolerance& tolerance) {
  Report report;
  for (const Case& each : cases) report.rows.push_back(measured(each, tolerance));
  std::vector<std::string> names;
  std::map<std::string, Group> groups;
  for (Row& row : report.rows) {
    Group& group = groups[row.of.group];
    if (group.empty()) names.push_back(row.of.group);
    group.push_back(&row);
  }
  for (const std::string& each : names) {
    const Group& group = groups[each];
    add_null_errors(group);
    if (group.size() > 1) report.rankings.push_back(ranking(group, tolerance));
    check_gain(group, report.faults);
    if (!plans_differ(group)) continue;
    for (const Row* row : group) {
      if (!row->null_error || !row->alpha_beta_error) continue;
      add(report.ours_where_plans_differ, row->error);
      add(report.null_where_plans_differ, *row->null_error);
      add(report.alpha_beta_where_plans_differ, *row->alpha_beta_error);
    }
  }
  for (const Row& row : report.rows) {
    if (is_judged(row))
      add(row.of.is_dense ? report.dense : report.lossy, row.error);
    else
      ++report.not_judged;
  }
  find_faults(report, tolerance);
  return report;
}

}  // namespace suite
