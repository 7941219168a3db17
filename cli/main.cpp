// fusewise: parses the command line, runs one subcommand, and turns failures into one line and an exit code.

#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "models/errors.hpp"
#include "models/field.hpp"

namespace cli {

void print(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0)
    throw models::WorldError(
        fmt::format("standard output: cannot write: {}", std::generic_category().message(errno)));
}

void warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) spdlog::warn("warning: {}", warning);
}

}  // namespace cli

namespace {

constexpr int kDone = 0;
constexpr int kWorldFailed = 1;
constexpr int kWrongInput = 2;

int fail(int code, std::string_view message) {
  spdlog::error("{}", message);
  return code;
}

/// CLI11 asks for help and version by exceptions too; those go to stdout and end well.
int parse_failure(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    app.exit(error);
    return std::fflush(stdout) == 0 ? kDone : kWorldFailed;
  }
  return fail(kWrongInput, fmt::format("{} (try --help)", models::printable(error.what())));
}

int run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return kDone;
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error);
  } catch (const models::InputError& error) {
    return fail(kWrongInput, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kWorldFailed, "out of memory");
  } catch (const std::exception& error) {
    return fail(kWorldFailed, error.what());
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
  cli::add_plan(app);
  cli::add_show(app);
  cli::add_import(app);
  cli::add_estimate(app);
  cli::add_schema(app);
  return run(app, argc, argv);
}
