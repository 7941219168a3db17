#include "sim/cluster/links.hpp"

#include <cassert>
#include <cstddef>

namespace cluster {

const LinkCost& Links::between(std::uint32_t from, std::uint32_t to) const {
  assert(!levels.empty());
  for (std::size_t i = 0; i + 1 < levels.size(); ++i)
    if (from / levels[i].ranks == to / levels[i].ranks) return levels[i].link;
  return levels.back().link;
}

sim::Time message_time(const Links& links, const MessageKey& key, std::uint32_t to, std::int64_t bytes) {
  double us = unsampled_us(links, key.from, to, bytes);
  if (links.sigma > 0) {
    const std::uint64_t bits = message_bits(collective_bits(links, key.collective), key.round, key.from);
    us *= sim::lognormal_mean_one(bits, links.sigma);
  }
  return sim::from_us(us);
}

sim::Time sum_time(const Links& links, std::int64_t bytes) {
  return sim::from_us(static_cast<double>(bytes) * links.sum_us_per_byte);
}

}  // namespace cluster
