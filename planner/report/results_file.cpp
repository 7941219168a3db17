// Reads a fusewise.results file, of which a report shows the iterations.

#include <array>
#include <limits>

#include "core/limits.hpp"
#include "planner/report/report.hpp"
#include "planner/scenarios/results_text.hpp"

namespace report {
namespace {

using core::Field;

constexpr double kMaxNumber = std::numeric_limits<double>::max();

planner::Interval read_interval(const Field& field) {
  field.allow_only({"low_us", "high_us", "share", "samples", "slower_share"});
  planner::Interval out = {
      .low_us = field.at("low_us").number(0, kMaxNumber),
      .high_us = field.at("high_us").number(0, kMaxNumber),
      .samples = field.at("samples").integer(1, std::numeric_limits<std::int64_t>::max())};
  if (const auto share = field.find("slower_share")) out.slower_share = share->number(0, 1);
  return out;
}

/// A stage without its memory.
planner::StageMetrics read_stage(const Field& field) {
  const auto us = [&](const char* key) { return field.at(key).number(0, kMaxNumber); };
  return {.stage = field.at("stage").integer(0, core::kMaxWorkers),
          .groups = field.at("groups").integer(0, std::numeric_limits<std::int64_t>::max()),
          .forward_us = us("forward_us"),
          .backward_us = us("backward_us"),
          .bubble_us = us("bubble_us"),
          .communication_us = us("communication_us"),
          .passes_end_us = us("passes_end_us"),
          .end_us = us("end_us")};
}

scenarios::Entry read_entry(const Field& field) {
  scenarios::Entry out = {.schedule = field.at("schedule").text(),
                          .pipeline = field.at("pipeline").text(),
                          .fusion = field.at("fusion").text(),
                          .compression = field.at("compression").text()};
  out.metrics.workers = field.at("workers").integer(1, 1'000'000);
  out.metrics.groups = field.at("groups").integer(0, std::numeric_limits<std::int64_t>::max());
  for (const auto& [name, number] : scenarios::result_numbers())
    out.metrics.*number = field.at(name).number(0, kMaxNumber);
  if (const auto interval = field.find("interval")) out.interval = read_interval(*interval);
  if (const auto stages = field.find("stages"))
    for (const Field& stage : stages->items()) out.stages.push_back(read_stage(stage));
  return out;
}

scenarios::PhaseResult read_phase(const Field& field) {
  field.allow_only({"name", "schedule", "epochs", "iterations_per_epoch", "first_epoch_iteration_us",
                    "iteration_us", "seconds"});
  const auto number = [&](const char* key) { return field.at(key).number(0, kMaxNumber); };
  const auto count = [&](const char* key) {
    return field.at(key).integer(1, std::numeric_limits<std::int64_t>::max());
  };
  return {.name = field.at("name").text(),
          .schedule = field.at("schedule").text(),
          .epochs = count("epochs"),
          .iterations_per_epoch = count("iterations_per_epoch"),
          .first_epoch_iteration_us = number("first_epoch_iteration_us"),
          .iteration_us = number("iteration_us"),
          .seconds = number("seconds")};
}

scenarios::JobResult read_job(const Field& field) {
  field.allow_only({"workers", "seconds", "cost", "phases"});
  scenarios::JobResult out = {.workers = field.at("workers").integer(1, core::kMaxWorkers),
                              .phases = {},
                              .seconds = field.at("seconds").number(0, kMaxNumber),
                              .cost = {}};
  if (const auto cost = field.find("cost")) out.cost = cost->number(0, kMaxNumber);
  for (const Field& phase : field.at("phases").non_empty_items()) out.phases.push_back(read_phase(phase));
  return out;
}

}  // namespace

scenarios::Results read_results(const Field& file) {
  file.check_format("fusewise.results");
  file.allow_only({"format", "version", "scenario", "warnings", "results", "jobs"});
  scenarios::Results out = {
      .scenario = file.at("scenario").text(), .warnings = {}, .entries = {}, .jobs = {}};
  for (const Field& warning : file.at("warnings").items()) out.warnings.push_back(warning.text());
  for (const Field& entry : file.at("results").non_empty_items()) out.entries.push_back(read_entry(entry));
  if (const auto jobs = file.find("jobs"))
    for (const Field& job : jobs->items()) out.jobs.push_back(read_job(job));
  return out;
}

}  // namespace report
