// Finds the messages of a collective that decide when a rank leaves it.

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

/// What deciding_messages() does grows with this.
std::uint64_t deciding_work(const Pattern& pattern, const Links& links);

/// Traces back from the time at which `rank` leaves to the entry that decides it and returns every message in
/// between, the last one first. Links are not shared. The messages and the sums between them fill that time
/// completely. `begins` holds the time at which each rank enters. Uses 8 bytes per rank and round while it
/// runs.
std::vector<DecidingMessage> deciding_messages(const Pattern& pattern, const Links& links,
                                               std::uint64_t collective, std::span<const sim::Time> begins,
                                               std::uint32_t rank);

}  // namespace cluster
