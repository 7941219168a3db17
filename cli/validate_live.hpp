// fusewise validate PLAN|SCENARIO: runs a plan or a scenario live and compares it with its prediction.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/command_line.hpp"
#include "core/field.hpp"

namespace cli {

/// The options of live runs that suites accept, too.
struct LiveShared {
  bool paced = false;
  std::optional<double> tolerance;
  std::string prediction;
};

/// The command of live runs, with its options.
struct LiveCommand {
  /// Whether the file is a plan or a scenario.
  static bool takes(const core::Field& file);
  /// Prints JSON if `json` is set; also writes JSON to `output`, if not empty.
  std::function<void(const core::Field& file, bool json, const std::string& output)> run;
  /// The name of a given option that needs such a file; empty if there is none. With `except_shared`, the
  /// options that suites accept are left out.
  std::function<std::string(bool except_shared)> given;
  std::function<LiveShared()> shared;
};

LiveCommand add_live_options(const Command& command);

/// Returns the file of the predictions: that of --prediction, otherwise the one beside the output, which it
/// announces.
std::string prediction_of(const std::string& prediction, const std::string& output);

}  // namespace cli
