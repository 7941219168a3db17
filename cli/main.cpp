// fusewise: parses the command line, runs one subcommand, and turns failures into one line and an exit code.

#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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

int run(cli::Program& program, int argc, char** argv) {
  try {
    cli::print(program.run(argc, argv));
    return kDone;
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
  cli::Program program(
      "fusewise",
      "Which gradients should travel together, and how does training scale? Simulates and plans\n"
      "data-parallel training from measured layer times and a description of the network.",
      "fusewise " FUSEWISE_VERSION);
  for (const auto& add : {cli::add_simulate, cli::add_sweep, cli::add_plan, cli::add_validate, cli::add_show,
                          cli::add_import, cli::add_fit, cli::add_estimate, cli::add_measure, cli::add_netlab,
                          cli::add_profile, cli::add_schema})
    add(program.command());
  return run(program, argc, argv);
}
