// Runs iproute2's commands, inside a network namespace.

#pragma once

#include <string>
#include <vector>

namespace netlab {

/// The file of a command, also where the PATH has no sbin. EnvironmentError if there is none.
std::string find_command(const std::string& name);

/// Runs it in the network namespace that is open as `network`, gives it `input`, and waits. EnvironmentError
/// with the first line of what it says if it fails, or takes longer than 10 s.
void run_inside(int network, const std::vector<std::string>& command, const std::string& input);

}  // namespace netlab
