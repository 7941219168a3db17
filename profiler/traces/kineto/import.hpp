// Converts a PyTorch profiler trace to a profile and, if NCCL ran, a network measurement, and reports what
// could not be attributed.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/gathers.hpp"
#include "core/network.hpp"
#include "core/profile.hpp"
#include "core/sharded_groups.hpp"
#include "profiler/traces/import.hpp"

namespace kineto {

struct Imported {
  core::Profile profile;
  std::optional<core::Network> network = {};
  double iteration_us = 0;       ///< measured, the median of the iterations that were used
  double computing_us = 0;       ///< of it, kernels of layers and of the update
  double exchange_us = 0;        ///< of that, waits for all-to-alls and the like
  double exposed_us = 0;         ///< of the iteration, communication that no kernel hid
  double exposed_before_us = 0;  ///< likewise, in earlier passes than the last, and part of its other work
  std::vector<std::int64_t> buckets = {};  ///< elements of what sums its gradients, in their order
  bool computes_on_host = false;           ///< operators on the CPU are its kernels
  core::Gathers gathers = core::Gathers::never;
  core::ShardedGroups sharded = {};       ///< where parameters are gathered for passes
  std::vector<std::string> account = {};  ///< lines for a person
  std::vector<std::string> warnings = {};
  std::vector<std::string> curve_warnings = {};  ///< on the network
};

/// The name that torch.profiler gives its steps.
constexpr std::string_view kProfilerStep = "ProfilerStep#";

/// Annotations whose names begin with `step` are the iterations; without any the whole trace is one. Throws
/// InputError if the trace is damaged or holds too little.
Imported import_trace(const std::string& path, const traces::ImportOptions& options,
                      std::string_view step = kProfilerStep);

/// Takes a part of the iteration's other work for waiting for slower workers, which several ranks show.
void take_for_waiting(Imported& imported, double us);

/// The part of an iteration's exposed waiting for slower workers that is no part of its other work: as much
/// as of its exposed communication.
double exposed_waiting_us(const Imported& imported, double us);

struct ImportedNetwork {
  core::Network network;
  std::vector<std::string> warnings = {};
};

/// The network alone, for which the trace needs neither layers nor gradients. Throws InputError if the trace
/// is damaged, or holds no collectives of known sizes.
ImportedNetwork import_network(const std::string& path, const traces::ImportOptions& options);

}  // namespace kineto
