// Reads and writes whole files; a file is written completely or not at all.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace core {

/// Returns the whole file; throws std::system_error if it cannot be read or is larger than 1 GiB.
std::string read_file(const std::filesystem::path& file);

/// Writes to a temporary file beside `file`, then renames it; throws EnvironmentError. For a link the target
/// is written; devices and pipes are written in place.
void write_file(const std::filesystem::path& file, std::string_view text);

struct FileText {
  std::filesystem::path file;
  std::string text;
};

/// Writes all files or none: nothing is renamed before everything is written.
void write_files(const std::vector<FileText>& files);

}  // namespace core
