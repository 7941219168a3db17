// The models of an iteration. What a pipeline's program is decides which describes it; no pipeline is named.

#pragma once

#include <memory>
#include <vector>

#include "planner/choose/iteration.hpp"
#include "planner/choose/iteration_spec.hpp"

namespace planner {

/// The model of the spec's program; a program that is none of those below is simulated, with a bound. Refers
/// to the spec, which must outlive it, as all of these do.
std::unique_ptr<IterationModel> make_model(const IterationSpec& spec);

/// One collective a group, issued under backward or, with `after_backward`, when it has ended. Exact but for
/// slow-down together with decoding.
std::unique_ptr<IterationModel> channel_model(const IterationSpec& spec, bool after_backward);

/// Reduce-scatters under backward, all-gathers under the next forward pass or, without `overlap_gather`,
/// before it. Exact but for slow-down where gathering overlaps or something is decoded.
std::unique_ptr<IterationModel> two_phase_model(const IterationSpec& spec, bool overlap_gather);

/// The same with all-gathers that wait for forward: simulated, bounded by those that do not.
std::unique_ptr<IterationModel> waiting_gathers_model(const IterationSpec& spec);

/// All-gathers before the passes of each micro-batch, reduce-scatters under backward: simulated.
std::unique_ptr<IterationModel> sharded_model(const IterationSpec& spec);

/// A channel that goes by layer: simulated.
std::unique_ptr<IterationModel> by_layer_model(const IterationSpec& spec);

/// The model where no state describes a beginning: every grouping is simulated. `unslowed`, which no grouping
/// takes longer in, gives the bound and where the search begins.
/// `starts`: other groupings that may be near the best.
std::unique_ptr<IterationModel> simulated_model(const IterationSpec& spec,
                                                std::unique_ptr<IterationModel> unslowed,
                                                std::vector<Groups> starts = {});

/// Slow-down without decoding, and with all-gathers, if any, after everything else (`separate_gathers`).
std::unique_ptr<IterationModel> slowed_model(const IterationSpec& spec, bool after_backward,
                                             bool separate_gathers);

}  // namespace planner
