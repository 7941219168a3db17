// fusewise validate PLAN|SCENARIO: run live, measured beside what was predicted.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/command_line.hpp"
#include "core/field.hpp"

namespace cli {

/// What a suite takes of them, too.
struct LiveShared {
  bool paced = false;
  std::optional<double> tolerance;
  std::string prediction;
};

/// What the options of live runs say, ready to be run on a file.
struct LiveCommand {
  /// Whether a file of this format is run live.
  static bool takes(const core::Field& file);
  /// `json`: print JSON; `output`: write it to this file as well, if not empty.
  std::function<void(const core::Field& file, bool json, const std::string& output)> run;
  /// Of its options one that was given, if one was, which makes no sense without such a file; with
  /// `but_shared` one that a suite does not take.
  std::function<std::string(bool but_shared)> given;
  std::function<LiveShared()> shared;
};

LiveCommand add_live_options(const Command& command);

}  // namespace cli
