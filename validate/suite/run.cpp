#include "validate/suite/run.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "models/errors.hpp"
#include "models/files.hpp"
#include "planner/costs.hpp"
#include "planner/measure.hpp"
#include "validate/live/calibrate.hpp"
#include "validate/live/crew.hpp"
#include "validate/live/execute.hpp"
#include "validate/live/frozen.hpp"
#include "validate/live/predict.hpp"
#include "validate/suite/external.hpp"
#include "validate/suite/noise.hpp"

namespace suite {
namespace {

/// The same groups by the link alone, as textbooks have it; none where the network has no such cost.
std::optional<double> alpha_beta_us(const live::Wishes& wishes, const live::Calibration& calibration,
                                    const live::Prediction& prediction) {
  traces::Network network = calibration.network;
  network.measured.clear();
  try {
    const planner::Setting setting(calibration.profile, network, wishes.workers,
                                   wishes.schedule.all_reduce.value_or(wishes.all_reduce), wishes.conditions);
    std::vector<planner::WayCost> ways;
    for (const planner::Way& way : prediction.ways)
      ways.emplace_back(*setting.network, setting.costs.workers(), way, setting.slowdown);
    const planner::Run run =
        planner::simulate_groups(setting, wishes.schedule, prediction.groups, std::move(ways));
    return planner::measure(setting, run).iteration_us;
  } catch (const planner::NoCost&) {
    return {};
  }
}

/// All that was predicted, on disk before it is run.
class FrozenFile {
 public:
  explicit FrozenFile(std::filesystem::path file) : file_(std::move(file)) {}

  void add(const Group& group, const live::Calibration& calibration, const std::vector<live::Wishes>& all,
           const std::vector<live::Prediction>& predictions) {
    if (file_.empty()) return;
    frozen_.add(group.name, calibration, all, predictions);
    models::write_file(file_, frozen_.text());
  }

 private:
  std::filesystem::path file_;
  live::Frozen frozen_;
};

struct GroupResult {
  std::vector<Case> cases;
  std::string place;
};

class GroupRun {
 public:
  GroupRun(const Group& group, const RunWishes& wishes, FrozenFile& frozen)
      : group_(group), wishes_(wishes), crew_(place_of(group, wishes)), frozen_(frozen) {
    for (const std::string& warning : crew_.warnings()) wishes_.tell("warning: " + warning);
  }

  GroupResult run() {
    GroupResult out = {.cases = {}, .place = crew_.where()};
    for (const Plan& plan : group_.plans)
      out.cases.push_back({.group = group_.name,
                           .name = plan.name,
                           .compute = group_.compute,
                           .part = plan.part,
                           .is_dense = plan.is_dense,
                           .runs = {}});
    for (std::uint32_t repeat = 0; repeat < wishes_.repeats; ++repeat) {
      predict();
      for (std::size_t i = 0; i < group_.plans.size(); ++i) out.cases[i].runs.push_back(run_of(i));
    }
    return out;
  }

 private:
  static live::Place place_of(const Group& group, const RunWishes& wishes) {
    live::Place place = group.place;
    place.paced = wishes.paced;
    return place;
  }

  void predict() {
    std::vector<live::Wishes> all;
    for (const Plan& plan : group_.plans) all.push_back(plan.wishes);
    predictions_.clear();
    calibration_ = live::calibrate(crew_, all);
    std::string line = group_.name + ": predicted";
    for (const live::Wishes& each : all) {
      predictions_.push_back(live::predict(each, calibration_));
      line += fmt::format("{} '{}' {:.2f} ms", predictions_.size() == 1 ? "" : ",", each.name,
                          predictions_.back().iteration_us / 1e3);
    }
    frozen_.add(group_, calibration_, all, predictions_);
    wishes_.tell(line);
  }

  CaseRun run_of(std::size_t number) {
    const live::Wishes& wishes = group_.plans[number].wishes;
    const live::Prediction& prediction = predictions_[number];
    const live::Record record = live::execute(crew_, wishes, calibration_, prediction);
    return {.predicted_us = prediction.iteration_us,
            .alpha_beta_us = alpha_beta_us(wishes, calibration_, prediction),
            .iterations_us = lengths_us(record),
            .noise = noise_of(record)};
  }

  const Group& group_;
  const RunWishes& wishes_;
  live::Crew crew_;
  FrozenFile& frozen_;
  live::Calibration calibration_;
  std::vector<live::Prediction> predictions_;
};

/// Of the same cases.
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

Measured run(const Suite& suite, const RunWishes& wishes) {
  Measured out;
  FrozenFile frozen(wishes.predictions);
  const auto add = [&](const std::string& name, const auto& once) {
    GroupResult result;
    for (std::uint32_t attempt = 1; attempt <= wishes.attempts; ++attempt) {
      try {
        result = once();
      } catch (const models::WorldError& error) {
        if (attempt == wishes.attempts) throw models::WorldError(fmt::format("{}: {}", name, error.what()));
        wishes.tell(fmt::format("{}: {}: once more", name, error.what()));
        continue;
      }
      for (Case& each : result.cases) each.attempts = attempt;
      if (all_pass(result.cases, suite.tolerance)) break;
      if (attempt < wishes.attempts) wishes.tell(fmt::format("{}: noisy, or off: once more", name));
    }
    out.places.push_back(fmt::format("{}: {}", name, result.place));
    std::ranges::move(result.cases, std::back_inserter(out.cases));
  };
  for (const Group& group : suite.groups)
    add(group.name, [&] { return GroupRun(group, wishes, frozen).run(); });
  for (const Program& program : suite.programs)
    add(program.name, [&] {
      GroupResult all;
      for (std::uint32_t repeat = 0; repeat < wishes.repeats; ++repeat)
        add_runs(run_program(program, wishes.fusewise, suite.iterations, wishes.tell), all);
      return all;
    });
  return out;
}

}  // namespace suite
