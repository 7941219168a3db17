#include "validate/suite/external.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "collectives/transport/launch.hpp"
#include "core/errors.hpp"
#include "core/field.hpp"

namespace suite {
namespace {

using core::EnvironmentError;
using core::Field;

constexpr double kMinUs = 1e-3;
constexpr double kMaxUs = 1e12;

/// Debian's PyTorch needs Debian's Python. The full path is required, because the script starts its own
/// processes with the same interpreter.
constexpr const char* kPython = "/usr/bin/python3";

/// Runs in the new process.
int exec_program(const Program& program, const std::filesystem::path& fusewise, std::uint32_t iterations) {
  std::array<std::string, 9> words = {kPython,
                                      program.script.string(),
                                      fusewise.string(),
                                      "--workers",
                                      std::to_string(program.workers),
                                      "--rate",
                                      fmt::format("{:.0f}bit", program.bits_per_second),
                                      "--iterations",
                                      std::to_string(iterations)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(kPython, arguments.data());
  throw EnvironmentError(fmt::format("{}: {}", kPython, std::strerror(errno)));
}

/// Describes how it ended, with the last line of its output.
std::string how(const transport::RankEnd& end, const Program& program) {
  const std::string_view said = transport::last_line(end.err);
  const std::string end_of =
      end.exit_code >= 0 ? fmt::format("ended with exit code {}", end.exit_code)
      : end.was_ended    ? fmt::format("did not end within {} s", program.limit.count())
                         : fmt::format("was killed by signal {} ({})", end.signal, ::strsignal(end.signal));
  return end_of + (said.empty() ? "; it printed no message" : fmt::format("; its last message: {}", said));
}

std::vector<double> times(const Field& field) {
  std::vector<double> out;
  for (const Field& each : field.non_empty_items()) out.push_back(each.number(kMinUs, kMaxUs));
  return out;
}

Case read_case(const Field& field, const Program& program) {
  Case out = {.group = program.name, .name = field.at("name").name(), .compute = "other program"};
  out.part = out.name == "wfbp"        ? Part::wfbp
             : out.name == "one group" ? Part::one_group
             : out.name == "ddp"       ? Part::ddp
                                       : Part::any;
  std::vector<std::string> reasons;
  for (const Field& each : field.at("noise").items()) reasons.push_back(each.text());
  out.runs = {{.predicted_us = field.at("predicted_us").number(kMinUs, kMaxUs),
               .alpha_beta_us = field.at("alpha_beta_us").number(kMinUs, kMaxUs),
               .iterations_us = times(field.at("iterations_us")),
               .noise = reasons}};
  return out;
}

}  // namespace

ExternalResult run_program(const Program& program, const std::filesystem::path& fusewise,
                           std::uint32_t iterations, const OnLine& on_line) {
  transport::LaunchOptions options = {.limit = program.limit};
  options.on_line = [&](std::uint32_t /*rank*/, std::string_view line) {
    on_line(fmt::format("{}: {}", program.name, line));
  };
  const transport::RankEnd end =
      transport::launch(
          1, [&](std::uint32_t /*rank*/) { return exec_program(program, fusewise, iterations); }, options)
          .front();
  const std::string script = program.script.filename().string();
  if (!end.is_good()) throw EnvironmentError(fmt::format("{} {}", script, how(end, program)));
  ExternalResult out;
  try {
    const Field printed = Field::parse(end.out, script);
    for (const Field& each : printed.at("cases").non_empty_items())
      out.cases.push_back(read_case(each, program));
    out.place = fmt::format("{} processes, {}; {}", printed.at("workers").integer(1, 1000),
                            printed.at("where").text(), printed.at("versions").text());
  } catch (const core::InputError& error) {
    throw EnvironmentError(fmt::format("{} ({} {})", error.what(), script, how(end, program)));
  }
  return out;
}

}  // namespace suite
