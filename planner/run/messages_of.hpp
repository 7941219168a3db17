// The messages and links of a plan's collectives, for fidelities that simulate them rank by rank.

#pragma once

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "sim/cluster/links.hpp"
#include "sim/cluster/patterns.hpp"

namespace planner {

/// The network's link or levels, with the link differences of the conditions. Throws Unsupported if the
/// network has neither.
cluster::Links links_of(const Setting& setting);

/// The collective of a channel task. Throws Unsupported if its messages are not defined.
cluster::Collective collective_of(const Setting& setting, const CommunicationPlan& plan,
                                  const TaskLabel& label);

}  // namespace planner
