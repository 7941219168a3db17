// A profile in simulated time: when each gradient is ready, in backward order.

#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.hpp"
#include "planner/job/grouping.hpp"
#include "sim/time.hpp"

namespace planner {

/// A gradient, by its position in backward order.
struct Gradient {
  std::uint32_t layer = 0;   ///< index in the profile
  std::uint32_t tensor = 0;  ///< index in the layer
  std::int64_t bytes = 0;
  sim::Time ready{};                ///< since backward began
  std::uint32_t backward_step = 0;  ///< the step that yields it
  /// What travels with it where parameters are gathered: those of its layer and of layers without tensors
  /// that are not trained.
  std::int64_t frozen_bytes = 0;
  std::uint32_t first_layer = 0;  ///< in forward order, that uses it or what travels with it
  std::uint32_t last_layer = 0;
};

/// A unit of backward: a layer, or the part of a layer that yields one tensor's gradient.
struct BackwardStep {
  static constexpr std::uint32_t kWholeLayer = UINT32_MAX;

  std::uint32_t layer = 0;
  std::uint32_t tensor = kWholeLayer;
  sim::Time duration{};
};

/// Refers to the profile from which it was made, which must outlive it.
struct Workload {
  const core::Profile* profile = nullptr;
  std::vector<sim::Time> forward;              ///< by layer
  std::vector<BackwardStep> backward;          ///< in the order in which they run
  std::vector<Gradient> gradients;             ///< in backward order
  std::vector<std::int64_t> bytes_before{0};   ///< sum over the first n gradients, n = 0 to their number
  std::vector<std::int64_t> frozen_before{0};  ///< likewise, of Gradient::frozen_bytes
  sim::Time forward_total{};
  sim::Time backward_total{};
  bool of_experts = false;  ///< whether all gradients are those of experts

  std::uint32_t gradient_count() const { return static_cast<std::uint32_t>(gradients.size()); }
  std::int64_t bytes() const { return bytes_before.back(); }
  void add(const Gradient& gradient);
};

inline std::int64_t bytes_of(const Workload& workload, const Group& group) {
  return group.part ? group.part->bytes
                    : workload.bytes_before[group.end] - workload.bytes_before[group.begin];
}

/// What a group carries, as costs see it: bytes and, for costs that depend on the shapes of tensors, the
/// gradients from `begin` to `end` - 1, none where only bytes are known.
struct Payload {
  // Implicit, as most costs depend on bytes alone.
  Payload(std::int64_t its_bytes, std::uint32_t its_begin = 0, std::uint32_t its_end = 0)
      : bytes(its_bytes), begin(its_begin), end(its_end) {}

  std::int64_t bytes;
  std::uint32_t begin;
  std::uint32_t end;
};

inline Payload payload_of(const Workload& workload, const Group& group) {
  return {bytes_of(workload, group), group.begin, group.end};
}

inline Payload payload_between(const Workload& workload, std::uint32_t begin, std::uint32_t end) {
  return {workload.bytes_before[end] - workload.bytes_before[begin], begin, end};
}

inline Payload payload_of_all(const Workload& workload) {
  return payload_between(workload, 0, workload.gradient_count());
}

/// The dimension that FSDP2 shards among workers: the first. For tensors of experts whose first dimension is
/// smaller than the number of workers it is the second if the workers can divide that evenly, as in
/// torchtitan.
std::size_t sharded_dimension(const core::ProfileTensor& tensor, bool of_experts, std::int64_t workers);

/// The bytes that the first n gradients, n = 0 to their number, need in addition so that the sharded
/// dimension of each tensor can be cut into as many equal parts, as FSDP2 does. Tensors whose shapes are not
/// known need none. Throws Unsupported beyond the bytes that a double counts exactly.
std::vector<std::int64_t> padding_before(const Workload& workload, std::int64_t parts);

/// The parts of an iteration besides its layers and gradient collectives.
struct Extras {
  sim::Time read{};         ///< input time, if not overlapped, and waiting for slower workers
  sim::Time update{};       ///< optimizer time, including LARS if each worker computes all of it
  sim::Time lars{};         ///< a worker's share of LARS with the parallel tensor operator
  sim::Time lars_gather{};  ///< the all-gather of its results
};

/// `slowdown` multiplies every compute time; each is rounded once.
Workload make_workload(const core::Profile& profile, double slowdown = 1.0);

}  // namespace planner
