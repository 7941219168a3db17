// What-if analysis of a job with a fixed plan: the same groups, order and random samples on another network,
// on faster workers, or without stragglers, jitter or failures.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/profile.hpp"
#include "planner/cost/setting.hpp"
#include "planner/run/metrics.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

struct Change {
  std::string text;      ///< as the user wrote it
  double startup = 1;    ///< divides the startup time of messages
  double bandwidth = 1;  ///< multiplies the network's bytes per second
  double compute = 1;    ///< multiplies the speed of compute, encoding and decoding on every worker
  bool has_stragglers = true;
  bool has_jitter = true;  ///< of compute and links
  bool has_failures = true;
  bool has_launch_waits = true;          ///< the device waits for the host to launch kernels
  std::vector<std::string> free_layers;  ///< layers whose forward and backward take no time
};

/// Parses comma-separated changes: `network=F` (startup and bandwidth), `startup=F`, `bandwidth=F`,
/// `compute=F` (F times as fast), `no-stragglers` (including slow links), `no-jitter`, `no-failures`,
/// `layer=NAME` (free). Throws InputError that names the option `--what-if`.
Change read_change(std::string_view text, const core::Profile& profile);

/// The profile and the conditions under the change.
core::Profile with_change(const core::Profile& profile, const Change& change);
Conditions with_change(Conditions conditions, const Change& change);

/// Metrics of the plan's groups under the change. Selective compression decides again which groups to encode.
/// Throws Unsupported if nothing is left to simulate.
Metrics what_if(const Setting& setting, const Schedule& schedule, const CommunicationPlan& plan,
                const Change& change);

}  // namespace planner
