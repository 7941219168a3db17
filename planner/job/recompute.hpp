// Activation checkpointing: outputs of layers are dropped in the forward pass and computed again in the
// backward pass.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/field.hpp"
#include "core/profile.hpp"

namespace planner {

/// Which layers are checkpointed together.
struct Recompute {
  std::int64_t layers = 0;  ///< the length of each run, from the first layer on; 0: each block of the model

  bool operator==(const Recompute&) const = default;
};

/// Reads the scenario's key `recompute`: "blocks", or an object with `layers`. Throws InputError.
Recompute read_recompute(const core::Field& field);

/// Layers that are computed again together: what `first` to `last - 1` keep for backward is dropped when the
/// forward pass of `last` has ended, and is there again when the backward pass of `last` begins.
struct Segment {
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  bool operator==(const Segment&) const = default;
};

/// The segments of a model in forward order; none if blocks are asked for and no name numbers one.
std::vector<Segment> segments_of(const core::Profile& profile, const Recompute& recompute);

/// The profile of a job that computes again: the backward pass of a segment's last layer is preceded by the
/// forward pass of the whole segment.
core::Profile recomputed(core::Profile profile, const Recompute& recompute);

/// The name of a layer up to its first dotted part that is a number, such as layers.0 of layers.0.mlp; empty
/// if there is none.
std::string_view block_name(std::string_view layer);

}  // namespace planner
