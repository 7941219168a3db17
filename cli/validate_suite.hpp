// fusewise validate SUITE: plans run live, group by group, and how wrong their predictions were.

#pragma once

#include <functional>
#include <string>

#include "cli/command_line.hpp"
#include "cli/validate_live.hpp"
#include "core/field.hpp"

namespace cli {

struct SuiteCommand {
  static bool takes(const core::Field& file);
  /// `json`: print JSON; `output`: write the page (Markdown) to this file as well, if not empty.
  std::function<void(const core::Field& file, const LiveShared& shared, bool json, const std::string& output)>
      run;
  /// An option of suites alone that was given, if one was.
  std::function<std::string()> given;
};

SuiteCommand add_suite_options(const Command& command);

}  // namespace cli
