// A file that is written before it gets its name.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/descriptor.hpp"

namespace core {

/// Throws EnvironmentError `FILE: cannot write: ...`.
[[noreturn]] void cannot_write(const std::filesystem::path& file, int error);

void write_all(int fd, std::string_view text, const std::filesystem::path& file);

/// The complete text of a file, on disk but without a name, so that a killed process leaves nothing behind.
/// rename() gives it the name, and replaces what had it. To replace a file it needs another name for a
/// moment: `.NAME.fusewise`, which the next rename() to NAME takes over if it is ever left behind.
class StagedFile {
 public:
  /// `unnamed`: whether to try a file without a name. Where the file system has none, the file has the name
  /// `.NAME.XXXXXX` until it is renamed or this object ends.
  StagedFile(const std::filesystem::path& file, std::string_view text, bool unnamed = true);
  StagedFile(StagedFile&& other) noexcept;
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile();

  void rename();

 private:
  void open(bool unnamed);
  bool link_as(const std::filesystem::path& name);
  void replace();
  void sync_folder() const;

  std::filesystem::path file_;  // not a link
  std::filesystem::path folder_;
  std::string temporary_;  // empty if the file has no name of its own
  Descriptor out_{-1};
};

}  // namespace core
