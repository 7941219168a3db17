// Works out the memory of a live run before it begins.

#pragma once

#include <cstdint>
#include <vector>

#include "validate/live/run.hpp"

namespace live {

/// Returns the bytes that a worker needs at least: its gradients with their fusion buffers, what it computes
/// to check the results, and its layers.
double memory_bytes(const RunSpec& spec, bool computes);

/// Throws EnvironmentError if one of these runs cannot fit into the free memory of this host with so many
/// workers on it. A run that passes may still be short of memory: others use it, too.
void check_memory(const std::vector<RunSpec>& all, std::uint32_t workers_here);

}  // namespace live
