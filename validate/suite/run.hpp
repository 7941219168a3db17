// Runs a suite: each group is calibrated, predicted, frozen and only then run.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "validate/suite/suite.hpp"

namespace suite {

struct RunOptions {
  std::uint32_t repeats = 1;          ///< how often each group is calibrated, predicted, frozen and run
  std::uint32_t attempts = 1;         ///< of a group, from calibration on, until all its plans pass
  bool paced = false;                 ///< on loopback, whether or not there are namespaces
  std::filesystem::path fusewise;     ///< this program, for others to call
  std::filesystem::path predictions;  ///< written before plans run, unless empty
  std::function<void(const std::string& line)> tell = [](const std::string& /*line*/) {};
};

struct Measured {
  std::vector<Case> cases;
  std::vector<std::string> places;  ///< "shapes: 4 processes, network namespaces, ..."
};

/// Throws EnvironmentError where a run fails.
Measured run(const Suite& suite, const RunOptions& options);

}  // namespace suite
