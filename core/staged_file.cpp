#include "core/staged_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/file_guard.hpp"

namespace core {
namespace {

constexpr mode_t kMode = 0666;  // reduced by the umask

/// mkstemp() makes files of mode 0600.
mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return kMode & ~mask;
}

/// A file without a name gets one through /proc.
std::string open_file_path(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

/// Returns -1 where the file system or the system has no files without a name.
int open_unnamed(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (fd < 0 || ::access(open_file_path(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);
  return -1;
}

/// The name that a file without a name has for a moment when it replaces `file`.
std::filesystem::path name_in_between(const std::filesystem::path& file) {
  return file.parent_path() / fmt::format(".{}.fusewise", file.filename().string());
}

/// Returns whether there is a file of this name, which `file` gets or has for a moment. Throws if the file
/// system refuses the name, for instance because it is too long.
bool exists(const std::filesystem::path& name, const std::filesystem::path& file) {
  struct stat found {};
  if (::lstat(name.c_str(), &found) == 0) return true;
  if (errno != ENOENT) cannot_write(file, errno);
  return false;
}

}  // namespace

void cannot_write(const std::filesystem::path& file, int error) {
  throw EnvironmentError(
      fmt::format("{}: cannot write: {}", file.string(), std::generic_category().message(error)));
}

void write_all(int fd, std::string_view text, const std::filesystem::path& file) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot_write(file, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

StagedFile::StagedFile(const std::filesystem::path& file, std::string_view text, bool unnamed)
    : file_(link_target(file)), folder_(file_.has_parent_path() ? file_.parent_path() : ".") {
  std::error_code none;
  if (std::filesystem::is_directory(file_, none)) cannot_write(file_, EISDIR);
  // A name that cannot be used is found here, before any of several files gets its name.
  if (exists(file_, file_)) (void)exists(name_in_between(file_), file_);
  try {
    open(unnamed);
    write_all(out_.get(), text, file_);
    if (::fsync(out_.get()) != 0) cannot_write(file_, errno);
  } catch (...) {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    throw;
  }
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : file_(std::move(other.file_)),
      folder_(std::move(other.folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      out_(std::move(other.out_)) {}

StagedFile::~StagedFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void StagedFile::open(bool unnamed) {
  if (unnamed) out_ = Descriptor(open_unnamed(folder_));
  if (out_.get() >= 0) return;
  std::string name = (folder_ / fmt::format(".{}.XXXXXX", file_.filename().string())).string();
  out_ = Descriptor(::mkstemp(name.data()));
  if (out_.get() < 0) cannot_write(file_, errno);
  temporary_ = std::move(name);
  if (::fchmod(out_.get(), usual_mode()) != 0) cannot_write(file_, errno);
}

void StagedFile::rename() {
  if (temporary_.empty()) {
    if (!link_as(file_)) replace();
  } else {
    if (std::rename(temporary_.c_str(), file_.c_str()) != 0) cannot_write(file_, errno);
    temporary_.clear();
  }
  sync_folder();
}

/// Returns false if there is a file of this name.
bool StagedFile::link_as(const std::filesystem::path& name) {
  const std::string open_file = open_file_path(out_.get());
  if (::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
  if (errno != EEXIST) cannot_write(file_, errno);
  return false;
}

/// Processes that replace files in the same folder take turns: a file without a name can be given one only
/// once, so nobody may remove the name in between from another. Where folders cannot be locked, a second
/// process at the same moment fails. What has the name is always a complete file.
void StagedFile::replace() {
  const Descriptor turn(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (turn.get() >= 0) (void)::flock(turn.get(), LOCK_EX);
  const std::filesystem::path between = name_in_between(file_);
  constexpr int kMaxAttempts = 1000;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    if (!link_as(between)) {
      if (::unlink(between.c_str()) != 0 && errno != ENOENT) cannot_write(file_, errno);
      continue;
    }
    const bool is_done = std::rename(between.c_str(), file_.c_str()) == 0;
    const int error = errno;
    // rename() does nothing if both are already links to this file; after a failure the name has to go, too.
    ::unlink(between.c_str());
    if (is_done) return;
    if (error != ENOENT) cannot_write(file_, error);
  }
  cannot_write(file_, EBUSY);
}

/// A name is on disk when its folder is. Some file systems cannot do that for a folder.
void StagedFile::sync_folder() const {
  const Descriptor folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL) cannot_write(file_, errno);
}

}  // namespace core
