// Collects what a report shows: from a scenario, which is simulated and planned, or from results on file.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/field.hpp"
#include "planner/scenarios/run.hpp"

namespace report {

/// The data of a page. `data` has `title`, `kind` (scenario, results, sweep, accuracy, comparison, fit,
/// memory-front or live-validation) and, as far as there is something to show: `about`, `warnings`, `advice`,
/// `results`, `jobs`, `knees`, `texts`, `timelines`, `plan`, `sweep`, `accuracy`, `comparison`, `live`, `fit`
/// and `front`.
struct Report {
  std::string title;
  nlohmann::ordered_json data;
  std::vector<std::string> warnings;
};

struct Options {
  std::int64_t workers = 0;    ///< number of workers of the plan; 0: at the knee of the planned schedule
  planner::Schedule schedule;  ///< makes the plan
  bool is_default = false;     ///< whether it plans as scenarios::default_schedule() says
  std::function<void(const scenarios::Progress&)> progress = {};
  /// Called before each step of explaining and emitting the plan; `total` is their number.
  std::function<void(std::size_t total, const std::string& what)> steps = {};
};

/// Where a page of a scenario would become larger, its timelines show less detail, which is nearly always
/// enough.
constexpr std::size_t kMaxPageBytes = 3'000'000;

/// The most points of a sweep that a report computes.
constexpr std::size_t kMaxSweepPoints = 4000;

/// The most rows of a sweep that was run before: more would need more than kMaxPageBytes.
constexpr std::size_t kMaxSweepRows = 20'000;

/// What a report shows of each point of a sweep.
constexpr std::array<std::string_view, 4> kSweepNumbers = {"iteration_us", "exposed_communication_us",
                                                           "throughput_samples_per_s", "scaling_efficiency"};

/// Simulates and plans. Throws InputError as scenarios::run() does; if only the plan is impossible, the
/// report says why instead.
Report of_scenario(const scenarios::Scenario& scenario, const Options& options);

/// Reads the entries of a `fusewise.results` file with their intervals, and the warnings. Throws InputError.
scenarios::Results read_results(const core::Field& file);

/// Reads a `fusewise.results` file, which has no timelines and no plan.
Report of_results(const core::Field& file);

/// A sweep that was run before: `axes`, and for each of kSweepNumbers its values in the order of the product
/// of the axes, null where the file has no row.
Report of_sweep(const std::string& file, std::size_t rows, nlohmann::ordered_json sweep);

/// Reads a `fusewise.accuracy` file: predictions beside measurements.
Report of_accuracy(const core::Field& file);

/// Reads a `fusewise.comparison` file: a predicted and a measured iteration, or one before and one after a
/// change.
Report of_comparison(const core::Field& file);

/// Reads a `fusewise.fit` file: the error of each model of measured collectives, size by size.
Report of_fit(const core::Field& file);

/// Reads a `fusewise.memory-front` file: the fastest sharded plans for each amount of memory.
Report of_memory_front(const core::Field& file);

}  // namespace report
