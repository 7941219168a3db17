// Network namespaces in tests: whether this machine has them, and a process that is denied them.

#pragma once

#include <string>

namespace support {

/// The reason why netlab cannot build a network here; empty where it can. It is found out once.
std::string no_namespaces();

/// From now on neither this process nor those that it starts can make namespaces. It cannot be undone.
void forbid_namespaces();

}  // namespace support
