#include "validate/netlab/registry.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/json_text.hpp"

namespace netlab {
namespace {

using core::EnvironmentError;

std::filesystem::path file_of(const std::filesystem::path& folder, const std::string& name) {
  return folder / (name + ".netlab.json");
}

}  // namespace

std::filesystem::path registry_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  const std::filesystem::path folder =
      runtime != nullptr && *runtime != '\0'
          ? std::filesystem::path(runtime) / "fusewise"
          : std::filesystem::path(fmt::format("/tmp/fusewise-{}", ::getuid()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    throw EnvironmentError(fmt::format("{}: cannot make this folder: {}", folder.string(),
                                       std::generic_category().message(errno)));
  struct stat status = {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid() ||
      (status.st_mode & 022) != 0)
    throw EnvironmentError(
        fmt::format("{}: expected a folder that only this user can write", folder.string()));
  return folder;
}

RegistryLock::RegistryLock(const std::filesystem::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= until) {
      ::close(fd_);
      throw EnvironmentError(
          fmt::format("{}: another fusewise has locked this folder for 30 s", folder.string()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (fd_ < 0) throw EnvironmentError(fmt::format("{}: cannot open this folder", folder.string()));
}

RegistryLock::~RegistryLock() { ::close(fd_); }

bool is_name(const std::string& name) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 40 && std::ranges::all_of(name, is_fine);
}

Lab read_lab(const core::Field& field) {
  field.check_format("fusewise.netlab");
  field.allow_only(
      {"format", "version", "bits_per_second", "delay_us", "keeper", "keeper_started", "namespaces"});
  Lab lab = {.shape = {.workers = 0,
                       .bits_per_second = field.at("bits_per_second").number(1, 1e15),
                       .delay_us = field.at("delay_us").number(0, 1e9)},
             .keeper = static_cast<pid_t>(field.at("keeper").integer(2, 1 << 30)),
             .keeper_started =
                 static_cast<std::uint64_t>(field.at("keeper_started").integer(1, std::int64_t{1} << 53)),
             .namespaces = {}};
  const core::Field namespaces = field.at("namespaces");
  for (const core::Field& item : namespaces.non_empty_items())
    lab.namespaces.push_back(static_cast<int>(item.integer(0, 1 << 20)));
  if (lab.namespaces.size() < 2 || lab.namespaces.size() > kMaxWorkers)
    namespaces.expected(fmt::format("2 to {} descriptors", kMaxWorkers));
  lab.shape.workers = static_cast<std::uint32_t>(lab.namespaces.size());
  return lab;
}

std::string lab_text(const Lab& lab) {
  return core::json_text({{"format", "fusewise.netlab"},
                          {"version", 1},
                          {"bits_per_second", lab.shape.bits_per_second},
                          {"delay_us", lab.shape.delay_us},
                          {"keeper", lab.keeper},
                          {"keeper_started", lab.keeper_started},
                          {"namespaces", lab.namespaces}});
}

std::optional<Lab> find_lab(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path file = file_of(folder, name);
  if (!std::filesystem::exists(file)) return {};
  Lab lab = read_lab(core::Field::parse(core::read_own_file(file), file.string()));
  return is_up(lab) ? std::optional(std::move(lab)) : std::nullopt;
}

UsedLab use_lab(const std::filesystem::path& folder, const std::string& name) {
  std::optional<Lab> lab = find_lab(folder, name);
  core::Descriptor lock(::open(file_of(folder, name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!lab || lock.get() < 0)
    throw EnvironmentError(fmt::format("netlab '{}' is not up (fusewise netlab up --name {})", name, name));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    throw EnvironmentError(
        fmt::format("netlab '{}' is used by another command: run one after the other, or make another netlab "
                    "(fusewise netlab up --name NAME)",
                    name));
  return {.lab = std::move(*lab), .lock = std::move(lock)};
}

void enlist(const std::filesystem::path& folder, const std::string& name, const Lab& lab) {
  core::write_file(file_of(folder, name), lab_text(lab));
}

void remove_lab_file(const std::filesystem::path& folder, const std::string& name) {
  const std::string begin = file_of(folder, name).string();
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (!error && entry.path().string().starts_with(begin)) std::filesystem::remove(entry.path(), error);
  if (error) throw EnvironmentError(fmt::format("{}: {}", begin, error.message()));
}

}  // namespace netlab
