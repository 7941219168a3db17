// What decides how long a run takes: from the end back to the start, the compute of whichever worker was
// waited for, and the collectives between, each from the worker whose entry decided to the one it released.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "sim/time.hpp"

namespace planner {

/// A stretch of the path inside a collective.
struct Crossing {
  std::size_t meeting = 0;  ///< in the order in which the tracker was told of them
  std::uint32_t from = 0;   ///< worker, when it entered
  std::uint32_t to = 0;     ///< worker, when it left
};

/// One unbroken chain through workers and channels.
struct CriticalPath {
  std::size_t iterations = 0;  ///< that it leads through: the last ones that were asked for and are known
  sim::Time from{};
  sim::Time to{};
  std::vector<sim::Time> computing;  ///< by worker
  sim::Time communicating{};         ///< ticks included
  sim::Time untraced{};              ///< where the chain could not be followed further
  std::vector<Crossing> crossings;   ///< the last first; of collectives that go rank by rank
  /// Of communicating, where crossings were looked into: messages by sender.
  std::vector<sim::Time> sending;
};

/// Told of tasks in an order in which nothing comes before what it waits for.
class PathTracker {
 public:
  explicit PathTracker(std::size_t workers) : states_(workers) {}

  /// What a worker runs by itself.
  void computes(std::size_t worker, sim::Time begin, sim::Time end);
  /// Since when a worker had computed without a break at `time`, which a task of it began or ended at. Knows
  /// the last breaks.
  sim::Time since(std::size_t worker, sim::Time time) const;

  /// A collective or tick that begins when the last is ready for it (or its stream is free) and ends
  /// everywhere at once.
  void meets(std::span<const sim::Time> ready, sim::Time end);
  /// A collective rank by rank: when each enters, since when it had computed then, when it leaves, and whose
  /// entry decided that.
  struct Meeting {
    std::vector<sim::Time> begins;  ///< by worker, all of them or one for all; and so for the next three
    std::vector<sim::Time> since;
    std::vector<sim::Time> ends;
    std::vector<std::uint32_t> origins;
    std::uint64_t label = 0;       ///< TaskLabel::packed()
    std::uint64_t collective = 0;  ///< as in cluster::MessageKey
  };
  void meets(Meeting meeting);

  /// Back from the last of `ends`, one for each worker, to the first of `begins`, those of iterations, from
  /// which on all is known. Collectives rank by rank are forgotten where they would take more than 128 MiB.
  CriticalPath path(std::span<const sim::Time> begins, std::span<const sim::Time> ends) const;
  /// None: forgotten, or it ended everywhere at once.
  const Meeting* rank_by_rank(std::size_t meeting) const;

 private:
  /// How a worker comes to compute what it does.
  struct State {
    sim::Time since{};
    sim::Time until{};
    std::deque<sim::Time> before;  ///< `since` before each of the last breaks, the last first
  };

  static std::size_t at(const Meeting& meeting, std::size_t worker) {
    return meeting.ends.size() == 1 ? 0 : worker;
  }
  std::optional<std::size_t> meeting_that_ends(std::size_t worker, sim::Time time, std::size_t below) const;
  void forget();

  std::vector<State> states_;
  std::deque<Meeting> meetings_;
  std::size_t forgotten_ = 0;  // of meetings, the first ones
  sim::Time known_from_{};
  std::size_t kept_ = 0;  // workers of all meetings
};

}  // namespace planner
