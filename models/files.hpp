// Reading and writing whole files; a written file is there completely or not at all.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace models {

/// The whole file; throws std::system_error when it cannot be read.
std::string read_file(const std::filesystem::path& file);

/// Writes to a temporary file beside `file`, then renames it; throws WorldError.
void write_file(const std::filesystem::path& file, std::string_view text);

}  // namespace models
