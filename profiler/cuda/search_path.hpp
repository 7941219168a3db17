// Where NVIDIA's libraries may lie: named folders, the system's loader, and Python installations, into which
// pip puts them.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace profiler::cuda {

/// What decides, as the environment has it: lists of folders with colons between.
struct SearchEnvironment {
  std::string named;  ///< FUSEWISE_CUDA_LIBRARIES
  std::string path;   ///< PATH
  std::string home;   ///< HOME
};

SearchEnvironment search_environment();

/// What to try for a library of this file name, in this order; the bare name stands for the system's loader.
std::vector<std::filesystem::path> candidates(const std::string& name, const SearchEnvironment& environment);

}  // namespace profiler::cuda
