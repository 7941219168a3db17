// Network namespaces in tests: detects whether this machine supports them, and forbids them to a process.

#pragma once

#include <string>

namespace support {

/// Returns why netlab cannot build a network here; empty if it can. Detected once.
std::string no_namespaces();

/// Prevents this process and its children from creating namespaces. Cannot be undone.
void forbid_namespaces();

}  // namespace support
