// Named labs that stay up between commands: one small file for each, in a folder of the user.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/descriptor.hpp"
#include "core/field.hpp"
#include "validate/netlab/lab.hpp"

namespace netlab {

/// Returns $XDG_RUNTIME_DIR/fusewise or, if that is not set, /tmp/fusewise-UID; creates it with access for
/// this user only. Throws EnvironmentError on failure.
std::filesystem::path registry_folder();

/// Locks the folder against other processes that start or stop labs, during its lifetime.
class RegistryLock {
 public:
  explicit RegistryLock(const std::filesystem::path& folder);
  ~RegistryLock();
  RegistryLock(const RegistryLock&) = delete;
  RegistryLock& operator=(const RegistryLock&) = delete;

 private:
  int fd_;
};

/// Letters, digits, '-' and '_', at most 40.
bool is_name(const std::string& name);

Lab read_lab(const core::Field& field);
std::string lab_text(const Lab& lab);

/// Returns nothing if no lab of this name is up; a file whose keeper has ended does not count.
std::optional<Lab> find_lab(const std::filesystem::path& folder, const std::string& name);

/// A lab in which no other command measures until this is gone: what shares its links is measured too slow.
struct UsedLab {
  Lab lab;
  core::Descriptor lock;
};

/// Throws EnvironmentError if no lab of this name is up, or if another command uses it.
UsedLab use_lab(const std::filesystem::path& folder, const std::string& name);

void enlist(const std::filesystem::path& folder, const std::string& name, const Lab& lab);
/// Removes the file of a lab, if there is one, and what a command that was killed has left of it.
void remove_lab_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace netlab
