// A relaxation of sharded jobs within a memory cap: what no plan can beat, and plans that may come near it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/job/grouping.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "planner/run/group_memory.hpp"

namespace planner {

/// The least time of a kind of plans, and the plan that has it if nothing but the relaxation counts.
struct RelaxedPlan {
  sim::Time time{};
  std::vector<std::uint32_t> units;  ///< in each group, in backward order
  std::uint32_t kept = 0;            ///< groups, those that backward uses first
  bool gathers_ahead = false;        ///< in forward passes; otherwise prefetch is 0
  bool gathers_ahead_in_backward = false;
};

/// Groups of whole units, neighbours in backward order; any distances of gathering ahead; any number of kept
/// groups. docs/method.md has the rules and why they never say more than a plan takes.
class MemoryBound {
 public:
  /// The first transfer is that of all groups. All but the options must outlive this object.
  MemoryBound(const Setting& setting, const TransferCost& transfer, const Groups& units,
              const PipelineOptions& options);

  /// The best plans that take no more than this memory as far as the relaxation knows: one for each way of
  /// gathering ahead that fits.
  std::vector<RelaxedPlan> best(std::int64_t memory) const;

  /// What the channel of collectives is busy for in an iteration of any plan that takes no more than this
  /// memory, with what comes before and after it; found sooner than the best plans, and less. None if no plan
  /// takes as little.
  std::optional<sim::Time> least_channel_time(std::int64_t memory) const;

  /// No plan takes less memory.
  std::int64_t least_memory() const { return least_memory_; }

 private:
  struct Unit {
    sim::Time starts{};        ///< its first backward step, if compute never waits; since backward began
    sim::Time ready{};         ///< its last gradient, likewise
    sim::Time forward_from{};  ///< from its first layer's forward pass to the end of the pass
    // A step that takes no time adds nothing to these, as memory that is held for no time does not count.
    std::int64_t within = 0;           ///< the most that gradients of the unit so far and activations take
    std::int64_t first_gradients = 0;  ///< of its first backward step
    bool begins_in_time = false;       ///< whether that step takes time
    std::int64_t activations = 0;      ///< in the first step from there on that takes time
    std::int64_t activations_in_forward = 0;  ///< kept when its forward pass ends
    std::int64_t activations_at_end = 0;      ///< in the step of its last gradient
    bool ends_in_time = false;                ///< whether that step takes time
    bool is_forward_in_time = false;          ///< whether the forward pass of its last layer does
    GroupMemory before;                       ///< sums over the units before; the shares are rounded down
  };
  struct Range {
    GroupMemory memory;
    sim::Time gather{};
    sim::Time reduce{};
    /// What its backward pass takes at least, without what lasts; 0 if that pass takes no time.
    std::int64_t in_backward = 0;
  };
  class Search;

  const Range& range(std::size_t begin, std::size_t end) const {
    return ranges_[begin * (units_.size() - 1) + end - 1];
  }

  const Setting& setting_;
  std::vector<Unit> units_;  ///< and one more, for the end
  std::vector<Range> ranges_;
  std::int64_t lasting_ = 0;
  std::int64_t least_memory_ = 0;
  bool accumulates_ = false;
  bool keeps_last_ = false;  ///< as PipelineOptions::keeps_last_group
  bool is_early_ = false;    ///< whether backward may gather under the forward pass of its first group
  bool keeps_parameters_ =
      false;                ///< from one micro-batch to the next, so that forward passes may gather nothing
  bool is_steady_ = false;  ///< whether compute and channel do not slow each other down
  std::int64_t all_activations_ = 0;
};

}  // namespace planner
