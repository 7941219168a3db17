// When exchanges of passes run, or queue behind other collectives of their process group.

#pragma once

#include <cstdint>
#include <vector>

#include "profiler/traces/kineto/device_time.hpp"

namespace kineto {

/// A collective on the device.
struct GroupCollective {
  std::uint32_t group = 0;  ///< its process group
  Span ran;
  std::int64_t launched_ns = 0;
  bool is_exchange_of_pass = false;
};

/// The collectives of a process group run one after the other, so that an exchange waits for those that were
/// launched before it and still run, for example for a bucket of gradients. Returns disjoint spans in order,
/// each with the launch of the exchange that was launched first among those that run or queue in it.
std::vector<LaunchedSpan> queued_exchanges(const std::vector<GroupCollective>& all);

}  // namespace kineto
