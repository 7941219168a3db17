#include "profiler/cuda_runtime/shared_library.hpp"

#include <dlfcn.h>
#include <grp.h>
#include <link.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"

namespace cuda_runtime {
namespace {

namespace fs = std::filesystem;

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(':', at), list.size());
    if (end > at) out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Returns the subfolders in a fixed order; none if the folder cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->is_directory(error)) out.push_back(at->path());
  std::ranges::sort(out);
  return out;
}

class Folders {
 public:
  void add(const fs::path& folder) {
    std::error_code error;
    if (fs::is_directory(folder, error) && std::ranges::find(found_, folder.string()) == found_.end())
      found_.push_back(folder.string());
  }
  /// Adds a folder from which Python imports.
  void add_packages(const fs::path& folder) {
    for (const fs::path& package : folders_in(folder / "nvidia")) add(package / "lib");
  }
  /// Adds the folders of an installation, such as /usr or a virtual environment.
  void add_python(const fs::path& prefix) {
    for (const fs::path& lib : {prefix / "lib", prefix / "lib64"})
      for (const fs::path& version : folders_in(lib))
        if (version.filename().string().rfind("python3", 0) == 0)
          for (const char* packages : {"site-packages", "dist-packages"}) add_packages(version / packages);
  }
  /// Adds the installation that contains this program, and those to which it links: PATH may contain only a
  /// link to an installation.
  void add_python_of(fs::path program) {
    constexpr int kMaxLinks = 16;
    for (int link = 0; link < kMaxLinks; ++link) {
      add_python(program.parent_path().parent_path());
      std::error_code error;
      const fs::path to = fs::read_symlink(program, error);
      if (error) return;
      program = (program.parent_path() / to).lexically_normal();  // an absolute target replaces the path
    }
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

/// Whether this user may be replaced by that one: root is trusted, and so is an owner outside this user
/// namespace, who cannot be told from root.
bool is_trusted(uid_t user) {
  constexpr uid_t kUnmapped = 65534;
  return user == 0 || user == ::geteuid() || user == kUnmapped;
}

/// Whether a group has members that are not trusted, as far as the system lists them.
bool has_others(gid_t group) {
  if (group == 0) return false;
  const struct group* listed = ::getgrgid(group);
  if (listed == nullptr) return true;
  for (char** member = listed->gr_mem; *member != nullptr; ++member) {
    const struct passwd* user = ::getpwnam(*member);
    if (user == nullptr || !is_trusted(user->pw_uid)) return true;
  }
  bool found = false;
  ::setpwent();
  while (const struct passwd* user = ::getpwent())
    found = found || (user->pw_gid == group && !is_trusted(user->pw_uid));
  ::endpwent();
  return found;
}

/// Whether another user than root may replace the file: it, or a folder above it, belongs to another user, or
/// is writable by all or by a group with other members and has no sticky bit.
bool others_can_replace(const fs::path& file) {
  std::error_code error;
  for (fs::path at = fs::canonical(file, error); !error; at = at.parent_path()) {
    struct stat about {};
    if (::stat(at.c_str(), &about) != 0) return false;
    const bool sticky = S_ISDIR(about.st_mode) && (about.st_mode & S_ISVTX) != 0;
    if (!is_trusted(about.st_uid) || (!sticky && (about.st_mode & S_IWOTH) != 0)) return true;
    if (!sticky && (about.st_mode & S_IWGRP) != 0 && has_others(about.st_gid)) return true;
    if (at == at.parent_path()) return false;
  }
  return false;
}

/// Returns the file of a handle, as reported by the loader.
std::string file_of(void* handle, const std::string& asked_for) {
  const link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0 || map == nullptr) return asked_for;
  return *map->l_name == '\0' ? asked_for : map->l_name;
}

}  // namespace

std::vector<std::string> library_folders(const Environment& environment) {
  Folders out;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string home = environment(variable); !home.empty())
      for (const char* lib : {"lib64", "lib"}) out.add(fs::path(home) / lib);
  for (const char* lib : {"lib64", "lib"}) out.add(fs::path("/usr/local/cuda") / lib);
  for (const std::string& folder : split(environment("PYTHONPATH"))) out.add_packages(folder);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string prefix = environment(variable); !prefix.empty()) {
      out.add(fs::path(prefix) / "lib");
      out.add_python(prefix);
    }
  if (const std::string home = environment("HOME"); !home.empty()) out.add_python(fs::path(home) / ".local");
  for (const std::string& folder : split(environment("PATH"))) {
    std::error_code error;
    const fs::path program = fs::path(folder) / "python3";
    if (fs::exists(program, error)) out.add_python_of(program);
  }
  return out.take();
}

SharedLibrary::SharedLibrary(void* handle, std::string file)
    : handle_(handle, [](void*) {}),  // never closed: threads of these libraries may outlive their users
      file_(std::move(file)) {}

SharedLibrary SharedLibrary::open(const LibraryName& name) {
  std::vector<std::string> tried;
  std::string broken;
  const auto attempt = [&](const std::string& file) -> void* {
    if (file.find('/') != std::string::npos && others_can_replace(file)) {
      if (broken.empty()) broken = file + ": other users can replace this file, so it is not loaded";
      return nullptr;
    }
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = handle == nullptr ? ::dlerror() : nullptr;
    std::error_code error;  // a library that exists but does not load is the more useful reason
    if (why != nullptr && broken.empty() && file.find('/') != std::string::npos && fs::exists(file, error))
      broken = why;
    return handle;
  };
  std::vector<std::string> folders = split(process_environment("FUSEWISE_CUDA_LIBRARIES"));
  const std::size_t own = folders.size();
  folders.emplace_back();  // the loader's own search
  for (std::string& folder : library_folders(process_environment)) folders.push_back(std::move(folder));
  for (std::size_t i = 0; i < folders.size(); ++i)
    for (const std::string& file : name.files) {
      const std::string path = i == own ? file : folders[i] + '/' + file;
      if (void* handle = attempt(path)) return {handle, file_of(handle, path)};
    }
  if (!broken.empty()) throw core::EnvironmentError(fmt::format("{} does not open: {}", name.what, broken));
  throw core::EnvironmentError(
      fmt::format("{} is not installed: no {} where the loader looks, in FUSEWISE_CUDA_LIBRARIES, "
                  "CUDA_HOME, /usr/local/cuda or the nvidia packages of Python",
                  name.what, fmt::join(name.files, " or ")));
}

void* SharedLibrary::find(const char* function) const { return ::dlsym(handle_.get(), function); }

void* SharedLibrary::at(const char* function) const {
  void* found = find(function);
  if (found == nullptr)
    throw core::EnvironmentError(
        fmt::format("{} has no function {}: expected a newer version", file_, function));
  return found;
}

}  // namespace cuda_runtime
