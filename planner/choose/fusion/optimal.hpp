// The exact planner as a fusion, for those who ask it for the constraints that the user gave.

#pragma once

#include "planner/choose/constraints.hpp"
#include "planner/choose/fusion.hpp"

namespace planner {

/// What Fuse holds of a fusion of the kind `optimal`.
struct OptimalFusion {
  Constraints constraints;  ///< empty if there are none

  Grouping operator()(const FusionRequest& request) const;
};

/// The user's rules, if there are constraints, and that groups are gathered whole whose layers are computed
/// again together. Throws InputError or Unsupported if no grouping keeps to them.
GroupRules rules_of(const FusionRequest& request, const Constraints& constraints);

/// The user's constraints on the groups of an exact plan; empty if there are none.
Constraints constraints_of(const Fusion& fusion);

}  // namespace planner
