// fusewise simulate: simulates every schedule of a scenario on every number of workers.

#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"

namespace cli {
namespace {

struct Options {
  std::string scenario;
  bool json = false;
  bool csv = false;
  std::string output;
  std::string timeline;
  std::int64_t timeline_workers = 0;
  std::vector<std::int64_t> timeline_of;  ///< workers
  std::vector<std::string> what_if;
  std::int64_t samples = 0;
};

/// Checks the workers of --timeline-of.
void check_timeline_workers(const Options& options, const scenarios::Scenario& scenario,
                            std::int64_t workers) {
  const std::vector<std::int64_t>& shown = options.timeline_of;
  if (shown.empty()) return;
  if (scenario.parallel)
    throw core::InputError(
        "--timeline-of: expected a scenario without the key parallel, whose timeline shows every stage");
  if (scenario.conditions.overlap.slows())
    throw core::InputError(
        "--timeline-of: expected a scenario in which compute and channel do not slow each other");
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] >= workers)
      throw core::InputError(
          fmt::format("--timeline-of: expected workers from 0 to {}, got {}", workers - 1, shown[i]));
    if (std::find(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(i), shown[i]) !=
        shown.begin() + static_cast<std::ptrdiff_t>(i))
      throw core::InputError(fmt::format("--timeline-of: expected each worker once, got {} again", shown[i]));
  }
}

void simulate(const Options& options) {
  const scenarios::Scenario scenario = scenarios::read_scenario(load_scenario(options.scenario), true);
  scenarios::RunOptions run = {.progress = ProgressLine()};
  for (const std::string& text : options.what_if)
    run.changes.push_back(planner::read_change(text, scenario.profile));
  if (options.samples > 0) run.samples = options.samples;
  const scenarios::Results results = scenarios::run(scenario, run);
  const std::string rows = options.csv ? results_csv(results) : results_json(results);
  std::string timeline;
  if (!options.timeline.empty()) {
    const std::int64_t workers =
        options.timeline_workers > 0 ? options.timeline_workers : scenario.workers.back();
    check_timeline_workers(options, scenario, workers);
    if (options.timeline_workers == 0 && scenario.workers.size() > 1)
      print_progress(
          fmt::format("timeline: {} workers, the last number; --timeline-workers chooses another", workers));
    timeline = scenarios::timeline(scenario, workers, options.timeline_of);
  }

  std::vector<core::FileText> files;
  if (!options.output.empty()) files.push_back({options.output, rows});
  if (!options.timeline.empty()) files.push_back({options.timeline, timeline});
  core::write_files(files);
  print_warnings(results.warnings);
  if (!options.csv && options.output.ends_with(".csv"))
    print_warnings(
        {fmt::format("--output: {} holds JSON, as --csv is not given", core::one_line(options.output))});
  if (options.json || options.csv) return print(rows);
  print_for_people(results_table(results, terminal_width(STDOUT_FILENO)));
}

}  // namespace

void add_simulate(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command("simulate", "Simulate the schedules of a scenario");
  command.footer(
      "Example: fusewise simulate googlenet-k80 --what-if bandwidth=2\n"
      "For charts: fusewise report googlenet-k80");
  command
      .add_option("SCENARIO", options->scenario,
                  "a fusewise.scenario file, or a name that 'fusewise show scenarios' lists")
      .required();
  const Option json = command.add_flag("--json", options->json, "print results as JSON instead of a table");
  const Option csv = command.add_flag("--csv", options->csv, "print results as CSV instead of a table");
  csv.excludes(json);
  command.add_output("-o,--output", options->output,
                     "also write the results to this file (JSON, or CSV with --csv)");
  const Option timeline =
      command.add_output("--timeline", options->timeline,
                         "write a Chrome trace of every schedule to this file (for ui.perfetto.dev)");
  command
      .add_option("--timeline-workers", options->timeline_workers,
                  "number of workers of the timeline (default: the last of the scenario)")
      .needs(timeline)
      .check(range<std::int64_t>(1, 1'000'000));
  constexpr int kMaxShown = 64;  // no viewer opens a trace of thousands of workers
  command
      .add_option("--timeline-of", options->timeline_of,
                  "workers whose timelines are written, such as 0,5,17 (default: the slowest, or the first)")
      .needs(timeline)
      .delimiter(',')
      .expected(1, kMaxShown)
      .check(range<std::int64_t>(0, 999'999));
  command
      .add_option(
          "--what-if", options->what_if,
          "how long the same groups would take with these changes, separated by commas: network=2 (twice as "
          "fast), bandwidth=2, startup=2, compute=2, no-launch-gaps (as with CUDA graphs), no-stragglers, "
          "no-jitter, no-failures, layer=NAME (takes no time); repeatable for another question")
      .repeatable()
      .excludes(csv);
  command
      .add_option("--samples", options->samples,
                  "simulations for each prediction interval, where the inputs have a spread (default: 40 to "
                  "200, or no interval where a simulation is large)")
      .check(range<std::int64_t>(planner::kMinSamples, 10'000));
  command.has_no("--workers", "the key \"workers\" of the scenario says on how many, as 8 or as [8, 16]");
  command.has_no("--plot", "fusewise report -o report.html draws charts of the same results");
  command.on_run([options] { simulate(*options); });
}

}  // namespace cli
