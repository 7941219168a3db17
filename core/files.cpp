#include "core/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/file_guard.hpp"
#include "core/printable.hpp"
#include "core/staged_file.hpp"

namespace core {
namespace {

[[noreturn]] void cannot_read(int error) { throw ReadError(std::generic_category().message(error)); }

[[noreturn]] void too_large(std::size_t max_bytes) {
  constexpr std::size_t kMebi = 1U << 20U;
  throw ReadError(fmt::format("a file of more than {} MiB", max_bytes / kMebi));
}

std::string_view kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void write_special(const std::filesystem::path& file, std::string_view text) {
  const Descriptor out(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (out.get() < 0) cannot_write(file, errno);
  write_all(out.get(), text, file);
}

Descriptor open_any(const std::filesystem::path& file) {
  if (file.native().find('\0') != std::string::npos) throw ReadError("a path with a NUL character");
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) cannot_read(errno);
  if (S_ISDIR(status.st_mode)) cannot_read(EISDIR);
  const bool is_plain = S_ISREG(status.st_mode);
  if (!is_plain && !is_open_file(file))
    throw ReadError(fmt::format("{}, not a regular file", kind_of(status.st_mode)));
  // Without O_NONBLOCK, opening waits where a pipe has taken the file's place in the meantime.
  Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (in.get() < 0) cannot_read(errno);
  if (!is_plain) (void)::fcntl(in.get(), F_SETFL, 0);
  return in;
}

std::string read_all(const Descriptor& in, std::size_t max_bytes) {
  struct stat status = {};
  if (::fstat(in.get(), &status) != 0) cannot_read(errno);
  const auto size = static_cast<std::size_t>(std::max<off_t>(0, status.st_size));
  if (S_ISREG(status.st_mode) && size > max_bytes) too_large(max_bytes);
  constexpr std::size_t kChunk = 1U << 16U;
  std::string text;
  text.reserve(size + kChunk);
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t got = ::read(in.get(), text.data() + before, kChunk);
    const int error = errno;
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(0, got)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) cannot_read(error);
    if (text.size() > max_bytes) too_large(max_bytes);
  }
}

}  // namespace

Descriptor open_input(const std::filesystem::path& file) {
  Descriptor in = open_any(file);
  add_input(file);
  return in;
}

std::string read_file(const std::filesystem::path& file, std::size_t max_bytes) {
  return read_all(open_input(file), max_bytes);
}

std::string read_own_file(const std::filesystem::path& file) {
  constexpr std::size_t kGibi = 1U << 30U;
  try {
    return read_all(open_any(file), kGibi);
  } catch (const ReadError& error) {
    throw EnvironmentError(fmt::format("{}: cannot read: {}", file.string(), error.what()));
  }
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  check_output(file, file.string());
  if (is_special(file)) return write_special(file, text);
  StagedFile(file, text).rename();
}

void write_files(const std::vector<FileText>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    check_output(files[i].file, files[i].file.string());
    for (std::size_t j = 0; j < i; ++j)
      if (!is_special(files[i].file) && !is_special(files[j].file) &&
          is_same_file(files[i].file, files[j].file))
        throw InputError(fmt::format("{}: expected a file of its own, got another output's",
                                     one_line(files[i].file.string())));
  }
  std::vector<StagedFile> staged;
  for (const FileText& each : files)
    if (!is_special(each.file)) staged.emplace_back(each.file, each.text);
  for (const FileText& each : files)  // first, as writing may still fail here, and renaming hardly
    if (is_special(each.file)) write_special(each.file, each.text);
  for (StagedFile& each : staged) each.rename();
}

}  // namespace core
