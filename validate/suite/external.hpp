// Jobs of other programs, which predict and measure by themselves.

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

using Tell = std::function<void(const std::string& line)>;

/// Runs `/usr/bin/python3 SCRIPT FUSEWISE --workers N --rate R --iterations I`, which is killed when its
/// limit has passed; what it has started has to end with it. `tell` hears what it writes to standard error,
/// as it comes. EnvironmentError, with the last line of that, where it fails or prints something else than it
/// should.
ExternalResult run_program(const Program& program, const std::filesystem::path& fusewise,
                           std::uint32_t iterations, const Tell& tell);

}  // namespace suite
