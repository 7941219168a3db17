#include "cli/validate_suite.hpp"

#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/printable.hpp"
#include "profiler/common/host.hpp"
#include "validate/suite/report.hpp"
#include "validate/suite/run.hpp"

namespace cli {
namespace {

using core::Field;

struct Options {
  std::uint32_t repeats = 1;
  std::uint32_t attempts = 1;
  bool allow_programs = false;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

std::string command_of(const Options& options, const Field& file, const LiveShared& shared,
                       const std::string& output) {
  std::string out = "fusewise validate " + file.source();
  if (shared.paced) out += " --paced";
  if (shared.tolerance) out += fmt::format(" --tolerance {:g}", *shared.tolerance);
  if (options.repeats > 1) out += fmt::format(" --repeat {}", options.repeats);
  if (options.attempts > 1) out += fmt::format(" --attempts {}", options.attempts);
  if (options.allow_programs) out += " --allow-programs";
  return output.empty() ? out : out + " -o " + output;
}

struct Ran {
  suite::Tolerance tolerance;
  suite::Report report;
  suite::ReportInfo about;
};

Ran ran_suite(const Options& options, const Field& file, const LiveShared& shared,
              const std::string& output) {
  suite::Suite suite_file = suite::read_suite(file);
  if (!suite_file.programs.empty() && !options.allow_programs)
    file.at("programs")
        .expected(fmt::format("--allow-programs, because the suite runs the script {}",
                              core::one_line(suite_file.programs.front().script.string())),
                  "none");
  if (shared.tolerance)
    suite_file.tolerance.mean = suite_file.tolerance.worst = suite_file.tolerance.lossy_mean =
        *shared.tolerance;
  suite::RunOptions run_options = {.repeats = options.repeats,
                                   .attempts = options.attempts,
                                   .paced = shared.paced,
                                   .fusewise = std::filesystem::read_symlink("/proc/self/exe"),
                                   .predictions = prediction_of(shared.prediction, output)};
  run_options.on_line = print_progress;
  StepLine line(suite::runs_of(suite_file, run_options));
  run_options.next = [&](const std::string& what) { line.next(what); };
  const suite::Measured measured = suite::run(suite_file, run_options);
  line.end();
  return {.tolerance = suite_file.tolerance,
          .report = suite::judge(measured.cases, suite_file.tolerance),
          .about = {.suite = suite_file.name,
                    .date = today(),
                    .machine = fmt::format("{}, {} processors", profiler::processor_name(),
                                           profiler::processor_count()),
                    .versions = fmt::format("fusewise {}, g++ {}", FUSEWISE_VERSION, __VERSION__),
                    .command = command_of(options, file, shared, output),
                    .places = measured.places}};
}

void check(const suite::Report& report) {
  if (!report.faults.empty()) throw OutOfTolerance(fmt::format("{}", fmt::join(report.faults, "; ")));
  if (report.not_judged > 0)
    throw core::EnvironmentError(
        fmt::format("{} of {} cases could not be judged because the machine was noisy", report.not_judged,
                    report.rows.size()));
}

void run_suite(const Options& options, const Field& file, const LiveShared& shared, bool json,
               const std::string& output) {
  const auto& [tolerance, report, about] = ran_suite(options, file, shared, output);
  const std::string document = suite::report_json(report, tolerance, about);
  if (!output.empty())
    core::write_file(output, is_json_file(output) ? document : suite::report_page(report, tolerance, about));
  json ? print(document)
       : print_for_people(suite::report_table(report, tolerance, terminal_width(STDOUT_FILENO)));
  check(report);
}

}  // namespace

SuiteAccuracy accuracy_of_suite(const Field& file, const std::string& output) {
  const Ran ran = ran_suite({}, file, {}, output);
  return {.json = suite::report_json(ran.report, ran.tolerance, ran.about),
          .check = [report = ran.report] { check(report); }};
}

bool SuiteCommand::takes(const Field& file) {
  return file.is_object() && file.has("format") && file.at("format").text() == "fusewise.suite";
}

SuiteCommand add_suite_options(const Command& command) {
  auto options = std::make_shared<Options>();
  const Command group = command.add_group("Suite",
                                          "options for many plans that are run live; --paced, --tolerance "
                                          "(for every error) and --prediction apply, too");
  group
      .add_option("--repeat", options->repeats,
                  "number of times that each group is calibrated, predicted and run; runs on a noisy machine "
                  "do not count")
      .check(range(1U, 1000U))
      .show_default();
  group
      .add_option(
          "--attempts", options->attempts,
          "maximum number of times that a group is calibrated, predicted and run until all its plans pass")
      .check(range(1U, 100U))
      .show_default();
  group.add_flag("--allow-programs", options->allow_programs,
                 "run the scripts that the suite names under \"programs\", with the rights of this user");
  return {.run = [options](const Field& file, const LiveShared& shared, bool json,
                           const std::string& output) { run_suite(*options, file, shared, json, output); },
          .given =
              [group] {
                for (const Option& option : group.options())
                  if (option.is_given()) return option.name();
                return std::string();
              }};
}

}  // namespace cli
