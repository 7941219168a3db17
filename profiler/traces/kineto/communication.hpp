// What NCCL did in a trace: how long collectives of each size took, and how much of it nothing hid.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/import.hpp"
#include "profiler/traces/kineto/calls.hpp"

namespace kineto {

struct Communication {
  std::vector<traces::Series> series;
  std::int64_t kernels = 0;
  std::int64_t without_size = 0;   ///< of those: the trace does not say what they carried
  std::vector<double> busy_us;     ///< of each step: any NCCL kernel ran
  std::vector<double> exposed_us;  ///< of each step: one ran and no other kernel did
};

Communication find_communication(const Trace& trace, const Calls& calls);

}  // namespace kineto
