#include "validate/suite/run.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/cost/costs.hpp"
#include "planner/run/metrics.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/execute.hpp"
#include "validate/live/predict.hpp"
#include "validate/live/prediction_file.hpp"
#include "validate/live/worker_group.hpp"
#include "validate/suite/external.hpp"
#include "validate/suite/noise.hpp"

namespace suite {
namespace {

/// Predicts the same groups by the alpha-beta model of the link alone; none if the network has no such cost.
std::optional<double> alpha_beta_us(const live::RunSpec& spec, const live::Calibration& calibration,
                                    const live::Prediction& prediction) {
  core::Network network = calibration.network;
  network.measured.clear();
  try {
    const planner::Setting setting(calibration.profile, network, spec.workers,
                                   spec.schedule.all_reduce.value_or(spec.all_reduce), spec.conditions);
    std::vector<planner::TransferCost> transfers;
    for (const planner::Transfer& transfer : prediction.transfers)
      transfers.push_back(planner::cost_of(setting, transfer));
    const planner::Simulated simulated =
        planner::simulate_groups(setting, spec.schedule, prediction.groups, std::move(transfers));
    return planner::summarize(setting, simulated).iteration_us;
  } catch (const core::Unsupported&) {
    return {};
  }
}

/// Writes all predictions to disk before anything runs.
class PredictionFileWriter {
 public:
  explicit PredictionFileWriter(std::filesystem::path file) : file_(std::move(file)) {}

  void add(const Group& group, const live::Calibration& calibration, const std::vector<live::RunSpec>& all,
           const std::vector<live::Prediction>& predictions) {
    if (file_.empty()) return;
    prediction_file_.add(group.name, calibration, all, predictions);
    core::write_file(file_, prediction_file_.text());
  }

 private:
  std::filesystem::path file_;
  live::PredictionFile prediction_file_;
};

struct GroupResult {
  std::vector<Case> cases;
  std::string place;
};

class GroupRun {
 public:
  GroupRun(const Group& group, const RunOptions& spec, PredictionFileWriter& prediction_file)
      : group_(group), spec_(spec), worker_group_(place_of(group, spec)), prediction_file_(prediction_file) {
    tell_warnings();
  }

  GroupResult run() {
    GroupResult out = {.cases = {}, .place = worker_group_.where()};
    for (const Plan& plan : group_.plans)
      out.cases.push_back({.group = group_.name,
                           .name = plan.name,
                           .compute = group_.compute,
                           .part = plan.part,
                           .is_dense = plan.is_dense,
                           .runs = {}});
    for (std::uint32_t repeat = 0; repeat < spec_.repeats; ++repeat) {
      predict();
      for (std::size_t i = 0; i < group_.plans.size(); ++i) out.cases[i].runs.push_back(run_of(i));
    }
    return out;
  }

 private:
  static live::Place place_of(const Group& group, const RunOptions& spec) {
    live::Place place = group.place;
    place.paced = spec.paced;
    return place;
  }

  void tell_warnings() {
    for (const std::string& warning : worker_group_.take_warnings()) spec_.on_line("warning: " + warning);
  }

  void predict() {
    std::vector<live::RunSpec> all;
    for (const Plan& plan : group_.plans) all.push_back(plan.spec);
    predictions_.clear();
    calibration_ = live::calibrate(worker_group_, all);
    std::string line = group_.name + ": predicted";
    for (const live::RunSpec& each : all) {
      predictions_.push_back(live::predict(each, calibration_));
      line += fmt::format("{} '{}' {:.2f} ms", predictions_.size() == 1 ? "" : ",", each.name,
                          predictions_.back().iteration_us / 1e3);
    }
    prediction_file_.add(group_, calibration_, all, predictions_);
    spec_.on_line(line);
    tell_warnings();
  }

  CaseRun run_of(std::size_t number) {
    spec_.next(fmt::format("{}: {}", group_.name, group_.plans[number].name));
    const live::RunSpec& spec = group_.plans[number].spec;
    const live::Prediction& prediction = predictions_[number];
    const live::Record record = live::execute(worker_group_, spec, calibration_, prediction);
    tell_warnings();
    return {.predicted_us = prediction.iteration_us,
            .alpha_beta_us = alpha_beta_us(spec, calibration_, prediction),
            .iterations_us = lengths_us(record),
            .noise = noise_of(record)};
  }

  const Group& group_;
  const RunOptions& spec_;
  live::WorkerGroup worker_group_;
  PredictionFileWriter& prediction_file_;
  live::Calibration calibration_;
  std::vector<live::Prediction> predictions_;
};

/// Adds runs of the same cases.
void add_runs(ExternalResult result, GroupResult& to) {
  to.place = std::move(result.place);
  if (to.cases.empty()) {
    to.cases = std::move(result.cases);
    return;
  }
  for (Case& each : result.cases)
    for (Case& known : to.cases)
      if (known.name == each.name) std::ranges::move(each.runs, std::back_inserter(known.runs));
}

bool all_pass(const std::vector<Case>& cases, const Tolerance& tolerance) {
  const Report report = judge(cases, tolerance);
  return std::ranges::all_of(report.rows, [](const Row& row) { return row.verdict == Verdict::passed; });
}

}  // namespace

std::size_t runs_of(const Suite& suite, const RunOptions& options) {
  std::size_t out = suite.programs.size();
  for (const Group& group : suite.groups) out += group.plans.size();
  return out * options.repeats;
}

Measured run(const Suite& suite, const RunOptions& spec) {
  Measured out;
  PredictionFileWriter prediction_file(spec.predictions);
  const auto add = [&](const std::string& name, const auto& once) {
    GroupResult result;
    for (std::uint32_t attempt = 1; attempt <= spec.attempts; ++attempt) {
      try {
        result = once();
      } catch (const core::EnvironmentError& error) {
        if (attempt == spec.attempts) throw core::EnvironmentError(fmt::format("{}: {}", name, error.what()));
        spec.on_line(fmt::format("{}: {}: trying again", name, error.what()));
        continue;
      }
      for (Case& each : result.cases) each.attempts = attempt;
      if (all_pass(result.cases, suite.tolerance)) break;
      if (attempt < spec.attempts)
        spec.on_line(fmt::format("{}: noisy, or outside tolerance: trying again", name));
    }
    out.places.push_back(fmt::format("{}: {}", name, result.place));
    std::ranges::move(result.cases, std::back_inserter(out.cases));
  };
  for (const Group& group : suite.groups)
    add(group.name, [&] { return GroupRun(group, spec, prediction_file).run(); });
  for (const Program& program : suite.programs)
    add(program.name, [&] {
      GroupResult all;
      for (std::uint32_t repeat = 0; repeat < spec.repeats; ++repeat) {
        spec.next(program.name);
        add_runs(run_program(program, spec.fusewise, suite.iterations, spec.on_line), all);
      }
      return all;
    });
  return out;
}

}  // namespace suite
