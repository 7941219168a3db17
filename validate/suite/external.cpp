#include "validate/suite/external.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "models/errors.hpp"
#include "models/field.hpp"
#include "transport/launch.hpp"

namespace suite {
namespace {

using models::Field;
using models::WorldError;

constexpr double kMostUs = 1e12;

/// In a process of its own. Debian's PyTorch belongs to its own Python.
int become(const Program& program, const std::filesystem::path& fusewise, std::uint32_t iterations) {
  std::array<std::string, 9> words = {"python3",
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
  ::execv("/usr/bin/python3", arguments.data());
  throw WorldError(fmt::format("/usr/bin/python3: {}", std::strerror(errno)));
}

std::vector<double> times(const Field& field) {
  std::vector<double> out;
  for (const Field& each : field.non_empty_items()) out.push_back(each.number(0, kMostUs));
  return out;
}

Case read_case(const Field& field, const Program& program) {
  Case out = {.group = program.name, .name = field.at("name").name(), .compute = "other program"};
  out.part = out.name == "wfbp"        ? Part::wfbp
             : out.name == "one group" ? Part::one_group
             : out.name == "ddp"       ? Part::ddp
                                       : Part::any;
  out.predicted_us = field.at("predicted_us").number(0, kMostUs);
  out.alpha_beta_us = field.at("alpha_beta_us").number(0, kMostUs);
  std::vector<std::string> reasons;
  for (const Field& each : field.at("noise").items()) reasons.push_back(each.text());
  out.runs = {{.iterations_us = times(field.at("iterations_us")), .noise = reasons}};
  return out;
}

}  // namespace

ExternalResult run_program(const Program& program, const std::filesystem::path& fusewise,
                           std::uint32_t iterations) {
  const auto ends =
      transport::launch(1, [&](std::uint32_t /*rank*/) { return become(program, fusewise, iterations); },
                        {.limit = program.limit});
  if (const std::string failed = transport::failures(ends); !failed.empty())
    throw WorldError(fmt::format("{}: {}", program.name, failed));
  ExternalResult out;
  try {
    const Field printed = Field::parse(ends[0].out, program.script.filename().string());
    for (const Field& each : printed.at("cases").non_empty_items())
      out.cases.push_back(read_case(each, program));
    out.place = fmt::format("{} processes, {}; {}", printed.at("workers").integer(1, 1000),
                            printed.at("where").text(), printed.at("versions").text());
  } catch (const models::InputError& error) {
    throw WorldError(fmt::format("{}: {}", program.name, error.what()));
  }
  return out;
}

}  // namespace suite
