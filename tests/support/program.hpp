// Runs the real program like a user, and captures its output.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace support {

struct Outcome {
  int exit_code = -1;  ///< -1: killed by a signal
  std::string out;
  std::string err;
};

/// Runs fusewise with these arguments in the repository root. Its process calls `before` first.
Outcome run_program(const std::vector<std::string>& arguments, void (*before)() = nullptr);

/// The path of the program.
std::string program();

/// The repository root.
std::filesystem::path source_dir();

}  // namespace support
