#include "sim/cluster/links.hpp"

namespace cluster {

sim::Time message_time(const Links& links, const MessageKey& key, std::uint32_t to, std::int64_t bytes) {
  double us = unsampled_us(links, key.from, to, bytes);
  if (links.sigma > 0) {
    const std::uint64_t bits = message_bits(collective_bits(links, key.collective), key.round, key.from);
    us *= sim::lognormal_mean_one(bits, links.sigma);
  }
  return sim::from_us(us);
}

}  // namespace cluster
