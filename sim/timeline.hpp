// What a simulation says: when each task ran.

#pragma once

#include <vector>

#include "sim/time.hpp"

namespace sim {

struct Span {
  Time start{};
  Time end{};
  bool operator==(const Span&) const = default;
};

/// When each task ran, indexed by task id.
struct Timeline {
  std::vector<Span> spans;
  Time makespan{};
  bool operator==(const Timeline&) const = default;
};

}  // namespace sim
