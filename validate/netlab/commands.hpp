// Runs iproute2's commands inside a network namespace.

#pragma once

#include <string>
#include <vector>

namespace netlab {

/// Returns the path of a command, even if PATH contains no sbin. Throws EnvironmentError if there is none.
std::string find_command(const std::string& name);

/// Runs the command in the network namespace of the descriptor `network`, passes it `input`, and waits.
/// Throws EnvironmentError with the first line of its output if it fails or takes longer than 60 s.
void run_inside(int network, const std::vector<std::string>& command, const std::string& input);

}  // namespace netlab
