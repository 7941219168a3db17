// NCCL's work in a trace: the time of collectives of each size.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/gathers.hpp"
#include "profiler/traces/import.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

struct Communication {
  std::vector<traces::Series> series;     ///< of the group that sums gradients
  std::vector<std::string> groups;        ///< titles of the groups in `series`
  std::vector<std::string> other_groups;  ///< titles of the others that have curves
  std::int64_t kernels = 0;
  std::int64_t other_kinds = 0;    ///< broadcasts, all-to-alls: networks do not describe them
  std::int64_t without_size = 0;   ///< those of the others whose size or group the trace does not state
  std::int64_t without_group = 0;  ///< those of them of which only the number of ranks is missing
  std::vector<double> busy_us;     ///< of each step: any NCCL kernel ran
  core::Gathers gathers = core::Gathers::never;
};

Communication find_communication(const Trace& trace, const Calls& calls);

}  // namespace kineto
