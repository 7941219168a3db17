// A small model and its plans, for tests of live runs.

#pragma once

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "collectives/transport/in_process.hpp"
#include "planner/schedule/schedule.hpp"
#include "tests/support/temporary_folder.hpp"
#include "validate/live/predict.hpp"
#include "validate/live/run.hpp"
#include "validate/live/runnable.hpp"
#include "validate/live/worker.hpp"
#include "validate/live/worker_group.hpp"

namespace live_tests {

/// A profile with layers of fractions of a millisecond, one of them without tensors. Sizes that ten divides
/// are matrices of ten rows, the others vectors.
inline core::Profile small_profile() {
  core::Profile out = {.model = "small",
                       .batch_size = 1,
                       .dtype = core::Dtype::float32,
                       .device = "none",
                       .origin = {.kind = core::OriginKind::estimated, .source = "made up"},
                       .layers = {}};
  const std::vector<std::vector<std::int64_t>> elements = {{90}, {}, {7, 130}, {64}, {33, 250}, {400}};
  for (std::size_t i = 0; i < elements.size(); ++i) {
    core::ProfileLayer layer = {.name = "layer" + std::to_string(i),
                                .kind = "linear",
                                .forward_us = 150,
                                .backward_us = 250.0 + 50 * static_cast<double>(i)};
    for (std::size_t t = 0; t < elements[i].size(); ++t)
      layer.tensors.push_back({.name = layer.name + "." + std::to_string(t),
                               .elements = elements[i][t],
                               .shape = elements[i][t] % 10 == 0
                                            ? std::vector{std::int64_t{10}, elements[i][t] / 10}
                                            : std::vector{elements[i][t]}});
    out.layers.push_back(layer);
  }
  return out;
}

inline live::RunSpec spec_for(const std::string& schedule, std::uint32_t workers) {
  live::RunSpec spec;
  spec.name = schedule;
  spec.profile = small_profile();
  spec.schedule = planner::read_schedule(core::Field::parse(schedule, "schedule"));
  spec.workers = workers;
  spec.iterations = 2;
  spec.warm_up = 1;
  return spec;
}

/// A calibration without measurements: a link whose times hardly matter in these tests.
inline live::Calibration made_up(const live::RunSpec& spec) {
  live::Calibration out;
  out.profile = spec.profile;
  out.network.name = "made up";
  out.network.link = core::Link{.alpha_us = 20, .beta_us_per_byte = 0.01};
  if (live::needs_nodes(spec))
    out.network.levels = {{.name = "inside", .size = spec.workers_per_node, .link = *out.network.link},
                          {.name = "between", .size = {}, .link = *out.network.link}};
  return out;
}

/// Writes a scenario with that profile and an arbitrary network.
inline std::string scenario_file(const support::TemporaryFolder& folder, const std::string& schedules,
                                 const std::string& workers = "2") {
  return folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "name": "s", "workers": )" +
                                  workers + R"(,
    "profile": )" + core::profile_text(small_profile()) +
                                  R"(, "network": {"format": "fusewise.network", "version": 1, "name": "n",
    "origin": {"kind": "estimated", "source": "made up"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.01}},
    "schedules": )" + schedules + "}");
}

struct Ran {
  live::Prediction prediction;
  std::vector<live::WorkerRecord> workers;
};

/// Runs the workers as threads of this process.
inline Ran run(const live::RunSpec& spec) {
  const live::Calibration calibration = made_up(spec);
  Ran out = {.prediction = live::predict(spec, calibration),
             .workers = std::vector<live::WorkerRecord>(spec.workers)};
  transport::run_ranks(spec.workers, [&](transport::Transport& transport) {
    out.workers[transport.rank()] = live::run_worker(transport, spec, calibration.profile, out.prediction,
                                                     {.deadline = std::chrono::seconds(20)});
  });
  return out;
}

/// Kills rank 1 of a run in its third iteration.
struct Killer {
  std::vector<pid_t> pids = {};
  bool has_killed = false;

  /// The hooks refer to this object.
  live::WorkerGroupHooks hooks() {
    return {.on_started = [this](const std::vector<pid_t>& started) { pids = started; },
            .on_phase =
                [this](std::uint32_t rank, const std::string& phase) {
                  if (rank != 1 || phase != "iteration 2" || has_killed) return;
                  has_killed = true;
                  ::kill(pids[1], SIGKILL);
                }};
  }
  /// The expected beginning of the error message.
  std::string said() const {
    return "worker 1 (pid " + std::to_string(pids[1]) + ") was killed by signal 9 (Killed) in iteration ";
  }
};

}  // namespace live_tests
