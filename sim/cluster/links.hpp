// What a message takes from one rank to another where no other message is in its way.

#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "sim/draws.hpp"
#include "sim/time.hpp"

namespace cluster {

/// A time that the clock does not reach.
struct TooLong : std::runtime_error {
  explicit TooLong(double its_us) : std::runtime_error("longer than can be simulated"), us(its_us) {}
  double us;
};

/// So much later, rounded once. Throws TooLong.
inline sim::Time after(sim::Time at, double us) {
  if (!(sim::to_us(at) + us <= sim::kMaxUs)) throw TooLong(sim::to_us(at) + us);
  return at + sim::from_us(us);
}

struct LinkCost {
  double startup_us = 0;  ///< alpha; the link is taken for it, too
  double us_per_byte = 0;
  bool operator==(const LinkCost&) const = default;
};

/// Nodes of nodes of ranks: a message pays the link of the innermost level that holds both ranks.
struct Level {
  std::uint32_t ranks = 1;  ///< that one node of this level holds, a multiple of the level's before
  LinkCost link;
};

struct Links {
  std::vector<Level> levels;     ///< innermost first; the last holds all ranks
  double sum_us_per_byte = 0;    ///< gamma: of adding a received byte
  std::vector<double> slowdown;  ///< of what a rank sends, by rank; empty: 1 for all
  double sigma = 0;              ///< of the lognormal draw of mean 1 that multiplies each message's time
  std::uint64_t seed = 1;

  const LinkCost& between(std::uint32_t from, std::uint32_t to) const;
};

/// Which message of which collective: what its draw is made from.
struct MessageKey {
  std::uint64_t collective = 0;  ///< unique in a run
  std::uint32_t round = 0;
  std::uint32_t from = 0;
};

/// What the draws of a collective's messages begin with.
inline std::uint64_t collective_bits(const Links& links, std::uint64_t collective) {
  return sim::hash(links.seed, collective);
}

/// What a message's draw is made from; both numbers in one word, as an event may be little else.
inline std::uint64_t message_bits(std::uint64_t collective_bits, std::uint32_t round, std::uint32_t from) {
  constexpr unsigned kWord = 32;
  return sim::hash_on(collective_bits, std::uint64_t{round} << kWord | from);
}

/// (startup + bytes x us_per_byte) x slowdown of the sender.
inline double unsampled_us(const Links& links, std::uint32_t from, std::uint32_t to, std::int64_t bytes) {
  const LinkCost& link = links.between(from, to);
  const double us = link.startup_us + static_cast<double>(bytes) * link.us_per_byte;
  return links.slowdown.empty() ? us : us * links.slowdown[from];
}

/// unsampled_us() x draw, rounded once.
sim::Time message_time(const Links& links, const MessageKey& key, std::uint32_t to, std::int64_t bytes);

/// Of adding so many received bytes, rounded once.
sim::Time sum_time(const Links& links, std::int64_t bytes);

/// In units of 2^-shift ps.
inline sim::Time scaled(sim::Time time, unsigned shift) { return time * (std::int64_t{1} << shift); }

}  // namespace cluster
