#include "planner/bounds.hpp"

#include <algorithm>
#include <numeric>

namespace planner {

using sim::Time;

std::vector<Time> least_sums(std::uint32_t gradients, const GroupTime& cost, bool longer_costs_more) {
  std::vector<Time> least(gradients + 1, Time::max());
  least[gradients] = Time::zero();
  for (std::uint32_t begin = gradients; begin-- > 0;) {
    for (std::uint32_t end = begin + 1; end <= gradients; ++end) {
      const Time first = cost(begin, end);
      if (longer_costs_more && first >= least[begin]) break;
      least[begin] = std::min(least[begin], first + least[end]);
    }
  }
  return least;
}

Time forward_from(const Workload& workload, std::uint32_t layer) {
  return std::accumulate(workload.forward.begin() + static_cast<std::ptrdiff_t>(layer),
                         workload.forward.end(), Time::zero());
}

}  // namespace planner
