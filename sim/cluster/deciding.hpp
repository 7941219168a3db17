// Which messages of a collective decide when a rank leaves it.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster/links.hpp"
#include "sim/cluster/pattern.hpp"
#include "sim/time.hpp"

namespace cluster {

struct DecidingMessage {
  std::uint32_t round = 0;
  std::uint32_t from = 0;
  sim::Time duration{};
  bool operator==(const DecidingMessage&) const = default;
};

/// Back from when `rank` leaves to the entry that decides it: every message in between, the last first, where
/// links are not shared. With what is summed up between them they take all of that time. `begins`: when each
/// rank enters. Keeps 8 bytes for each rank and round meanwhile.
std::vector<DecidingMessage> deciding_messages(const Pattern& pattern, const Links& links,
                                               std::uint64_t collective, std::span<const sim::Time> begins,
                                               std::uint32_t rank);

}  // namespace cluster
