// Tensor fusion: the algorithms that choose which gradients share a collective.

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

/// The quality of groups chosen for random iterations, on the samples used to choose them.
struct SampledProof {
  std::string objective;  ///< statistic that is minimised over the samples: mean or p95
  std::int64_t samples = 0;
  sim::Time value{};          ///< includes all micro-batches, reading and update; before the input's maximum
                              ///< is applied
  sim::Time of_exact_plan{};  ///< the value of the groups that are optimal without variation
  sim::Time bound{};          ///< lower bound over all groupings
};

/// The optimality guarantee of a grouping.
struct Proof {
  std::size_t largest_front = 0;        ///< partial groupings kept at one cut; 0 if the groups were found
                                        ///< without fronts
  sim::Time optimality_gap{};           ///< bound on the loss; 0 if no other grouping is better
  std::optional<SampledProof> sampled;  ///< set if optimality_gap refers to samples instead of one iteration
};

/// The result of a fusion.
struct Grouping {
  Grouping() = default;
  /// For fusions that give no optimality guarantee.
  Grouping(Groups its_groups) : groups(std::move(its_groups)) {}
  Grouping(Groups its_groups, Proof its_proof) : groups(std::move(its_groups)), proof(std::move(its_proof)) {}

  Groups groups;
  std::optional<Proof> proof;  ///< set by fusions with an optimality guarantee
  std::vector<Warning> warnings;
};

/// A fusion with its parameters bound. Throws InputError or Unsupported.
using Fuse = std::function<Grouping(const FusionRequest&)>;

struct FusionKind {
  std::string_view name;
  std::string_view summary;
  /// Reads the parameters; `field` is the object that names the kind, or only the string for the defaults.
  Fuse (*read)(const core::Field& field);
  /// Reads the transfers that the object offers besides the schedule's own; null if the kind offers none.
  std::vector<TransferChoice> (*choices)(const core::Field& field) = nullptr;
  bool searches = false;  ///< whether it looks for fast groups; otherwise they follow from a rule or a file
};

/// The kind of fusion that splits tensors; pipelines have to allow it explicitly.
constexpr std::string_view kPartitions = "partitions";

/// Every kind of fusion, in the order in which help lists them.
std::span<const FusionKind> fusion_kinds();

struct Fusion {
  std::string kind;
  Fuse fuse;
  std::vector<TransferChoice> choices = {};  ///< the transfers besides the schedule's own
  bool searches = false;                     ///< as the kind does
};

/// Reads the name of a kind, or an object with `kind` and the kind's own keys.
Fusion read_fusion(const core::Field& field);

/// The value of an integer key of a fusion object, or `otherwise` if it is absent; a string has no keys.
std::int64_t fusion_integer(const core::Field& field, std::string_view key, std::int64_t min,
                            std::int64_t max, std::int64_t otherwise);
/// Throws InputError if a fusion object has a key that is not listed.
void allow_fusion_keys(const core::Field& field, std::initializer_list<std::string_view> keys);

}  // namespace planner
