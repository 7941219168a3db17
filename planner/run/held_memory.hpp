// What the accounts of memory share: changes over time, bytes of elements, and what is held all the time.

#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/workload.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "planner/run/memory.hpp"

namespace planner {

struct MemoryChange {
  sim::Time at{};
  MemoryPart part = MemoryPart::parameters;
  std::int64_t bytes = 0;
};

/// The memory over time. `changes` may be in any order, the first time must be 0.
Memory summed(std::vector<MemoryChange> changes, bool has_activations);

/// Bytes of an element of each kind of buffer.
struct ElementBytes {
  std::int64_t profile, gradients, reduce, gather, parameters;

  ElementBytes(const DataTypes& types, core::Dtype usual);
};

/// Whether every layer says what its activations take.
bool has_activations(const core::Profile& profile);

/// Whether the gradients of a group are copied to be sent: where they do not lie one after another in the
/// type in which they are sent.
bool is_copied(const ElementBytes& element, const TransferCost& transfer, const Workload& workload,
               const Group& group, bool in_buffers);

/// What a worker holds from the beginning to the end: `all` elements are in its layers, and it updates `own`
/// of them. The conditions must have MemoryOptions.
MemoryBytes lasting_memory(const Conditions& conditions, core::Dtype usual, Sharding sharding,
                           std::int64_t all, std::int64_t own);

}  // namespace planner
