// What decides how long a run takes: from the end back to the start, the compute of whichever worker was
// waited for, and the collectives between. Of closed collectives.

#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/time.hpp"

namespace planner {

/// One unbroken chain through workers and the channel.
struct CriticalPath {
  std::vector<sim::Time> computing;  ///< by worker
  sim::Time communicating{};         ///< ticks included
  sim::Time untraced{};              ///< where the chain could not be followed further
};

/// Told of tasks in the order in which they are simulated.
class PathTracker {
 public:
  explicit PathTracker(std::size_t workers) : states_(workers) {}

  /// What each worker runs by itself.
  void computes(std::span<const sim::Time> begins, std::span<const sim::Time> ends);
  /// A collective or tick: when each worker is ready for it (or its stream is free), and when it ends
  /// everywhere.
  void meets(std::span<const sim::Time> ready, sim::Time end);

  /// Between two times, the later of which is when the last of `ends`, one for each worker, is reached.
  CriticalPath between(sim::Time from, std::span<const sim::Time> ends) const;

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  /// How a worker comes to compute what it does.
  struct State {
    sim::Time since{};                ///< it has computed without a break
    std::size_t released_by = kNone;  ///< the meeting that it had waited for
    sim::Time until{};
  };
  struct Meeting {
    sim::Time begin{};
    sim::Time end{};
    std::size_t after = kNone;  ///< the meeting at whose end it began; none: the last worker decided
    std::size_t last = 0;       ///< worker
    State its;                  ///< state of the last worker when it was ready
  };

  std::size_t meeting_that_ends(sim::Time at) const;

  std::vector<State> states_;
  std::vector<Meeting> meetings_;
};

}  // namespace planner
