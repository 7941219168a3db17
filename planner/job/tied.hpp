// Tied embeddings: an embedding and the model's output compute with one weight.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/job/workload.hpp"

namespace planner {

/// Modules that compute with the weight of an embedding and so belong into its sharded group. A profile shows
/// them as layers without a weight: a linear one, if there is a single one, and embeddings.
struct Tied {
  std::uint32_t weight = 0;          ///< the embedding's gradient
  std::string owner;                 ///< its module
  std::vector<std::string> modules;  ///< the others, in forward order
  /// Other gradients of these modules. They travel with the weight, and are counted to their neighbours.
  std::vector<std::uint32_t> carried;

  /// Whether backward comes to the weight's module last, where forward began.
  bool is_last(const Workload& workload) const;
};

std::optional<Tied> tied(const Workload& workload);

/// Whether backward comes last to a weight that it uses first, too, so that its group is not released between
/// forward and backward.
bool shares_ends(const Workload& workload);

}  // namespace planner
