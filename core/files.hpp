// Reads and writes whole files; a file is written completely or not at all.

#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "core/limits.hpp"

namespace core {

/// Thrown for a file that cannot be read. what() says why, without the name of the file.
class ReadError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Opens an input: a regular file, or an open file such as /dev/stdin. Throws ReadError, and InputError if
/// the file is an output of this program run (see FileGuard).
Descriptor open_input(const std::filesystem::path& file);

/// Returns the whole input. Throws like open_input(), and if it is larger than `max_bytes`.
std::string read_file(const std::filesystem::path& file, std::size_t max_bytes = kMaxJsonBytes);

/// Returns a file that the program itself keeps and may write again, such as a journal; throws
/// EnvironmentError.
std::string read_own_file(const std::filesystem::path& file);

/// Writes to a temporary file, waits until it is on disk, then gives it its name; throws EnvironmentError.
/// For a link the target is written; devices, pipes and open files such as /dev/stdout are written in place.
/// Throws InputError if the file is an input of this program run.
void write_file(const std::filesystem::path& file, std::string_view text);

struct FileText {
  std::filesystem::path file;
  std::string text;
};

/// Writes all files or none: nothing is renamed before everything is written.
void write_files(const std::vector<FileText>& files);

}  // namespace core
