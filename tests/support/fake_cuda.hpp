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

/// The reason why the fakes are missing; empty where they have been built.
inline std::string no_fake_cuda() {
  return std::filesystem::exists(fake_cuda()) ? "" : "built without the headers of CUDA and NCCL";
}

/// Returns the environment with the mock libraries in place of the real ones.
inline std::map<std::string, std::string> with_fake_cuda(std::map<std::string, std::string> variables) {
  variables["FUSEWISE_CUDA_LIBRARIES"] = fake_cuda();
  return variables;
}

}  // namespace support
