// What-ifs about a job whose plan stays: the same groups in the same order and the same draws, on another
// network, on faster workers, or with nobody in the way.

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
  double startup = 1;    ///< of the network: messages start up in 1 / startup of the time
  double bandwidth = 1;  ///< so many times as many bytes per second
  double compute = 1;    ///< every worker computes, encodes and decodes so many times as fast
  bool has_stragglers = true;
  bool has_jitter = true;  ///< of compute and of links
  bool has_failures = true;
  std::vector<std::string> free_layers;  ///< take no time, forward or backward
};

/// Changes between commas: `network=F` (startup and bandwidth), `startup=F`, `bandwidth=F`, `compute=F` (F
/// times as fast), `no-stragglers` (slow links included), `no-jitter`, `no-failures`, `layer=NAME` (free).
/// Throws InputError, naming the option `--what-if`.
Change read_change(std::string_view text, const core::Profile& profile);

/// What the plan's groups give then. Which groups selective compression leaves alone is decided anew. Throws
/// Unsupported where nothing is left to simulate.
Metrics what_if(const Setting& setting, const Schedule& schedule, const CommunicationPlan& plan,
                const Change& change);

}  // namespace planner
