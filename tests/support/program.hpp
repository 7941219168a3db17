// Runs the real program, as a user would, and keeps what it printed.

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

/// Runs fusewise with these arguments in the repository root.
Outcome run_program(const std::vector<std::string>& arguments);

/// The repository root.
std::filesystem::path source_dir();

/// A folder of this test's own, removed at the end of its scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Writes a file into it and gives its path.
  std::string file(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace support
