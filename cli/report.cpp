// fusewise report: writes one HTML file that shows a scenario, results or an accuracy report.

#include <memory>

#include <fmt/format.h>

#include "cli/bundled.hpp"
#include "cli/chosen_schedule.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "planner/report/page.hpp"
#include "planner/report/report.hpp"

namespace cli {
namespace {

struct Options {
  std::string input;
  std::string output = "report.html";
  std::int64_t workers = 0;
  std::string schedule = "fusewise";
};

report::Report collect(const core::Field& file, const Options& options) {
  const std::string format =
      file.at("format").one_of({"fusewise.scenario", "fusewise.results", "fusewise.accuracy"});
  if (format == "fusewise.results") return report::of_results(file);
  if (format == "fusewise.accuracy") return report::of_accuracy(file);
  const scenarios::Scenario scenario = scenarios::read_scenario(file);
  return report::of_scenario(scenario, {.workers = options.workers,
                                        .schedule = chosen_schedule(options.schedule, scenario),
                                        .progress = ProgressLine()});
}

void write_report(const Options& options) {
  const report::Report collected =
      collect(core::Field::load(input_path(Bundled::scenario, options.input)), options);
  const std::string page = report::page(collected.title, collected.data);
  core::write_file(options.output, page);
  print_warnings(collected.warnings);
  print(printable_lines(fmt::format("{}: {:.0f} kB, opens in any browser\n", options.output,
                                    static_cast<double>(page.size()) / 1e3)));
}

}  // namespace

void add_report(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command(
      "report", "Write one HTML page: scaling, timelines, plan, and what it would take to be faster");
  command.footer("Example: fusewise report scenarios/resnet50-v100.json -o report.html");
  command
      .add_option("FILE", options->input,
                  "a fusewise.scenario file or the name of a bundled one, which is simulated and planned; or "
                  "results of simulate --json, or "
                  "the report of a suite (fusewise.accuracy)")
      .required();
  command.add_output("-o,--output", options->output, "the HTML file").show_default();
  command
      .add_option("--workers", options->workers,
                  "number of workers of the plan (default: the knee of the scaling curve)")
      .check(range<std::int64_t>(1, 1'000'000));
  command
      .add_option("--schedule", options->schedule,
                  "schedule that makes the plan: one of the scenario, or a named one")
      .show_default();
  command.on_run([options] { write_report(*options); });
}

}  // namespace cli
