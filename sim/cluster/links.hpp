// The time that a message takes from one rank to another when no other message shares its links.

#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/draws.hpp"
#include "sim/time.hpp"

namespace cluster {

struct LinkCost {
  double startup_us = 0;  ///< alpha; the link is busy during it, too
  double us_per_byte = 0;
  bool operator==(const LinkCost&) const = default;
};

/// One level of a hierarchy of nodes. A message pays the link of the innermost level that holds both ranks.
struct Level {
  std::uint32_t ranks = 1;  ///< ranks in one node of this level, a multiple of the previous level's
  LinkCost link;
};

struct Links {
  std::vector<Level> levels;   ///< innermost first; the last level holds all ranks
  double sum_us_per_byte = 0;  ///< gamma: time to add one received byte
  /// Factor on the messages that a rank sends, indexed by rank; empty: 1 for all.
  std::vector<double> slowdown;
  double sigma = 0;  ///< of the lognormal factor with mean 1 that multiplies each message's time
  std::uint64_t seed = 1;

  const LinkCost& between(std::uint32_t from, std::uint32_t to) const {
    assert(!levels.empty());
    for (std::size_t i = 0; i + 1 < levels.size(); ++i)
      if (from / levels[i].ranks == to / levels[i].ranks) return levels[i].link;
    return levels.back().link;
  }
};

/// Identifies one message of one collective; the seed of its random factor.
struct MessageKey {
  std::uint64_t collective = 0;  ///< unique within a run
  std::uint32_t round = 0;
  std::uint32_t from = 0;
};

/// Returns the hash with which the random bits of a collective's messages begin.
inline std::uint64_t collective_bits(const Links& links, std::uint64_t collective) {
  return sim::hash(links.seed, collective);
}

/// Returns the random bits of a message. Round and sender share one word because an event may hold little
/// else.
inline std::uint64_t message_bits(std::uint64_t collective_bits, std::uint32_t round, std::uint32_t from) {
  constexpr unsigned kWord = 32;
  return sim::hash_on(collective_bits, std::uint64_t{round} << kWord | from);
}

/// (startup + bytes x us_per_byte) x slowdown of the sender, in microseconds.
inline double unsampled_us(const Links& links, std::uint32_t from, std::uint32_t to, std::int64_t bytes) {
  const LinkCost& link = links.between(from, to);
  const double us = link.startup_us + static_cast<double>(bytes) * link.us_per_byte;
  return links.slowdown.empty() ? us : us * links.slowdown[from];
}

/// unsampled_us() x random factor, rounded once.
sim::Time message_time(const Links& links, const MessageKey& key, std::uint32_t to, std::int64_t bytes);

/// Returns the time to add `bytes` received bytes, rounded once.
inline sim::Time sum_time(const Links& links, std::int64_t bytes) {
  return sim::from_us(static_cast<double>(bytes) * links.sum_us_per_byte);
}

/// Converts to units of 2^-shift ps.
inline sim::Time scaled(sim::Time time, unsigned shift) { return time * (std::int64_t{1} << shift); }

}  // namespace cluster
