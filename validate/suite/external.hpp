// Runs other programs, which predict and measure by themselves.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "validate/suite/suite.hpp"

namespace suite {

struct ExternalResult {
  std::vector<Case> cases;
  std::string place;
};

using OnLine = std::function<void(const std::string& line)>;

/// Runs `/usr/bin/python3 SCRIPT FUSEWISE --workers N --rate R --iterations I`, and kills it when its time
/// limit has passed; processes that it started must end with it. `on_line` receives its standard error line
/// by line. Throws EnvironmentError, with the last of these lines, if the program fails or prints unexpected
/// output.
ExternalResult run_program(const Program& program, const std::filesystem::path& fusewise,
                           std::uint32_t iterations, const OnLine& on_line);

}  // namespace suite
