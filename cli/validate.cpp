// fusewise validate: compares predictions with published results and live runs.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/bundled.hpp"
#include "cli/commands.hpp"
#include "cli/input.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "cli/validate_live.hpp"
#include "cli/validate_suite.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "validate/paper/paper_text.hpp"
#include "validate/paper/read_paper.hpp"
#include "validate/paper/reproduce.hpp"

namespace cli {
namespace {

struct Options {
  std::string what;
  bool json = false;
  std::string output;
};

void reproduce_papers(const Options& options) {
  std::vector<std::filesystem::path> files = {options.what};
  std::error_code error;
  if (std::filesystem::is_directory(options.what, error)) files = validate::paper_files(options.what);
  std::vector<validate::Paper> papers;
  std::ranges::transform(files, std::back_inserter(papers), validate::load_paper);
  StepLine line;
  line.count_seconds();
  for (const validate::Paper& paper : papers) line.add(paper.figures.size());
  std::vector<validate::PaperResult> results;
  for (const validate::Paper& paper : papers)
    results.push_back(validate::reproduce(
        paper, [&](const std::string& figure) { line.next(fmt::format("{}, {}", paper.name, figure)); }));
  line.end();
  if (!options.output.empty())
    core::write_file(options.output, is_json_file(options.output) ? validate::papers_json(results)
                                                                  : validate::papers_page(results));
  options.json ? print(validate::papers_json(results))
               : print_for_people(validate::papers_table(results, terminal_width(STDOUT_FILENO)));
  const std::vector<std::string> faults = validate::faults(results);
  if (!faults.empty()) throw OutOfTolerance(fmt::format("{}", fmt::join(faults, "; ")));
}

/// The file, if its format is one that is run live.
std::optional<core::Field> live_file(const Options& options) {
  std::error_code error;
  if (std::filesystem::is_directory(options.what, error)) return {};
  const core::Field file = core::Field::load(input_path(Bundled::scenario, options.what));
  if (LiveCommand::takes(file) || SuiteCommand::takes(file)) return file;
  check_is_scenario(file, options.what, "fusewise.plan, scenario, suite or paper, or a folder of papers");
  return {};
}

void run_live_file(const Options& options, const core::Field& file, const LiveCommand& live,
                   const SuiteCommand& suite) {
  const bool is_suite = SuiteCommand::takes(file);
  if (const std::string option = is_suite ? live.given(true) : suite.given(); !option.empty())
    throw core::InputError(fmt::format("{}: expected {} with it, got {}", option,
                                       is_suite ? "a plan or a scenario" : "a suite",
                                       is_suite ? "a suite" : file.at("format").text()));
  is_suite ? suite.run(file, live.shared(), options.json, options.output)
           : live.run(file, options.json, options.output);
}

void run_validate(const Options& options, const LiveCommand& live, const SuiteCommand& suite) {
  if (const std::optional<core::Field> file = live_file(options))
    return run_live_file(options, *file, live, suite);
  const std::string option = live.given(false) + suite.given();
  if (!option.empty())
    throw core::InputError(
        fmt::format("{}: expected a plan, a scenario or a suite with it, got none", option));
  reproduce_papers(options);
}

}  // namespace

void add_validate(const Command& program) {
  auto options = std::make_shared<Options>();
  const Command command =
      program.add_command("validate", "Compare predictions with published results or live runs");
  command.footer(
      "Examples: fusewise validate validate/papers\n          fusewise validate googlenet-k80 --workers 4 "
      "--rate 1gbit --schedule wfbp\n          fusewise validate validate/suites/short.json -o "
      "accuracy.md\nExit code 3: a result is outside its tolerance.");
  command
      .add_option("FILE", options->what,
                  "a plan, a scenario or a suite to run live, a fusewise.paper file, or a folder of these")
      .required();
  command.add_flag("--json", options->json, "print JSON");
  command.add_output(
      "-o,--output", options->output,
      "also write to this file: JSON; of papers and suites, a Markdown page unless its name ends in "
      ".json");
  const LiveCommand live = add_live_options(command);
  const SuiteCommand suite = add_suite_options(command);
  command.on_run([options, live, suite] { run_validate(*options, live, suite); });
}

}  // namespace cli
