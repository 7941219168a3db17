// Which gradients travel together.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/time.hpp"

namespace planner {

/// Of one gradient's bytes.
struct Part {
  std::int64_t from = 0;
  std::int64_t bytes = 0;
  bool operator==(const Part&) const = default;
};

/// Neighbours in backward order: gradients begin to end - 1.
struct Group {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  /// Issued no sooner than this after backward began, though its gradients are ready (Horovod's cycle).
  sim::Time tick{};
  /// How it travels: a place in the ways that its schedule offers.
  std::uint32_t transfer = 0;
  /// Of a group of one gradient: what it carries of it, where not all.
  std::optional<Part> part = {};
  bool operator==(const Group&) const = default;
};

/// Every gradient once, in communication order.
using Groups = std::vector<Group>;

}  // namespace planner
