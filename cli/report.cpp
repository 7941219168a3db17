// fusewise report: writes one HTML file that shows a scenario, results or an accuracy report.

#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "cli/bundled.hpp"
#include "cli/chosen_schedule.hpp"
#include "cli/commands.hpp"
#include "cli/comparisons.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/sweep_rows.hpp"
#include "cli/validate_suite.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/json_text.hpp"
#include "planner/report/page.hpp"
#include "planner/report/report.hpp"
#include "profiler/traces/ranks/source_kind.hpp"
#include "validate/live/compare.hpp"

namespace cli {
namespace {

struct Options {
  std::string input;
  std::string output = "report.html";
  std::int64_t workers = 0;
  std::string schedule = "fusewise";
  bool has_schedule = false;  ///< whether the user chose it
  std::string plan;
  bool json = false;
};

/// A trace beside the plan or the scenario, or beside what its own profile predicts.
report::Report of_trace(const std::string& trace, const Options& options) {
  CompareOptions compared;
  compared.traces = {trace};
  compared.plan = options.plan;
  compared.workers = options.plan.empty() ? 0 : options.workers;
  return report::of_comparison(core::Field::parse(comparison_json(comparison_of(compared)), trace));
}

/// Live runs beside their predictions: what validate prints of each, and the collectives of a worker.
report::Report of_live_validation(const core::Field& file) {
  using nlohmann::ordered_json;
  const std::vector<live::Comparison> runs = live::read_comparisons(file);
  ordered_json rows = ordered_json::array(), lanes = ordered_json::array();
  for (const live::Comparison& run : runs) {
    for (const live::Compared& each : live::greatest_errors(run))
      rows.push_back(
          {{"group", run.name},
           {"case", each.worker ? fmt::format("{}, worker {}", each.quantity, *each.worker) : each.quantity},
           {"is_part", each.worker.has_value()},
           {"predicted_us", each.predicted_us},
           {"measured_us", each.measured_us},
           {"interval_us", {each.min_us, each.max_us}},
           {"of_us", run.iteration.measured_us}});
    const std::vector<live::ComparedCollective> collectives = live::collectives_of_first(run);
    if (collectives.empty() || !run.others.front().worker) continue;
    ordered_json sides = ordered_json::array();
    for (const auto& [name, time] : {std::pair("measured", &live::Compared::measured_us),
                                     std::pair("predicted", &live::Compared::predicted_us)}) {
      ordered_json all = ordered_json::array();
      for (const live::ComparedCollective& each : collectives)
        all.push_back({{"name", each.name}, {"start_us", each.start.*time}, {"end_us", each.end.*time}});
      sides.push_back(
          {{"name", name}, {"iteration_us", run.iteration.*time}, {"collectives", std::move(all)}});
    }
    lanes.push_back(
        {{"plan", run.name}, {"worker", *run.others.front().worker}, {"sides", std::move(sides)}});
  }
  report::Report out = {.title = "Live runs and their predictions", .data = {}, .warnings = {}};
  out.data = {{"title", out.title},
              {"kind", "live-validation"},
              {"about", fmt::format("Measured with {}.", file.at("where").name())},
              {"accuracy", std::move(rows)}};
  if (!lanes.empty()) out.data["live"] = std::move(lanes);
  return out;
}

/// If another command has to run the file first, the message names that command.
void check_was_run(const core::Field& file, const std::string& name) {
  const auto format = file.is_object() ? file.find("format") : std::nullopt;
  if (!format || !format->is_text()) return;
  const std::string printable = core::printable(name);
  const std::pair<std::string_view, std::string> others[] = {
      {"paper", fmt::format("fusewise validate {} compares it", printable)},
      {"plan", "fusewise report SCENARIO shows the scenario of a plan"}};
  for (const auto& [what, command] : others)
    if (format->text() == fmt::format("fusewise.{}", what))
      format->expected("fusewise.scenario or results", fmt::format("a {} ({})", what, command));
}

/// A suite is run, if it needs no leave to run scripts. `at_end` is for when the page is written.
report::Report of_suite(const core::Field& file, const Options& options, std::function<void()>& at_end) {
  if (file.has("programs"))
    file.at("programs")
        .expected("a suite without scripts, or its results",
                  fmt::format("scripts (fusewise validate {} --allow-programs -o accuracy.json runs them "
                              "for a report)",
                              core::printable(options.input)));
  const SuiteAccuracy accuracy = accuracy_of_suite(file, options.output);
  at_end = accuracy.check;
  return report::of_accuracy(core::Field::parse(accuracy.json, options.input));
}

/// An execution trace is recognized by its contents, as a trace of the profiler is.
void check_has_times(const std::string& path, const std::string& name) {
  if (ranks::is_of_fusewise(path) || ranks::source_kind(path) != ranks::SourceKind::execution_trace) return;
  throw core::InputError(fmt::format(
      "{}: /: expected a trace of the PyTorch profiler, got a PyTorch execution trace, which holds "
      "no times (fusewise import {} prints its buckets)",
      core::one_line(path), core::printable(name)));
}

report::Report collect(const std::string& path, const Options& options, std::function<void()>& at_end) {
  if (is_trace(path)) return of_trace(path, options);
  if (!options.plan.empty())
    throw core::InputError(
        fmt::format("{}: /: expected a trace, or no --plan, got another file", core::one_line(path)));
  check_has_times(path, options.input);
  const bool is_packed = std::filesystem::path(path).extension() == ".gz";
  const traces::LogFile text =
      is_packed ? read_logs({path}).front() : traces::LogFile{.path = path, .text = read_text(path)};
  if (is_sweep_rows(text)) return report_of_rows(text);
  const core::Field file = core::Field::parse(text.text, core::one_line(path));
  check_is_scenario(file, options.input);
  check_was_run(file, options.input);
  constexpr std::string_view kFormats[] = {
      "fusewise.scenario",   "fusewise.results", "fusewise.suite",        "fusewise.accuracy",
      "fusewise.comparison", "fusewise.fit",     "fusewise.memory-front", "fusewise.live-validation"};
  const std::string format = format_of(file, kFormats);
  if (format == "fusewise.live-validation") return of_live_validation(file);
  if (format == "fusewise.results") return report::of_results(file);
  if (format == "fusewise.suite") return of_suite(file, options, at_end);
  if (format == "fusewise.accuracy") return report::of_accuracy(file);
  if (format == "fusewise.comparison") return report::of_comparison(file);
  if (format == "fusewise.fit") return report::of_fit(file);
  if (format == "fusewise.memory-front") return report::of_memory_front(file);
  const scenarios::Scenario scenario = scenarios::read_scenario(file, true);
  StepLine line;
  line.count_seconds();
  report::Report out = report::of_scenario(
      scenario, {.workers = options.workers,
                 .schedule = chosen_schedule(options.schedule, scenario),
                 .is_default = !options.has_schedule,
                 .progress = ProgressLine(),
                 .steps = [&](std::size_t total, const std::string& what) { line.next(total, what); }});
  line.end();
  return out;
}

/// A folder with traces may have a name without '/', like what comes with the program.
std::string path_of(const std::string& name) {
  std::error_code none;
  const bool is_folder = std::filesystem::is_directory(name, none);
  return is_folder && !find_bundled(Bundled::scenario, name) ? name : input_path(Bundled::scenario, name);
}

void write_report(const Options& options) {
  const std::string ending = std::filesystem::path(options.output).extension().string();
  for (const std::string_view picture : {".svg", ".png", ".pdf", ".jpg"})
    if (ending == picture)
      throw core::InputError(
          fmt::format("--output: expected a name that ends in .html, got {} (in a browser the page saves "
                      "each chart as SVG)",
                      core::one_line(options.output)));
  std::function<void()> at_end = [] {};
  const report::Report collected = collect(path_of(options.input), options, at_end);
  const std::string page = report::page(collected.title, collected.data);
  core::write_file(options.output, page);
  if (options.json) {
    print(core::json_text({{"format", "fusewise.report-summary"},
                           {"version", 1},
                           {"output", options.output},
                           {"bytes", page.size()},
                           {"kind", collected.data.at("kind")},
                           {"title", collected.title},
                           {"warnings", collected.warnings}}));
  } else {
    print_warnings(collected.warnings);
    print(printable_lines(fmt::format("{}: {:.1f} MB, opens in any browser\n", options.output,
                                      static_cast<double>(page.size()) / 1e6)));
  }
  at_end();
}

}  // namespace

void add_report(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command(
      "report", "Write one HTML page: scaling, timelines, plan, and what it would take to be faster");
  command.footer(
      "Example: fusewise report resnet50-v100 -o report.html\n"
      "         fusewise report trace.json --plan job.plan.json");
  command
      .add_option("FILE", options->input,
                  "a fusewise.scenario file or the name of a bundled one, which is simulated and planned; "
                  "a suite, which is run live, or its results (validate SUITE -o accuracy.json); "
                  "results of simulate --json, compare --json, fit --json or plan --memory-front --json; "
                  "what validate --json prints of live runs; the rows of a "
                  "sweep, CSV or JSON lines; or a trace of the PyTorch profiler, or a folder with those of "
                  "all ranks, beside its prediction")
      .required();
  command.add_output("-o,--output", options->output, "the HTML file").show_default();
  const Option schedule = add_plan_options(
      command, options->workers,
      "the knee of the scaling curve; if all simulated numbers are below it the largest, if all are beyond "
      "it the smallest above 1",
      options->schedule);
  command.add_option(
      "--plan", options->plan,
      "a fusewise.plan or fusewise.scenario: what was predicted of a trace (default: what its own "
      "profile and collectives predict)");
  command.add_flag("--json", options->json,
                   "print a summary of the page as JSON; simulate --json and plan --json print its numbers");
  command.has_no("--plot", "the page has the charts, and saves each as SVG");
  command.on_run([options, schedule] {
    options->has_schedule = schedule.is_given();
    write_report(*options);
  });
}

}  // namespace cli
