// A lowered choice: the tasks that a simulation runs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/cost/transfers.hpp"
#include "planner/graph/lowered.hpp"
#include "planner/job/grouping.hpp"
#include "planner/pipeline/pipeline.hpp"

namespace planner {

/// The groups of gradients, their transfers, and their order.
struct CommunicationPlan {
  Groups groups;
  std::vector<TransferCost> transfers;  ///< the groups name them by index
  Program program;
};

/// A communication plan with its lowered tasks.
struct Executable : CommunicationPlan {
  Lowered lowered;
};

/// The first iteration that counts: the second one, or the first if there is no other.
std::size_t first_counted(const Lowered& lowered);
std::int64_t counted(const Lowered& lowered);

/// The first iteration that counts for a task of this kind. If all-gathers overlap forward passes, a forward
/// pass ends an iteration, so the passes of the first counted iteration belong to the one before.
std::size_t first_counted(const Executable& executable, TaskLabel::Kind kind);

}  // namespace planner
