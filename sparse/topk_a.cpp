#include "sparse/collectives.hpp"
#include "sparse/gather.hpp"

namespace sparse {

SparseVector topk_a(transport::Transport& transport, const SparseVector& own, std::size_t elements) {
  check_sparse(own, elements, "topk_a");
  const transport::Phase phase(transport, "gather");
  std::vector<transport::Bytes> messages = all_gather(transport, encode(own));
  Accumulator sum({0, elements});
  for (transport::Bytes& message : messages) {
    sum.add(decode(message, {0, elements}));
    transport::Bytes().swap(message);  // what is summed needs no memory any more
  }
  return sum.take();
}

}  // namespace sparse
