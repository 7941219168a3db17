// Several ranks of one job: which collectives of theirs are the same one, and how their clocks differ.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profiler/traces/ranks/rank_trace.hpp"

namespace ranks {

/// A process group over all ranks. Groups of equal size stay apart.
struct Group {
  std::string name;  ///< the trace's, or "stream N" where it names none
  std::string description;
  std::vector<std::int64_t> members;  ///< global ranks, ascending; empty: not known
  std::int64_t size = 0;              ///< 0: not known
  std::vector<std::size_t> traced;    ///< indexes of the members that have a trace
  std::int64_t incomplete = 0;        ///< collectives that some traced member has and another has not
  bool is_matched = true;             ///< false: its members are not known, so nothing is matched
};

/// The part of one rank in a collective.
struct Member {
  std::size_t rank = 0;      ///< index into the job's ranks
  std::size_t exchange = 0;  ///< index into the rank's exchanges
};

/// One collective as all traced members saw it.
struct Meeting {
  std::size_t group = 0;
  Kind kind = Kind::unknown;
  std::int64_t bytes = 0;  ///< 0: not known
  std::int64_t sequence = -1;
  std::vector<Member> members;  ///< by rank
};

/// How far the clocks of the ranks are apart, by the ends of collectives, which end nearly together.
struct Clocks {
  std::vector<std::int64_t> offset_ns;  ///< of each rank, at its first event; the first is 0
  std::vector<double> drift;    ///< of each rank, relative to the first; offset + drift * time is added
  std::int64_t spread_ns = 0;   ///< interquartile range of the ends that should be equal
  std::size_t collectives = 0;  ///< that were used
  std::vector<std::size_t> unaligned;  ///< ranks that no collective connects with the first
};

struct Job {
  std::vector<RankTrace> ranks;  ///< ascending; all on the clock of the first
  std::vector<Group> groups;
  std::vector<std::vector<std::size_t>> group_of;  ///< of each rank: its local groups -> groups
  std::vector<Meeting> meetings;                   ///< in order of their first start
  Clocks clocks;
  std::vector<std::string> warnings;
};

/// Matches collectives by the process group and, as far as the traces hold them, their id ("Comms Id"), their
/// sequence number ("Seq"), or their order among those of the same step, kind and size. Then aligns the
/// clocks. Throws InputError where ranks are missing or there twice.
Job make_job(std::vector<RankTrace> traces);

/// Returns "rank 3", "ranks 0 to 7", "ranks 0, 2, 7" or "ranks 0 to 6 in steps of 2".
std::string ranks_text(const std::vector<std::int64_t>& members);

/// When the last member came, when the last one had it, and who came last.
struct Arrival {
  std::int64_t first_start_ns = 0;
  std::int64_t last_start_ns = 0;
  std::int64_t second_last_start_ns = 0;
  std::int64_t end_ns = 0;
  std::size_t last = 0;  ///< index into the job's ranks
  /// What the collective takes without waiting; not above 0 where clocks are too far apart to say.
  std::int64_t transfer_ns() const { return end_ns - last_start_ns; }
};
Arrival arrival_of(const Job& job, const Meeting& meeting);

}  // namespace ranks
