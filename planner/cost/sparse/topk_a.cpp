// TopkA: an all-gather of each worker's kept elements, 2k (P-1) words on a ring
// (collectives/sparse/collectives.hpp). Gaussian-k is the same with a threshold from the gradient's mean and
// deviation, adjusted until the count is close to k.

#include "planner/cost/sparse/selections.hpp"

namespace planner {

SparseEntry topk_a() {
  return {.name = "topk-a",
          .summary = "all-gather of each worker's top-k",
          .selection = selections::exact(),
          .source = selections::kExactSource};
}

SparseEntry gaussian_k() {
  constexpr int kPasses = 4;  // mean and deviation; counting twice; collecting
  return {.name = "gaussian-k",
          .summary = "topk-a with a threshold estimated from mean and deviation",
          .selection = selections::passes(kPasses),
          .source = selections::kPassesSource,
          .selector = "gaussian-k"};
}

}  // namespace planner
