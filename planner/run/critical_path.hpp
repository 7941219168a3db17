// The critical path of a run on several workers: a chain, followed from the end to the start, of the compute
// of the worker that others waited for, and of collectives, from the worker whose entry decided to the one it
// released.

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

/// A segment of the path inside a collective.
struct Crossing {
  std::size_t meeting = 0;  ///< index of the collective in the order in which the tracker recorded it
  std::uint32_t from = 0;   ///< the worker on which the path enters
  std::uint32_t to = 0;     ///< the worker on which the path leaves
};

/// A continuous chain through workers and channels.
struct CriticalPath {
  std::size_t iterations = 0;  ///< number of iterations covered: the last of the requested ones that are
                               ///< known
  sim::Time from{};
  sim::Time to{};
  std::vector<sim::Time> computing;  ///< by worker
  sim::Time communicating{};         ///< includes ticks
  sim::Time untraced{};              ///< where the chain could not be followed
  std::vector<Crossing> crossings;   ///< collectives simulated rank by rank, the last first
  /// By sender: the part of `communicating` spent in messages, for the collectives that were examined.
  std::vector<sim::Time> sending;
};

/// Records tasks, in an order in which every task comes after its dependencies.
class PathTracker {
 public:
  explicit PathTracker(std::size_t workers) : since_(workers), until_(workers), before_(workers) {}

  /// Records a task that a worker runs alone.
  void computes(std::size_t worker, sim::Time begin, sim::Time end) {
    if (begin > until_[worker]) pauses(worker, begin);
    until_[worker] = end;
  }
  /// The start of the uninterrupted compute of a worker up to `time`, at which one of its tasks began or
  /// ended. Only recent breaks are known.
  sim::Time since(std::size_t worker, sim::Time time) const;

  /// Records a collective or tick that begins when the last worker is ready (or its stream is free) and ends
  /// everywhere at once.
  void meets(std::span<const sim::Time> ready, sim::Time end);
  /// A collective simulated rank by rank: for each worker, when it enters, the start of its uninterrupted
  /// compute then, when it leaves, and whose entry decided that.
  struct Meeting {
    std::vector<sim::Time> begins;  ///< by worker, or one element for all; the next three likewise
    std::vector<sim::Time> since;
    std::vector<sim::Time> ends;
    std::vector<std::uint32_t> origins;
    std::uint64_t label = 0;       ///< TaskLabel::packed()
    std::uint64_t collective = 0;  ///< same value as in cluster::MessageKey
  };
  void meets(Meeting meeting);

  /// The path from the last of `ends`, one per worker, back to the first of `begins`, the iteration begins
  /// from which everything is recorded, or the last. Collectives simulated rank by rank are dropped, the
  /// earliest first, if they would take more than 256 MiB.
  CriticalPath path(std::span<const sim::Time> begins, std::span<const sim::Time> ends) const;
  /// None if the collective was dropped or ended everywhere at once.
  const Meeting* rank_by_rank(std::size_t meeting) const;

 private:
  /// Its compute goes on at `begin`.
  void pauses(std::size_t worker, sim::Time begin);
  static std::size_t at(const Meeting& meeting, std::size_t worker) {
    return meeting.ends.size() == 1 ? 0 : worker;
  }
  std::optional<std::size_t> meeting_that_ends(std::size_t worker, sim::Time time, std::size_t below) const;
  void forget();

  // The recent history of each worker's compute.
  std::vector<sim::Time> since_;
  std::vector<sim::Time> until_;
  std::vector<std::vector<sim::Time>> before_;  // `since` before each of the recent breaks, the last one last
  std::deque<Meeting> meetings_;
  std::size_t forgotten_ = 0;  // number of meetings dropped, from the first on
  sim::Time known_from_{};
  std::size_t kept_ = 0;  // sum of the workers over all stored meetings
};

}  // namespace planner
