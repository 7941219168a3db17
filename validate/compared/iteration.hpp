// One iteration of a job, measured or simulated, as parts that add up: what a worker does by itself, and the
// exposed time of each collective.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/scenarios/run.hpp"
#include "profiler/traces/ranks/report.hpp"

namespace compared {

/// A collective of gradients; times since the iteration began.
struct Collective {
  std::string kind;
  std::int64_t bytes = 0;  ///< 0: not known
  double start_us = 0;
  double end_us = 0;
  double exposed_us = 0;  ///< nothing computed meanwhile, though the host had launched it
  double waiting_us = 0;  ///< of it before the last worker came; 0 where that is not known
};

/// A time during which kernels ran, in us since the iteration began.
struct Computing {
  double start_us = 0;
  double end_us = 0;
};

struct Iteration {
  std::string source;        ///< where it comes from, in words
  std::int64_t workers = 0;  ///< that sum gradients; 0: not known
  double iteration_us = 0;
  double busy_us = 0;        ///< kernels ran, or a simulated worker computed
  double copies_us = 0;      ///< only a copy ran
  double idle_us = 0;        ///< nothing ran: waits for the host
  bool tells_copies = true;  ///< otherwise idle_us also holds copies and other work
  /// Exposed communication besides the collectives below: also the end of one that an earlier iteration
  /// began.
  double other_exposed_us = 0;
  double ahead_us = 0;  ///< waiting for slower workers that belongs to none of the collectives: simulated, or
                        ///< before broadcasts, for example of DDP's buffers
  std::vector<Collective> collectives;  ///< that began in the iteration, in order of their starts
  std::vector<Computing> computing;     ///< for a picture: in order, without the shortest gaps
  std::vector<std::string> warnings;    ///< of the simulation

  /// All exposed communication, with waiting.
  double exposed_us() const;
  /// Exposed waiting for slower workers, as far as it is known.
  double waiting_us() const;
  /// Everything but the exposed collectives of gradients and waiting; with them, the iteration.
  double local_us() const { return busy_us + copies_us + idle_us + other_exposed_us; }
};

/// Adds a time of computing to the picture of an iteration, after those before it. Gaps of at most a
/// thousandth of the iteration are left out.
void add_computing(Iteration& iteration, const Computing& next);

/// The iteration of median length of one rank, from the first forward kernel of a step to that of the next.
/// Its collectives are those of ranks::gradient_group(). Without steps, the whole trace is an iteration.
/// Throws InputError if `group` names none.
Iteration measured(const ranks::Report& report, const ranks::RankTrace& trace, const std::string& group);

/// An iteration of a schedule on a number of workers, as simulated. The profile's layers wait `exchange_us`
/// of their time for all-to-alls and other exchanges, which a trace does not count as computing.
Iteration predicted(const scenarios::Scenario& scenario, const planner::Schedule& schedule,
                    std::int64_t workers, double exchange_us = 0);

}  // namespace compared
