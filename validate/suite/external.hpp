// Jobs of other programs, which predict and measure by themselves.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "validate/suite/suite.hpp"

namespace suite {

struct ExternalResult {
  std::vector<Case> cases;
  std::string place;
};

/// Runs `python3 SCRIPT FUSEWISE --workers N --rate R --iterations I`, which is killed, with all that it has
/// started, when its limit has passed. WorldError where it fails, or prints something else than it should.
ExternalResult run_program(const Program& program, const std::filesystem::path& fusewise,
                           std::uint32_t iterations);

}  // namespace suite
