// A PyTorch profiler trace becomes a profile and, where NCCL ran, a network measurement, with an account of
// what could not be attributed.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/network.hpp"
#include "core/profile.hpp"
#include "profiler/traces/import.hpp"

namespace kineto {

struct Imported {
  core::Profile profile;
  std::optional<core::Network> network;
  std::vector<std::string> account;  ///< lines for a person
  std::vector<std::string> warnings;
};

/// What torch.profiler calls its steps.
constexpr std::string_view kProfilerStep = "ProfilerStep#";

/// Annotations whose names begin with `step` are the iterations; without any the whole trace is one. Throws
/// InputError where the trace is damaged or holds too little.
Imported import_trace(const std::string& path, const traces::ImportOptions& options,
                      std::string_view step = kProfilerStep);

}  // namespace kineto
