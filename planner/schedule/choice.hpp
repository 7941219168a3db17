// The choice of a schedule in a setting: its groups and the transfer of each.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/schedule/schedule.hpp"

namespace planner {

struct Choice {
  Groups groups;
  std::vector<TransferCost> transfers;  ///< the groups name them by index
  std::optional<Proof> proof;           ///< optimality guarantee of the groups, if the fusion provides one
  std::vector<Warning> warnings;
};

/// Runs the schedule's fusion. Throws InputError or Unsupported.
Choice choose(const Setting& setting, const Schedule& schedule);

/// The input of the schedule's fusion in this setting. Refers to both arguments, which must outlive it.
FusionRequest request_of(const Setting& setting, const Schedule& schedule);

/// The workers of a shard group (Transfer::shard_workers); 0 if the schedule has none. Without levels all
/// workers are one node. Throws Unsupported if the network has no such level.
std::int64_t shard_workers(const core::Network& network, const PipelineOptions& options);

/// The transfers available to each group; the first is the schedule's own.
std::vector<TransferCost> make_transfers(const Setting& setting, const Schedule& schedule);

/// Whether collectives carry another element type than that of the profile's gradients; compressors then have
/// no costs.
bool has_types_of_its_own(const Setting& setting, const Schedule& schedule);

}  // namespace planner
