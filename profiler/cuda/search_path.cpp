#include "profiler/cuda/search_path.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>

namespace profiler::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders(const std::string& list) {
  std::vector<fs::path> out;
  std::istringstream in(list);
  for (std::string each; std::getline(in, each, ':');)
    if (!each.empty()) out.emplace_back(each);
  return out;
}

/// Sorted, so that the order is the same everywhere; none where it cannot be read.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (fs::directory_iterator each(folder, ignored), end; each != end; each.increment(ignored))
    if (each->is_directory(ignored)) out.push_back(each->path());
  std::sort(out.begin(), out.end());
  return out;
}

/// lib/python3.x/{site,dist}-packages/nvidia/PART/NAME's folder, of one installation.
void add_packages(const fs::path& root, const std::string& name, std::vector<fs::path>& out) {
  for (const fs::path& python : folders_in(root / "lib")) {
    if (python.filename().string().rfind("python3", 0) != 0) continue;
    for (const char* const packages : {"site-packages", "dist-packages"})
      for (const fs::path& part : folders_in(python / packages / "nvidia")) {
        std::error_code ignored;
        const fs::path file = part / "lib" / name;
        if (fs::exists(file, ignored) && std::find(out.begin(), out.end(), file) == out.end())
          out.push_back(file);
      }
  }
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

SearchEnvironment search_environment() {
  return {.named = variable("FUSEWISE_CUDA_LIBRARIES"), .path = variable("PATH"), .home = variable("HOME")};
}

std::vector<fs::path> candidates(const std::string& name, const SearchEnvironment& environment) {
  std::vector<fs::path> out;
  for (const fs::path& folder : folders(environment.named)) out.push_back(folder / name);
  out.emplace_back(name);
  for (const fs::path& folder : folders(environment.path)) add_packages(folder.parent_path(), name, out);
  if (!environment.home.empty()) add_packages(fs::path(environment.home) / ".local", name, out);
  add_packages("/usr/local", name, out);
  return out;
}

}  // namespace profiler::cuda
