#include "planner/bounds.hpp"

#include <algorithm>
#include <numeric>

namespace planner {

using sim::Time;

std::vector<Time> least_channel_time(const Workload& workload, const CollectiveCost& cost) {
  const std::size_t count = workload.gradients.size();
  const std::vector<std::int64_t>& bytes = workload.bytes_before;
  std::vector<Time> least(count + 1, Time::max());
  least[count] = Time::zero();
  for (std::size_t begin = count; begin-- > 0;) {
    for (std::size_t end = begin + 1; end <= count; ++end) {
      const Time first = cost.time(bytes[end] - bytes[begin]);
      if (cost.curve.is_monotone() && first >= least[begin]) break;  // larger groups only cost more
      least[begin] = std::min(least[begin], first + least[end]);
    }
  }
  return least;
}

Time channel_bound(const Workload& workload, const CollectiveCost& cost) {
  const std::vector<Time> least = least_channel_time(workload, cost);
  // Nothing starts before the first gradient is ready.
  Time bound = workload.gradients.front().ready + least.front();
  // Whatever carries gradient n or a later one starts no sooner than n is ready. A group may begin before n,
  // so its cost without the part before n bounds it only where more bytes never cost less.
  if (cost.curve.is_monotone())
    for (std::size_t n = 0; n < workload.gradients.size(); ++n)
      bound = std::max(bound, workload.gradients[n].ready + least[n]);
  return bound;
}

Time gathered_forward_bound(const Workload& workload, const CollectiveCost& all_gather) {
  const std::vector<Time> least = least_channel_time(workload, all_gather);
  const std::uint32_t last_layer = workload.gradients.front().layer;  // first in backward is last in forward
  return least.front() + forward_from(workload, last_layer);
}

Time forward_from(const Workload& workload, std::uint32_t layer) {
  return std::accumulate(workload.forward.begin() + static_cast<std::ptrdiff_t>(layer),
                         workload.forward.end(), Time::zero());
}

}  // namespace planner
