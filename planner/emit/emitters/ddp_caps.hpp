// One cap per DDP bucket.

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "planner/emit/emitters/caps.hpp"
#include "planner/job/workload.hpp"

namespace planner {

struct DdpCaps {
  std::vector<std::string> mb;  ///< with the fewest decimals
  Sizes bytes;                  ///< the bytes that DDP derives from them

  /// The caps in MiB.
  nlohmann::ordered_json json() const;
};

/// Caps with which DDP forms these groups, which must be in backward order.
DdpCaps ddp_caps(const Workload& workload, const Groups& groups);

}  // namespace planner
