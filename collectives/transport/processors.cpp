#include "collectives/transport/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace transport {

void keep_to_share(std::uint32_t worker, std::uint32_t workers) {
  cpu_set_t all;
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  std::vector<std::size_t> processors;
  for (std::size_t each = 0; each < CPU_SETSIZE; ++each)
    if (CPU_ISSET(each, &all)) processors.push_back(each);
  const std::size_t shares = std::min<std::size_t>(workers, processors.size());
  const std::size_t share = worker % shares;
  cpu_set_t own;
  CPU_ZERO(&own);
  for (std::size_t i = share * processors.size() / shares; i < (share + 1) * processors.size() / shares; ++i)
    CPU_SET(processors[i], &own);
  (void)::sched_setaffinity(0, sizeof own, &own);
}

}  // namespace transport
