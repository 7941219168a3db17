// Tensor fusion: the kinds of choosing which gradients travel together.

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/field.hpp"
#include "planner/choose/fusion_request.hpp"
#include "planner/cost/costs.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/job/grouping.hpp"

namespace planner {

/// How groups that were chosen for varying iterations do on the samples by which they were chosen.
struct SampledProof {
  std::string objective;  ///< what is minimised over the samples: mean or p95
  std::int64_t samples = 0;
  sim::Time value{};          ///< all micro-batches, read and update included, before the input's max
  sim::Time of_exact_plan{};  ///< the value of the groups that would be exact if nothing varied
  sim::Time bound{};          ///< no grouping has less
};

/// How sure a fusion is that no other grouping beats its own.
struct Proof {
  std::size_t largest_front = 0;        ///< partial groupings kept at one cut; 0: found otherwise
  sim::Time optimality_gap{};            ///< 0: no other grouping is better
  std::optional<SampledProof> sampled;  ///< set where optimality_gap is about samples, not about one iteration
};

/// What a fusion chooses.
struct Grouping {
  Grouping() = default;
  /// For fusions that do not know how good their groups are.
  Grouping(Groups its_groups) : groups(std::move(its_groups)) {}
  Grouping(Groups its_groups, Proof its_proof) : groups(std::move(its_groups)), proof(std::move(its_proof)) {}

  Groups groups;
  std::optional<Proof> proof;  ///< set by fusions that know how good their groups are
  std::vector<Warning> warnings;
};

/// A fusion with its parameters read. Throws InputError or Unsupported.
using Fuse = std::function<Grouping(const FusionRequest&)>;

struct FusionKind {
  std::string_view name;
  std::string_view summary;
  /// `field` is the object that names the kind, or the string alone, for the defaults.
  Fuse (*read)(const core::Field& field);
  /// The transfers that the object offers besides the schedule's own; null: none.
  std::vector<TransferChoice> (*choices)(const core::Field& field) = nullptr;
};

/// The kind of fusion that cuts tensors, which pipelines take only where they say so.
constexpr std::string_view kPartitions = "partitions";

/// Every kind of fusion, in the order in which help lists them.
std::span<const FusionKind> fusion_kinds();

struct Fusion {
  std::string kind;
  Fuse fuse;
  std::vector<TransferChoice> choices = {};  ///< the transfers besides the schedule's own
};

/// A kind's name, or an object with `kind` and the kind's own keys.
Fusion read_fusion(const core::Field& field);

/// The value of an integer key of a fusion object, or `otherwise`; a string has no keys.
std::int64_t fusion_integer(const core::Field& field, std::string_view key, std::int64_t min,
                            std::int64_t max, std::int64_t otherwise);
/// Refuses keys of a fusion object that are not among these.
void allow_fusion_keys(const core::Field& field, std::initializer_list<std::string_view> keys);

}  // namespace planner
