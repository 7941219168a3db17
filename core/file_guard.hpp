// Protects files of the user: no output replaces an input, and no two outputs are the same file.

#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace core {

/// Compares all files that the process reads and writes while it exists, by device and inode, so that links
/// and different spellings of a path are recognized. The program has one. read_file() and write_file() report
/// to it by themselves; a command announces its outputs before it reads anything, so that a conflict is found
/// before it works.
class FileGuard {
 public:
  FileGuard();
  ~FileGuard();
  FileGuard(const FileGuard&) = delete;
  FileGuard& operator=(const FileGuard&) = delete;

 private:
  friend void add_input(const std::filesystem::path& file);
  friend void add_output(const std::string& name, const std::filesystem::path& file);
  friend void check_output(const std::filesystem::path& file, const std::string& name);

  std::mutex mutex_;  // scenarios are read on several threads
  std::set<std::filesystem::path> inputs_;
  std::vector<std::pair<std::string, std::filesystem::path>> outputs_;  // with the names of their options
};

/// Reports a file that is read. Throws InputError if it is an output. Without a guard nothing happens.
void add_input(const std::filesystem::path& file);

/// Reports a file that will be written; `name` is its option. Throws InputError if it is an input or another
/// output. Devices, pipes and open files such as /dev/stdout may have several names. Without a guard nothing
/// happens.
void add_output(const std::string& name, const std::filesystem::path& file);

/// Throws InputError if the file is an input. Every function that writes calls it, also for outputs that no
/// command has announced.
void check_output(const std::filesystem::path& file, const std::string& name);

/// Returns whether both are the same regular file, or would be if they were made.
bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Returns the target of a link, whether it exists or not; otherwise the path itself.
std::filesystem::path link_target(const std::filesystem::path& file);

/// Returns whether the path leads to an open file of a process, as /dev/stdin and /dev/fd/3 do.
bool is_open_file(const std::filesystem::path& file);

/// Returns whether writing must not replace the file: a device, a pipe or an open file.
bool is_special(const std::filesystem::path& file);

}  // namespace core
