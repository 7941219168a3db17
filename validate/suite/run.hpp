// Runs a suite: each group is calibrated, then predicted; the predictions are written to a file, and only
// then are the plans run.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "validate/suite/suite.hpp"

namespace suite {

struct RunOptions {
  std::uint32_t repeats = 1;          ///< how often each group is calibrated, predicted and run
  std::uint32_t attempts = 1;         ///< of a group, from calibration on, until all its plans pass
  bool paced = false;                 ///< uses paced loopback even if network namespaces are available
  std::filesystem::path fusewise;     ///< path of this program, for others to call
  std::filesystem::path predictions;  ///< written before plans run, unless empty
  std::function<void(const std::string& line)> on_line = [](const std::string& /*line*/) {};
  /// Called before each run of a case or a program, and before runs that are repeated.
  std::function<void(const std::string& what)> next = [](const std::string& /*what*/) {};
};

struct Measured {
  std::vector<Case> cases;
  std::vector<std::string> places;  ///< "shapes: 4 processes, network namespaces, ..."
};

/// How often run() calls `next` if no run is repeated.
std::size_t runs_of(const Suite& suite, const RunOptions& options);

/// Throws EnvironmentError if a run fails.
Measured run(const Suite& suite, const RunOptions& options);

}  // namespace suite
