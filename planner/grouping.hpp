// Which gradients travel together.

#pragma once

#include <cstdint>
#include <vector>

#include "sim/time.hpp"

namespace planner {

/// Neighbours in backward order: gradients begin to end - 1.
struct Group {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  /// Issued no sooner than this after backward began, though its gradients are ready (Horovod's cycle).
  sim::Time tick{};
  /// How it travels: a place in the ways that its schedule offers.
  std::uint32_t way = 0;
  bool operator==(const Group&) const = default;
};

/// Every gradient once, in communication order.
using Groups = std::vector<Group>;

}  // namespace planner
