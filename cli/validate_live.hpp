// fusewise validate PLAN|SCENARIO: run live, measured beside what was predicted.

#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "models/field.hpp"

namespace cli {

/// What the options of live runs say, ready to be run on a file.
struct LiveCommand {
  /// Whether a file of this format is run live.
  static bool takes(const models::Field& file);
  /// `json`: print JSON; `output`: write it to this file as well, if not empty.
  std::function<void(const models::Field& file, bool json, const std::string& output)> run;
  /// Those of its options that were given, which make no sense without such a file.
  std::function<std::string()> given;
};

LiveCommand add_live_options(CLI::App& command);

}  // namespace cli
