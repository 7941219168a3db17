// PowerSGD as costs: what it sends and computes of a range of gradients, which depends on their shapes.

#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/code_cost.hpp"
#include "planner/job/workload.hpp"
#include "sim/time.hpp"

namespace planner {

/// The settings of PyTorch's powerSGD_hook that decide what is sent.
struct LowRankOptions {
  std::int64_t rank = 1;
  /// A tensor is approximated if its elements are more than this times what its factors have.
  double min_compression_rate = 2;
  bool operator==(const LowRankOptions&) const = default;
};

/// The costs of coding one matrix, in the bytes of the matrix.
struct LowRankCode {
  CodeCost encode;
  CodeCost in_transit;  ///< between the all-reduces of P and Q
  CodeCost decode;
};

/// What PowerSGD needs for some gradients. Volumes of disjoint ranges add up.
struct LowRankVolume {
  std::int64_t rest_bytes = 0;  ///< tensors that are sent as they are
  std::int64_t p_bytes = 0;     ///< first factors: rank values for each row
  std::int64_t q_bytes = 0;     ///< second factors: rank values for each column
  sim::Time encode{};
  sim::Time in_transit{};
  sim::Time decode{};
};

/// The volumes of all ranges of a workload's gradients. A tensor is seen as a matrix of its first dimension
/// and the product of the others.
class LowRankVolumes {
 public:
  /// Throws Unsupported if a tensor has no shape.
  LowRankVolumes(const Workload& workload, const LowRankOptions& options, const LowRankCode& code);

  LowRankVolume of(std::uint32_t begin, std::uint32_t end) const;
  /// The bytes of the largest matrix among these gradients that is approximated; 0 if none is.
  std::int64_t largest_matrix(std::uint32_t begin, std::uint32_t end) const;

 private:
  std::vector<LowRankVolume> before_{{}};  // by cut
  std::vector<std::int64_t> matrices_;     // by gradient: its bytes, 0 if it is sent as it is
};

/// Whether all tensors have shapes, so that LowRankVolumes can be made.
bool has_shapes(const core::Profile& profile);

}  // namespace planner
