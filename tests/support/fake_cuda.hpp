// Where the libraries are that stand for CUDA and NCCL, and how a test asks them for faults.

#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "tests/support/program.hpp"

namespace support {

/// Variables, for as long as it lives.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) : names_(variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : names_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> names_;
};

inline std::string fake_cuda() {
  return (std::filesystem::path(program()).parent_path() / "tests/fake_cuda").string();
}

/// Not where the build has found no headers of NCCL.
inline bool has_fake_cuda() { return std::filesystem::exists(fake_cuda()); }

/// With the fakes in the place of the libraries.
inline std::map<std::string, std::string> with_fake_cuda(std::map<std::string, std::string> variables) {
  variables["FUSEWISE_CUDA_LIBRARIES"] = fake_cuda();
  return variables;
}

}  // namespace support
