#include "core/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"

namespace core {
namespace {

/// Closes the descriptor at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

[[noreturn]] void cannot_write(const std::filesystem::path& file, int error) {
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

/// Devices, pipes and open files (/dev/stdout) cannot be replaced by a rename.
bool is_special(const std::filesystem::path& file) {
  std::error_code none;
  const auto status = std::filesystem::status(file, none);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status))
    return true;
  for (std::filesystem::path link = file; std::filesystem::is_symlink(link, none);) {
    link = link.parent_path() / std::filesystem::read_symlink(link, none);
    if (link.lexically_normal().string().rfind("/proc/", 0) == 0) return true;
  }
  return false;
}

void write_special(const std::filesystem::path& file, std::string_view text) {
  Descriptor out(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (out.get() < 0) cannot_write(file, errno);
  write_all(out.get(), text, file);
}

/// Returns the mode of a file made by open(2) with mode 0666; mkstemp uses 0600.
mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666) & ~mask;
}

/// A file under a temporary name, which is removed with this object unless it was renamed.
class StagedFile {
 public:
  StagedFile(const std::filesystem::path& file, std::string_view text) : file_(target(file)) {
    temporary_ = file_.string() + ".XXXXXX";
    Descriptor out(::mkstemp(temporary_.data()));
    if (out.get() < 0) {
      temporary_.clear();
      cannot_write(file, errno);
    }
    try {
      write_all(out.get(), text, file);
      if (::fchmod(out.get(), usual_mode()) != 0 || out.close() != 0) cannot_write(file, errno);
      if (std::filesystem::is_directory(file_)) cannot_write(file, EISDIR);
    } catch (...) {
      ::unlink(temporary_.c_str());
      throw;
    }
  }
  StagedFile(StagedFile&& other) noexcept
      : file_(std::move(other.file_)), temporary_(std::exchange(other.temporary_, {})) {}
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  StagedFile& operator=(StagedFile&&) = delete;
  ~StagedFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  void rename() {
    if (std::rename(temporary_.c_str(), file_.c_str()) != 0) cannot_write(file_, errno);
    temporary_.clear();
  }

 private:
  /// Returns the target of a link, whether it exists or not.
  static std::filesystem::path target(const std::filesystem::path& file) {
    std::error_code problem;
    if (!std::filesystem::is_symlink(file, problem)) return file;
    std::filesystem::path resolved = std::filesystem::weakly_canonical(file, problem);
    return problem ? file : resolved;
  }

  std::filesystem::path file_;
  std::string temporary_;
};

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) throw std::system_error(errno, std::generic_category());
  std::string text;
  constexpr std::size_t kChunk = 1U << 16U;
  constexpr std::size_t kLargest = 1U << 30U;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + kChunk);
    const ssize_t got = ::read(in.get(), text.data() + size, kChunk);
    const int error = errno;
    text.resize(size + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return text;
    if (text.size() > kLargest) throw std::system_error(EFBIG, std::generic_category());
    if (got < 0 && error != EINTR) throw std::system_error(error, std::generic_category());
  }
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  if (is_special(file)) return write_special(file, text);
  StagedFile(file, text).rename();
}

void write_files(const std::vector<FileText>& files) {
  std::vector<StagedFile> staged;
  for (const FileText& each : files)
    if (!is_special(each.file)) staged.emplace_back(each.file, each.text);
  for (StagedFile& each : staged) each.rename();
  for (const FileText& each : files)
    if (is_special(each.file)) write_special(each.file, each.text);
}

}  // namespace core
