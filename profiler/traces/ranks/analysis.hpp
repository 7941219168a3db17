// What the collectives of a job cost: without waiting, with it, and as far as nothing else ran meanwhile.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profiler/traces/import.hpp"
#include "profiler/traces/ranks/job.hpp"

namespace ranks {

/// The part of an exchange in which its rank did not compute, and not because the host had not launched
/// anything. Where several exchanges run at once, it belongs to the one that began first, so that the parts
/// add up. Exchanges of passes come before all others, with the time in which they queue.
struct Exposed {
  std::int64_t waiting_ns = 0;   ///< before the last member came
  std::int64_t transfer_ns = 0;  ///< after it; all of it where the collective is not matched
  std::int64_t ns() const { return waiting_ns + transfer_ns; }
};

/// Returns the exposed time of each exchange of each rank.
std::vector<std::vector<Exposed>> exposed_times(const Job& job);

/// The same for one rank; `last_start_ns` says for each exchange when its last member came.
std::vector<Exposed> exposed_times(const RankTrace& trace, const std::vector<std::int64_t>& last_start_ns);

/// The collectives of one kind and size in a group.
struct SizeStatistics {
  Kind kind = Kind::unknown;
  std::int64_t bytes = 0;  ///< 0: not known
  std::int64_t count = 0;
  std::int64_t first_ns = 0;  ///< when the first of them began on its first member
  double transfer_us = 0;     ///< from the last arrival to the last end: median
  double spread_us = 0;       ///< interquartile range
  double waited_us = 0;       ///< by the first member for the last: median
  double exposed_us = 0;      ///< mean over members and collectives
};

struct Latecomer {
  std::int64_t rank = 0;       ///< global
  std::int64_t times = 0;      ///< it came last
  double kept_waiting_us = 0;  ///< sum over these: since the last but one had come
};

struct GroupStatistics {
  std::size_t group = 0;
  std::int64_t collectives = 0;
  double min_kernel_us = 0;  ///< sum of a member's kernels, the smallest and the largest
  double max_kernel_us = 0;
  double transfer_us = 0;  ///< sum
  double exposed_us = 0;   ///< sum, mean over members
  double exposed_waiting_us = 0;
  std::vector<SizeStatistics> sizes;  ///< in order of their first start
  std::vector<Latecomer> latecomers;  ///< the longest waited for first
  std::int64_t without_size = 0;
  std::int64_t inconsistent = 0;  ///< collectives that end before their last member came: clocks differ
};

/// Returns the statistics of each group of the job that has collectives.
std::vector<GroupStatistics> statistics(const Job& job, const std::vector<std::vector<Exposed>>& exposed);

/// The curves of a group from last arrival to last end: the median of each kind and size. Empty if no size is
/// known, or none of its collectives is one that networks have.
std::vector<traces::Series> curves(const Job& job, const GroupStatistics& group);

/// How a rank's time divides, from its first kernel to its last.
struct RankTimes {
  double whole_us = 0;
  double compute_us = 0;
  double communication_us = 0;  ///< some exchange ran
  double exposed_us = 0;        ///< and nothing computed, though the host had launched it
  double copies_us = 0;         ///< a copy ran, and nothing else
  double idle_us = 0;
};
RankTimes times_of(const RankTrace& trace);

}  // namespace ranks
