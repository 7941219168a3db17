// Groupings: which gradients are sent together.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/time.hpp"

namespace planner {

/// A range of one gradient's bytes.
struct Part {
  std::int64_t from = 0;
  std::int64_t bytes = 0;
  bool operator==(const Part&) const = default;
};

/// Neighbours in backward order: gradients begin to end - 1.
struct Group {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  /// Earliest issue time since backward began, even if its gradients are ready before (Horovod's cycle).
  sim::Time tick{};
  /// Index into the transfers that its schedule offers.
  std::uint32_t transfer = 0;
  /// For a group of one gradient: the part that is sent, if not all of it.
  std::optional<Part> part = {};
  bool operator==(const Group&) const = default;
};

/// A grouping: every gradient exactly once, in communication order.
using Groups = std::vector<Group>;

}  // namespace planner
