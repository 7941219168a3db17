// Sets environment variables for the duration of a test.

#pragma once

#include <cstdlib>
#include <map>
#include <string>

namespace support {

class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) : variables_(variables) {
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::string> variables_;
};

}  // namespace support
