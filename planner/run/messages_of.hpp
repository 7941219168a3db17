// What the collectives of a plan send over which links, for fidelities that go rank by rank.

#pragma once

#include "planner/cost/setting.hpp"
#include "planner/run/executable.hpp"
#include "sim/cluster/links.hpp"
#include "sim/cluster/patterns.hpp"

namespace planner {

/// The network's link or levels, with the conditions' differences between links. Throws Unsupported where the
/// network has neither.
cluster::Links links_of(const Setting& setting);

/// The collective of a task on the channel. Throws Unsupported where nobody has said which messages it is
/// made of.
cluster::Collective collective_of(const Setting& setting, const CommunicationPlan& plan,
                                  const TaskLabel& label);

}  // namespace planner
