// fusewise validate SUITE: runs many plans live and reports the errors of their predictions.

#pragma once

#include <functional>
#include <string>

#include "cli/command_line.hpp"
#include "cli/validate_live.hpp"
#include "core/field.hpp"

namespace cli {

struct SuiteCommand {
  /// Whether the file is a suite.
  static bool takes(const core::Field& file);
  /// Prints JSON if `json` is set; also writes the Markdown page to `output`, if not empty.
  std::function<void(const core::Field& file, const LiveShared& shared, bool json, const std::string& output)>
      run;
  /// The name of a given option that only suites accept; empty if there is none.
  std::function<std::string()> given;
};

/// The results of a suite as JSON (`fusewise.accuracy`).
struct SuiteAccuracy {
  std::string json;
  /// Throws OutOfTolerance or EnvironmentError where `validate` does: errors are too large, or cases could
  /// not be judged.
  std::function<void()> check;
};

/// Runs a suite without scripts, as validate does without options. The predictions are written beside
/// `output`.
SuiteAccuracy accuracy_of_suite(const core::Field& file, const std::string& output);

SuiteCommand add_suite_options(const Command& command);

}  // namespace cli
