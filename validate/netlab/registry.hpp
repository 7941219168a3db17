// Labs that stay up between commands, by name: a small file for each, in a folder of the user's own.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/field.hpp"
#include "validate/netlab/lab.hpp"

namespace netlab {

/// $XDG_RUNTIME_DIR/fusewise or, without it, /tmp/fusewise-UID: made when first asked for, this user's alone.
/// EnvironmentError if it cannot be.
std::filesystem::path registry_folder();

/// Holds off others who put labs up or down in the folder, for as long as this lives.
class RegistryLock {
 public:
  explicit RegistryLock(const std::filesystem::path& folder);
  ~RegistryLock();
  RegistryLock(const RegistryLock&) = delete;
  RegistryLock& operator=(const RegistryLock&) = delete;

 private:
  int fd_;
};

/// Letters, digits, '-' and '_', 40 at most.
bool is_name(const std::string& name);

Lab read_lab(const core::Field& field);
std::string lab_text(const Lab& lab);

/// Nothing where none of this name is up; a file whose keeper is gone does not count.
std::optional<Lab> find_lab(const std::filesystem::path& folder, const std::string& name);
void enlist(const std::filesystem::path& folder, const std::string& name, const Lab& lab);
/// Also where there is none.
void strike_out(const std::filesystem::path& folder, const std::string& name);

}  // namespace netlab
