// Tensor fusion: the ways to choose which gradients travel together.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/field.hpp"
#include "planner/costs.hpp"
#include "planner/grouping.hpp"
#include "planner/workload.hpp"

namespace planner {

struct Extras;
struct Pipeline;
struct PipelineOptions;

/// What a fusion may look at.
struct FusionRequest {
  const Workload& workload;
  const Costs& costs;
  const Extras& extras;
  const Pipeline& pipeline;
  const PipelineOptions& options;
  std::vector<Doubt>* doubts = nullptr;  ///< where a fusion may tell what to doubt about it
};

/// A fusion with its parameters read. Throws InputError or NoCost.
using Fuse = std::function<Groups(const FusionRequest&)>;

struct FusionKind {
  std::string_view name;
  std::string_view summary;
  /// `field` is the object that names the kind, or the string alone, for the defaults.
  Fuse (*read)(const models::Field& field);
};

/// Every kind of fusion, in the order in which help lists them.
std::span<const FusionKind> fusion_kinds();

struct Fusion {
  std::string kind;
  Fuse fuse;
};

/// A kind's name, or an object with `kind` and the kind's own keys.
Fusion read_fusion(const models::Field& field);

/// The value of an integer key of a fusion object, or `otherwise`; a string has no keys.
std::int64_t fusion_integer(const models::Field& field, std::string_view key, std::int64_t least,
                            std::int64_t most, std::int64_t otherwise);
/// Refuses keys of a fusion object that are not among these.
void allow_fusion_keys(const models::Field& field, std::initializer_list<std::string_view> keys);

}  // namespace planner
