#include "core/file_guard.hpp"

#include <sys/stat.h>

#include <optional>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/printable.hpp"

namespace core {
namespace {

namespace fs = std::filesystem;

/// The guard of this process. Files are read and written in every folder, so none could hand it on.
FileGuard*& active_guard() {
  static FileGuard* guard = nullptr;
  return guard;
}

/// Returns the folder of a file without links in its path; empty if it does not exist.
fs::path folder_of(const fs::path& file) {
  std::error_code none;
  return fs::canonical(file.has_parent_path() ? file.parent_path() : fs::path("."), none);
}

/// Follows one link at a time: calls `use(folder, path)` for the path and for each target.
template <typename Use>
void each_link(fs::path file, Use use) {
  constexpr int kMaxLinks = 40;  // as in Linux
  for (int links = 0; links < kMaxLinks; ++links) {
    const fs::path folder = folder_of(file);
    if (!use(folder, file)) return;
    std::error_code problem;
    if (!fs::is_symlink(file, problem)) return;
    const fs::path target = fs::read_symlink(file, problem);
    if (problem) return;
    file = folder / target;
  }
}

/// A regular file, under whatever name, such as that of its descriptor; or the folder and the name under
/// which it would be made.
using FileId = std::tuple<dev_t, ino_t, std::string>;

std::optional<FileId> id_of(const fs::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) == 0) {
    if (!S_ISREG(status.st_mode)) return std::nullopt;
    return FileId(status.st_dev, status.st_ino, "");
  }
  if (is_open_file(file)) return std::nullopt;
  const fs::path target = link_target(file);
  if (::stat(folder_of(target).c_str(), &status) != 0) return std::nullopt;
  return FileId(status.st_dev, status.st_ino, target.filename().string());
}

[[noreturn]] void refuse(const std::string& output, const std::string& got) {
  throw InputError(fmt::format("{}: expected a file of its own, got {}", output, got));
}

[[noreturn]] void refuse_input(const std::string& output, const fs::path& input) {
  refuse(output, "the input " + one_line(input.string()));
}

}  // namespace

FileGuard::FileGuard() { active_guard() = this; }
FileGuard::~FileGuard() { active_guard() = nullptr; }

void add_input(const fs::path& file) {
  FileGuard* const guard = active_guard();
  if (guard == nullptr) return;
  const std::lock_guard lock(guard->mutex_);
  for (const auto& [name, output] : guard->outputs_)
    if (is_same_file(output, file)) refuse_input(name, file);
  guard->inputs_.insert(file);
}

void add_output(const std::string& name, const fs::path& file) {
  check_output(file, name);
  FileGuard* const guard = active_guard();
  if (guard == nullptr) return;
  const std::lock_guard lock(guard->mutex_);
  for (const auto& [other, output] : guard->outputs_)
    if (!is_special(file) && !is_special(output) && is_same_file(output, file))
      refuse(name, "the one of " + other);
  guard->outputs_.emplace_back(name, file);
}

void check_output(const fs::path& file, const std::string& name) {
  FileGuard* const guard = active_guard();
  if (guard == nullptr) return;
  const std::lock_guard lock(guard->mutex_);
  for (const fs::path& input : guard->inputs_)
    if (is_same_file(input, file)) refuse_input(name, input);
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  const std::optional<FileId> id = id_of(a);
  return id && id == id_of(b);
}

fs::path link_target(const fs::path& file) {
  fs::path target;
  each_link(file, [&](const fs::path& /*folder*/, const fs::path& link) {
    target = link;
    return true;
  });
  return target;
}

bool is_open_file(const fs::path& file) {
  bool found = false;
  each_link(file, [&](const fs::path& folder, const fs::path& /*link*/) {
    found = folder.native().starts_with("/proc/");
    return !found;
  });
  return found;
}

bool is_special(const fs::path& file) {
  std::error_code none;
  const fs::file_status status = fs::status(file, none);
  const bool is_plain = !fs::exists(status) || fs::is_regular_file(status) || fs::is_directory(status);
  return !is_plain || is_open_file(file);
}

}  // namespace core
