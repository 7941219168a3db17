// Manual pages and completions of shells, made from the definition of the command line.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace cli {

struct ManualFile {
  std::filesystem::path path;  ///< below the folder share of an installation
  std::string text;
};

/// One manual page for the program and one for each command, and completions for bash, zsh and fish.
std::vector<ManualFile> manual(const CommandText& program, const std::string& version);

}  // namespace cli
