// What the accounts of memory share: parts and their changes over time, bytes of elements, and what is held
// all the time.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/profile.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/job/conditions.hpp"
#include "planner/job/workload.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "sim/time.hpp"

namespace planner {

enum class MemoryPart {
  parameters,   ///< between iterations: whole, or the worker's share
  master,       ///< the copy that the optimizer updates, if there is one
  optimizer,    ///< its states
  gradients,    ///< whole ones, and shares
  gathered,     ///< parameters gathered for a pass
  buffers,      ///< what collectives of gradients send, where it is a copy
  activations,  ///< outputs of layers
};

constexpr std::array<std::string_view, 7> kMemoryParts = {"parameters", "master",  "optimizer",  "gradients",
                                                          "gathered",   "buffers", "activations"};

using MemoryBytes = std::array<std::int64_t, kMemoryParts.size()>;

inline std::int64_t total(const MemoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

struct MemoryPoint {
  sim::Time at{};
  MemoryBytes bytes{};  ///< from then on
};

struct MemoryPeak : MemoryPoint {
  bool has_activations = false;  ///< whether the profile says what they take; otherwise they are left out
};

struct Memory {
  std::vector<MemoryPoint> points;  ///< the changes; the first is at time 0
  MemoryPeak peak;                  ///< the first point with the greatest total
};

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

/// The bytes of an element of a whole gradient. Where parameters are sharded, micro-batches are added up in
/// the type in which gradients are reduced (FSDP2's accumulated gradients).
std::int64_t gradient_bytes(const ElementBytes& element, Sharding sharding, bool is_added_up);

/// Whether every layer says what its activations take.
bool has_activations(const core::Profile& profile);

/// Whether the gradients of a group are copied to be sent: where they do not lie one after another in the
/// type in which they are sent.
bool is_copied(const ElementBytes& element, const TransferCost& transfer, const Workload& workload,
               const Group& group, bool in_buffers);

/// What a worker holds from the beginning to the end: `all` elements that are trained are in its layers, and
/// it updates `own` of them; it holds `frozen` of those that are not. The conditions must have MemoryOptions.
MemoryBytes lasting_memory(const Conditions& conditions, core::Dtype usual, Sharding sharding,
                           std::int64_t all, std::int64_t own, std::int64_t frozen);

}  // namespace planner
