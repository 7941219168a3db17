// Sets variables of the environment while it lives, and restores them.

#pragma once

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace support {

class Environment {
 public:
  Environment(const std::string& name, const std::string& value)
      : Environment(std::map<std::string, std::string>{{name, value}}) {}
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      if (const char* before = std::getenv(name.c_str())) before_[name] = before;
      names_.push_back(name);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const std::string& name : names_)
      before_.contains(name) ? ::setenv(name.c_str(), before_.at(name).c_str(), 1) : ::unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string> before_;
};

}  // namespace support
