// A relaxation of sharded jobs within a memory cap: what no plan can beat, and plans that may come near it.

#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/cost/setting.hpp"
#include "planner/job/grouping.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "planner/run/group_memory.hpp"

namespace planner {

/// Whether gathers run ahead of compute; otherwise `prefetch` or `backward_prefetch` is 0.
struct GathersAhead {
  bool in_forward = false;
  bool in_backward = false;
};

constexpr std::array<GathersAhead, 4> kGathersAhead = {
    {{true, true}, {true, false}, {false, true}, {false, false}}};

/// The least time of a kind of plans, and the plan that has it if nothing but the relaxation counts.
struct RelaxedPlan {
  sim::Time time{};
  std::vector<std::uint32_t> units;  ///< in each group, in backward order
  std::uint32_t kept = 0;            ///< groups, those that backward uses first
};

struct RelaxationLimits {
  sim::Time below = sim::Time::max();  ///< plans that take this long or longer are not asked for
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();  ///< of work
};

/// Groups of whole units, neighbours in backward order; any distances of gathering ahead; any number of kept
/// groups. docs/method.md has the rules and why they never say more than a plan takes.
class MemoryBound {
 public:
  /// The first transfer is that of all groups. All but the options must outlive this object.
  MemoryBound(const Setting& setting, const TransferCost& transfer, const Groups& units,
              const PipelineOptions& options);

  /// The best plan of this kind that takes no more than this memory as far as the relaxation knows, if one
  /// that is fast enough fits. Nothing at all if that takes too many steps; those that it takes are taken off
  /// the limit.
  std::optional<std::optional<RelaxedPlan>> best(std::int64_t memory, GathersAhead ahead,
                                                 RelaxationLimits& limits) const;

  /// What the channel of collectives is busy for in an iteration of any plan that takes no more than this
  /// memory, with what comes before and after it; found sooner than the best plans, and less. None if no plan
  /// takes as little.
  std::optional<sim::Time> least_channel_time(std::int64_t memory) const;

  /// No plan takes less memory.
  std::int64_t least_memory() const { return least_memory_; }

 private:
  struct Unit {
    sim::Time starts{};         ///< its first backward step, if compute never waits; since backward began
    sim::Time ready{};          ///< its last gradient, likewise
    sim::Time forward_from{};   ///< from its first layer's forward pass to the end of the pass
    sim::Time forward_after{};  ///< likewise from the end of its last layer's forward pass
    // A step that takes no time adds nothing to these, as memory that is held for no time does not count.
    std::int64_t within = 0;              ///< the most that gradients of the unit so far and activations take
    std::int64_t activations_within = 0;  ///< the most that activations take in these steps
    std::int64_t first_gradients = 0;     ///< of its first backward step
    bool begins_in_time = false;          ///< whether that step takes time
    std::int64_t activations = 0;         ///< in the first step from there on that takes time
    std::int64_t activations_in_forward = 0;  ///< kept when its forward pass ends
    std::int64_t activations_at_end = 0;      ///< in the step of its last gradient
    /// What activations take in the next step that takes time; 0 if there is none before the next unit.
    std::int64_t activations_after = 0;
    bool ends_in_time = false;        ///< whether that step takes time
    bool is_forward_in_time = false;  ///< whether the forward pass of its last layer does
    GroupMemory before;               ///< sums over the units before; the shares are rounded down
  };
  struct Range {
    GroupMemory memory;
    sim::Time gather{};
    sim::Time reduce{};
    sim::Time sum{};                 ///< the all-reduce of shares between groups of workers, if there is one
    std::int64_t last_gathered = 0;  ///< what the last group gathers at least, if it is another one and kept
    /// What its backward pass takes at least, without what lasts; 0 if that pass takes no time.
    std::int64_t in_backward = 0;
    /// What the step after its backward pass takes at least, without what lasts: its reduce-scatter has not
    /// ended then. 0 if something is gathered for that step, or if no step follows that takes time.
    std::int64_t after_backward = 0;
    /// The most that gradients since the first unit, and activations, take in its steps.
    std::int64_t most_within = 0;
    /// When its reduce-scatter ends, counted from the beginning of backward, if it begins with the next
    /// group.
    sim::Time reduced{};
    std::size_t next_reduced = 0;  ///< the first unit that begins at that time or later
    std::int64_t then = 0;  ///< what gradients since the first unit, and activations, take then at least
  };
  class Builder;
  class Search;
  /// The pairs of groups that follow each other, each of which fits by itself.
  std::int64_t neighbours(std::int64_t memory) const;

  const Range& range(std::size_t begin, std::size_t end) const {
    return ranges_[begin * (units_.size() - 1) + end - 1];
  }
  /// Gradients that earlier micro-batches left in the units from this one on.
  std::int64_t accumulated(std::size_t from) const {
    return accumulates_ ? units_.back().before.gradients - units_[from].before.gradients : 0;
  }

  const Setting& setting_;
  std::vector<Unit> units_;  ///< and one more, for the end
  std::vector<Range> ranges_;
  std::int64_t lasting_ = 0;
  std::int64_t least_memory_ = 0;
  bool accumulates_ = false;
  bool keeps_last_ = false;     ///< as PipelineOptions::keeps_last_group
  std::int64_t last_kept_ = 0;  ///< what the last group gathers at least, if it is kept
  bool keeps_last_between_ =
      false;               ///< whether it is then there in the last layer of forward that takes time
  bool is_early_ = false;  ///< whether backward may gather under the forward pass of its first group
  bool keeps_parameters_ =
      false;                  ///< from one micro-batch to the next, so that forward passes may gather nothing
  bool is_steady_ = false;    ///< whether compute and channel do not slow each other down
  bool sends_behind_ = true;  ///< whether compute goes on while gradients are sent
  bool awaits_scatters_ = false;  ///< whether at most one group's gradients are sent while others get ready
  std::int64_t between_passes_ = 0;  ///< activations, and gradients of earlier micro-batches
};

}  // namespace planner
