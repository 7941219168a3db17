// One cap for each of DDP's buckets.

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/emit/emitters/caps.hpp"
#include "planner/job/workload.hpp"

namespace planner {

struct DdpCaps {
  std::vector<std::string> mb;  ///< as short as they can be
  Sizes bytes;                  ///< what DDP makes of them

  /// The numbers of MiB.
  nlohmann::ordered_json json() const;
};

/// Caps with which DDP makes these groups, which must come in backward order.
DdpCaps ddp_caps(const Workload& workload, const Groups& groups);

}  // namespace planner
