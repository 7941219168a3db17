// fusewise: parses the command line, runs one subcommand, and turns failures into one line and an exit code.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"

namespace cli {

void print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    throw core::EnvironmentError(
        fmt::format("standard output: cannot write: {}", std::generic_category().message(errno)));
}

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) spdlog::warn("warning: {}", core::one_line(warning));
}

CLI::Validator number_in(double min, double max) {
  const auto check = [min, max](const std::string& text) {
    double value = 0;
    const bool is_number = CLI::detail::lexical_cast(text, value);
    if (is_number && value >= min && value <= max) return std::string();
    return fmt::format("expected a number from {:g} to {:g}, got '{}'", min, max, core::printable(text));
  };
  return {check, fmt::format("from {:g} to {:g}", min, max), "number"};
}

CLI::Validator file_name() {
  const auto check = [](const std::string& text) {
    return text.empty() ? std::string("expected the name of a file, got ''") : std::string();
  };
  return {check, "", "file"};
}

}  // namespace cli

namespace {

constexpr int kDone = 0;
constexpr int kEnvironmentFailed = 1;
constexpr int kWrongInput = 2;
constexpr int kOutOfTolerance = 3;

int fail(int code, std::string_view message) {
  spdlog::error("{}", core::one_line(message));
  return code;
}

/// CLI11 asks for help and version by exceptions too; those go to stdout and end well.
int parse_failure(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    return std::fflush(stdout) == 0 ? kDone : kEnvironmentFailed;
  }
  return fail(kWrongInput, fmt::format("{} (try --help)", error.what()));
}

/// CLI11 would only say that there is none.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App* /*any*/) { return true; }))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw core::InputError(fmt::format("expected a command among {}, got '{}'{}", fmt::join(known, ", "),
                                     core::printable(argv[1]), core::suggestion(argv[1], known)));
}

int run(CLI::App& app, int argc, char** argv) {
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
    return kDone;
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error);
  } catch (const core::InputError& error) {
    return fail(kWrongInput, error.what());
  } catch (const cli::OutOfTolerance& error) {
    return fail(kOutOfTolerance, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kEnvironmentFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kEnvironmentFailed, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_st("fusewise"));
  spdlog::set_pattern("%v");
  CLI::App app(
      "Which gradients should travel together, and how does training scale? Simulates and plans\n"
      "data-parallel training from measured layer times and a description of the network.",
      "fusewise");
  app.set_version_flag("--version", std::string("fusewise " FUSEWISE_VERSION));
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  cli::add_simulate(app);
  cli::add_sweep(app);
  cli::add_plan(app);
  cli::add_validate(app);
  cli::add_show(app);
  cli::add_import(app);
  cli::add_fit(app);
  cli::add_estimate(app);
  cli::add_measure(app);
  cli::add_netlab(app);
  cli::add_profile(app);
  cli::add_schema(app);
  return run(app, argc, argv);
}
