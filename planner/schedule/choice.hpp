// What a schedule chooses in a setting: its groups, and how each of them travels.

#pragma once

#include <optional>
#include <vector>

#include "planner/schedule/schedule.hpp"
#include "planner/cost/setting.hpp"

namespace planner {

struct Choice {
  Groups groups;
  std::vector<TransferCost> transfers;  ///< that the groups name
  std::optional<Proof> proof;           ///< of the groups, where their fusion has one
  std::vector<Warning> warnings;
};

/// The schedule's fusion makes the groups. Throws InputError and Unsupported.
Choice choose(const Setting& setting, const Schedule& schedule);

/// What the schedule's fusion is asked in the setting. Refers to both, which must outlive it.
FusionRequest request_of(const Setting& setting, const Schedule& schedule);

/// The ways in which the schedule's groups may travel; the first is its own.
std::vector<TransferCost> make_transfers(const Setting& setting, const Schedule& schedule);

}  // namespace planner
