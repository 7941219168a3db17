// The iteration models. The properties of a pipeline's program select the model; no pipeline is named.

#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "planner/choose/iteration.hpp"
#include "planner/choose/iteration_spec.hpp"

namespace planner {

/// The model for the spec's program; a program that no model below covers is simulated, with a bound. All
/// models refer to the spec, which must outlive them.
std::unique_ptr<IterationModel> make_model(const IterationSpec& spec);

/// One collective per group, issued during backward or, with `after_backward`, when backward has ended. Exact
/// except for slow-down combined with decoding.
std::unique_ptr<IterationModel> channel_model(const IterationSpec& spec, bool after_backward);

/// Reduce-scatters, or all-reduces, during backward; all-gathers during the next forward pass or, without
/// `overlap_gather`, before it. Exact except for slow-down with overlapped gathers or with decoding.
std::unique_ptr<IterationModel> two_phase_model(
    const IterationSpec& spec, bool overlap_gather,
    core::CollectiveKind reduced = core::CollectiveKind::reduce_scatter);

/// Two phases with all-gathers that wait for forward. Exact where one is issued ahead, nothing is coded and
/// nothing slows down; otherwise simulated, and the bound is that of gathers that do not wait.
std::unique_ptr<IterationModel> waiting_gathers_model(const IterationSpec& spec);

/// The exact case of waiting_gathers_model().
std::unique_ptr<IterationModel> one_gather_ahead_model(const IterationSpec& spec);

/// All-gathers before the passes of each micro-batch, reduce-scatters during backward. Exact where the bound
/// of sharded_model.cpp is reached, as it is by whole layers, unless more groups are gathered ahead than one.
std::unique_ptr<IterationModel> sharded_model(const IterationSpec& spec);

/// The bound of sharded_model(): its value of any groups is at most what their simulation takes. With a short
/// front the search for the best groups is fast, but they may be a little worse.
std::unique_ptr<IterationModel> sharded_bound(
    const IterationSpec& spec, std::size_t max_front = std::numeric_limits<std::size_t>::max());

/// A channel that goes by layer: simulated.
std::unique_ptr<IterationModel> by_layer_model(const IterationSpec& spec);

/// The model for programs without a state that describes a prefix: every grouping is simulated. `unslowed`, a
/// model that never exceeds the value of a grouping, gives the bound and the start of the search. `starts`
/// and the optimum of `simpler`, another bound, are further groupings that may be near the optimum.
std::unique_ptr<IterationModel> simulated_model(const IterationSpec& spec,
                                                std::unique_ptr<IterationModel> unslowed,
                                                std::vector<Groups> starts = {},
                                                std::unique_ptr<IterationModel> simpler = nullptr);

/// Slow-down without decoding; all-gathers, if any, come after everything else (`separate_gathers`).
std::unique_ptr<IterationModel> slowed_model(const IterationSpec& spec, bool after_backward,
                                             bool separate_gathers);

}  // namespace planner
