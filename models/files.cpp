#include "models/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "models/errors.hpp"

namespace models {
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
  throw WorldError(
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

/// /dev/stdout, pipes and the like are written in place: there is nothing to rename over.
bool is_special(const std::filesystem::path& file) {
  std::error_code none;
  const auto status = std::filesystem::status(file, none);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

void write_special(const std::filesystem::path& file, std::string_view text) {
  Descriptor out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (out.get() < 0) cannot_write(file, errno);
  write_all(out.get(), text, file);
}

/// What a file made by open(2) with mode 0666 would get; mkstemp gives 0600.
mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return static_cast<mode_t>(0666) & ~mask;
}

}  // namespace

std::string read_file(const std::filesystem::path& file) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (in.get() < 0) throw std::system_error(errno, std::generic_category());
  std::string text;
  constexpr std::size_t kChunk = 1U << 16U;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + kChunk);
    const ssize_t got = ::read(in.get(), text.data() + size, kChunk);
    const int error = errno;
    text.resize(size + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) throw std::system_error(error, std::generic_category());
  }
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  if (is_special(file)) return write_special(file, text);
  std::string temporary = file.string() + ".XXXXXX";
  Descriptor out(::mkstemp(temporary.data()));
  if (out.get() < 0) cannot_write(file, errno);
  try {
    write_all(out.get(), text, file);
    if (::fchmod(out.get(), usual_mode()) != 0) cannot_write(file, errno);
    if (out.close() != 0) cannot_write(file, errno);
    if (std::rename(temporary.c_str(), file.c_str()) != 0) cannot_write(file, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace models
