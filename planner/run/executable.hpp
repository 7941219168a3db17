// A choice lowered to tasks: what a simulation runs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/cost/transfers.hpp"
#include "planner/graph/lowered.hpp"
#include "planner/job/grouping.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

/// Which gradients travel together, how, and when.
struct CommunicationPlan {
  Groups groups;
  std::vector<TransferCost> transfers;  ///< the groups name them by index
  Program program;
};

/// A communication plan with the tasks that it is lowered to.
struct Executable : CommunicationPlan {
  Lowered lowered;
};

/// The iterations that count: the first is left out if there is another.
std::size_t first_counted(const Lowered& lowered);
std::int64_t counted(const Lowered& lowered);

/// The first iteration that counts for a task of this kind: forward passes under which all-gathers run end
/// an iteration, so those of the first counted one belong to the one before.
std::size_t first_counted(const Executable& executable, TaskLabel::Kind kind);

}  // namespace planner
