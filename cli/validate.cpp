// fusewise validate: compares predictions with published results, measurements and live runs.

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/validate_live.hpp"
#include "cli/validate_suite.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "validate/measurements/calibrate.hpp"
#include "validate/measurements/measurements.hpp"
#include "validate/measurements/measurements_text.hpp"
#include "validate/paper/paper_text.hpp"
#include "validate/paper/read_paper.hpp"
#include "validate/paper/reproduce.hpp"

namespace cli {
namespace {

struct Options {
  std::string what;
  bool json = false;
  std::string output;
  std::string measurements;
  std::string setup;
  std::vector<std::string> calibrate_on;
};

void reproduce_papers(const Options& options) {
  std::vector<std::filesystem::path> files = {options.what};
  std::error_code error;
  if (std::filesystem::is_directory(options.what, error)) files = validate::paper_files(options.what);
  std::vector<validate::PaperResult> results;
  results.reserve(files.size());
  for (const auto& file : files) results.push_back(validate::reproduce(validate::load_paper(file)));
  if (!options.output.empty()) core::write_file(options.output, validate::papers_page(results));
  print(options.json ? validate::papers_json(results) : validate::papers_table(results));
  const std::vector<std::string> faults = validate::faults(results);
  if (!faults.empty()) throw OutOfTolerance(fmt::format("{}", fmt::join(faults, "; ")));
}

void predict_measurements(const Options& options) {
  if (options.setup.empty() || options.calibrate_on.empty())
    throw core::InputError("--measurements: expected --setup and --calibrate-on with it, got it alone");
  const std::string source = core::one_line(options.measurements);
  const std::string text = read_text(options.measurements, core::kMaxLogBytes);
  const std::vector<validate::Measurement> rows = validate::read_measurements(text, source);
  const validate::Setup setup = validate::read_setup(core::Field::load(options.setup));
  std::vector<bool> on(rows.size(), false);
  for (const std::string& option : options.calibrate_on) {
    const std::vector<bool> more = validate::select_rows(rows, option);
    for (std::size_t i = 0; i < rows.size(); ++i) on[i] = on[i] || more[i];
  }
  const auto result = validate::calibrate_and_predict(rows, on, setup, source);
  const std::string json = validate::measurements_json(result);
  if (!options.output.empty()) core::write_file(options.output, json);
  print(options.json ? json : validate::measurements_table(result));
}

/// The file, if its format is one that is run live.
std::optional<core::Field> live_file(const Options& options) {
  std::error_code error;
  if (options.what.empty() || std::filesystem::is_directory(options.what, error)) return {};
  const core::Field file = core::Field::load(options.what);
  return LiveCommand::takes(file) || SuiteCommand::takes(file) ? std::optional(file) : std::nullopt;
}

void run_live_file(const Options& options, const core::Field& file, const LiveCommand& live,
                   const SuiteCommand& suite) {
  const bool is_suite = SuiteCommand::takes(file);
  if (const std::string option = is_suite ? live.given(true) : suite.given(); !option.empty())
    throw core::InputError(fmt::format("{}: expected {} with it, got {}", option,
                                       is_suite ? "a plan or a scenario" : "a suite",
                                       is_suite ? "a suite" : "none"));
  is_suite ? suite.run(file, live.shared(), options.json, options.output)
           : live.run(file, options.json, options.output);
}

void run_validate(const Options& options, const LiveCommand& live, const SuiteCommand& suite) {
  if (options.what.empty() == options.measurements.empty())
    throw core::InputError("validate: expected either a file or --measurements");
  if (const std::optional<core::Field> file = live_file(options))
    return run_live_file(options, *file, live, suite);
  const std::string option = live.given(false) + suite.given();
  if (!option.empty())
    throw core::InputError(
        fmt::format("{}: expected a plan, a scenario or a suite with it, got none", option));
  if (options.measurements.empty()) return reproduce_papers(options);
  predict_measurements(options);
}

}  // namespace

void add_validate(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command = program.add_command(
      "validate", "Compare predictions with published results, measurements or live runs");
  command.footer(
      "Examples: fusewise validate validate/papers\n          fusewise validate scenarios/googlenet-k80.json "
      "--workers 4 --rate 1gbit --schedule wfbp\n          fusewise validate validate/suites/short.json -o "
      "accuracy.md\n          fusewise validate --measurements runs.csv "
      "--setup cluster.json --calibrate-on schedule=horovod\nExit code 3: a result is outside its "
      "tolerance.");
  command.add_option(
      "FILE", options->what,
      "a plan, a scenario or a suite to run live, a fusewise.paper file, or a folder of these");
  command.add_flag("--json", options->json, "print JSON");
  command.add_output("-o,--output", options->output,
                     "also write to this file: a Markdown page for papers and suites, otherwise JSON");
  const Option measurements =
      command.add_option("--measurements", options->measurements,
                         "CSV file of throughputs: model,network,schedule,workers,samples_per_s");
  command
      .add_option("--setup", options->setup, "a fusewise.setup file that defines the names of the CSV file")
      .needs(measurements);
  command
      .add_option("--calibrate-on", options->calibrate_on,
                  "fit compute and bandwidth to the rows with KEY=VALUE and predict the others; keys are "
                  "model, network, "
                  "schedule, workers and line; a row must match all conditions that commas separate "
                  "(repeatable: a row may "
                  "match any)")
      .repeatable()
      .needs(measurements);
  const LiveCommand live = add_live_options(command);
  const SuiteCommand suite = add_suite_options(command);
  command.on_run([options, live, suite] { run_validate(*options, live, suite); });
}

}  // namespace cli
