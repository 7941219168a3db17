// What a schedule chooses in a setting: the groups, and how each of them is transferred.

#pragma once

#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

struct Choice {
  Groups groups;
  std::vector<TransferCost> transfers;  ///< the groups name them by index
  std::optional<Proof> proof;           ///< how good the groups are, where the fusion knows
  std::vector<Warning> warnings;
};

/// Lets the schedule's fusion make the groups. Throws InputError or Unsupported.
Choice choose(const Setting& setting, const Schedule& schedule);

/// The request that the schedule's fusion answers in this setting. It refers to both, which must outlive it.
FusionRequest request_of(const Setting& setting, const Schedule& schedule);

/// The transfers that the schedule offers to each group; the first is the schedule's own.
std::vector<TransferCost> make_transfers(const Setting& setting, const Schedule& schedule);

}  // namespace planner
