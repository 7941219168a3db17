#include "planner/choose/bounds.hpp"

#include <algorithm>
#include <numeric>

namespace planner {

using sim::Time;

std::vector<Time> min_sums(std::uint32_t gradients, const GroupTime& cost, bool longer_costs_more) {
  std::vector<Time> min(gradients + 1, Time::max());
  min[gradients] = Time::zero();
  for (std::uint32_t begin = gradients; begin-- > 0;) {
    for (std::uint32_t end = begin + 1; end <= gradients; ++end) {
      const Time first = cost(begin, end);
      if (longer_costs_more && first >= min[begin]) break;
      min[begin] = std::min(min[begin], first + min[end]);
    }
  }
  return min;
}

Time forward_from(const Workload& workload, std::uint32_t layer) {
  return std::accumulate(workload.forward.begin() + static_cast<std::ptrdiff_t>(layer),
                         workload.forward.end(), Time::zero());
}

}  // namespace planner
