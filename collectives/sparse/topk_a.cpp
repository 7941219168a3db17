#include <utility>

#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gather.hpp"

namespace sparse {

namespace {

std::vector<transport::Bytes> gather(transport::Transport& transport, transport::Bytes own,
                                     std::size_t max_bytes, Gathering gathering) {
  if (gathering == Gathering::ring) return all_gather(transport, std::move(own), max_bytes);
  const std::vector<std::size_t> sizes(transport.size(), own.size());
  return all_gather_known(transport, std::move(own), sizes);
}

}  // namespace

SparseVector topk_a(transport::Transport& transport, const SparseVector& own, std::size_t elements,
                    Gathering gathering) {
  check_sparse(own, elements, "topk_a");
  const transport::Phase phase(transport, "gather");
  std::vector<transport::Bytes> messages =
      gather(transport, encode(own), elements * compression::kBytesPerKept, gathering);
  Accumulator sum({0, elements});
  for (transport::Bytes& message : messages) {
    sum.add(decode(message, {0, elements}));
    transport::Bytes().swap(message);  // frees the memory of what has been summed
  }
  return sum.take();
}

std::size_t topk_a(transport::Transport& transport, const SparseVector& own, std::size_t max,
                   std::span<float> sum) {
  check_sparse(own, sum.size(), "topk_a");
  const transport::Phase phase(transport, "gather");
  const Range all = {0, sum.size()};
  Accumulator into(all, sum);
  all_gather_within(transport, encode(own), max * compression::kBytesPerKept, sum.size_bytes() / 2,
                    [&](std::span<const std::byte> message) { into.add(message, all); });
  into.zero_absent();
  return into.count();
}

}  // namespace sparse
