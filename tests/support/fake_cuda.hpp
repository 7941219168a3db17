// Finds the mock libraries for CUDA and NCCL, and tells how a test asks them for faults.

#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tests/support/environment.hpp"
#include "tests/support/program.hpp"

namespace support {

inline std::string fake_cuda() {
  return (std::filesystem::path(program()).parent_path() / "tests/fake_cuda").string();
}

/// False if the build has found no headers of NCCL.
inline bool has_fake_cuda() { return std::filesystem::exists(fake_cuda()); }

/// Returns the environment with the mock libraries in place of the real ones.
inline std::map<std::string, std::string> with_fake_cuda(std::map<std::string, std::string> variables) {
  variables["FUSEWISE_CUDA_LIBRARIES"] = fake_cuda();
  return variables;
}

}  // namespace support
