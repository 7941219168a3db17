#include "tests/collectives/sparse/aggregate.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include "collectives/sparse/gradients.hpp"
#include "collectives/transport/in_process.hpp"

namespace {

using aggregate::Method;
using aggregate::Options;
using aggregate::State;

constexpr std::size_t kElements = 600;
constexpr std::uint32_t kRanks = 4;

struct Rank {
  State state;
  std::vector<float> sum;
  aggregate::Selected selected;
};

std::vector<float> gradient_of(std::uint32_t rank, std::uint64_t iteration) {
  return sparse::gradient({.seed = 4, .layers = 3}, kElements, rank, iteration);
}

/// Calls the method once on every rank.
void call(const Method& method, const Options& options, std::uint64_t iteration, std::vector<Rank>& ranks) {
  transport::run_ranks(kRanks, [&](transport::Transport& end) {
    Rank& rank = ranks[end.rank()];
    rank.sum = gradient_of(end.rank(), iteration);
    rank.selected = method.aggregate(method, end, options, rank.state, rank.sum);
  });
}

std::vector<Rank> fresh(const Options& options) {
  return std::vector<Rank>(kRanks, {aggregate::initial_state(options), {}, {}});
}

}  // namespace

TEST_CASE("aggregate: all methods are found by name") {
  CHECK(aggregate::methods().size() == 1 + compression::compressors().size() + 5);
  for (const Method& method : aggregate::methods()) CHECK(aggregate::find_method(method.name) == &method);
  CHECK(aggregate::find_method("sgd") == nullptr);
}

// But for what merges of gtopk drop, which its paper takes for sent.
TEST_CASE("aggregate: with error feedback what was not sent is kept, and all that was given is one of both") {
  const Options options = {.density = 0.05, .recompute_every = 3, .repartition_every = 2};
  for (const Method& method : aggregate::methods()) {
    if (method.name == "gtopk") continue;
    CAPTURE(method.name);
    std::vector<Rank> ranks = fresh(options);
    std::vector<double> given(kElements);
    std::vector<double> sent(kElements);
    for (std::uint64_t iteration = 0; iteration < 8; ++iteration) {
      call(method, options, iteration, ranks);
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const std::vector<float> gradient = gradient_of(rank, iteration);
        for (std::size_t i = 0; i < kElements; ++i) given[i] += static_cast<double>(gradient[i]);
      }
      for (std::size_t i = 0; i < kElements; ++i) sent[i] += static_cast<double>(ranks[0].sum[i]);
    }
    const double rounding = method.how == "all-reduce" && method.name != "dense" ? 0.3 : 1e-3;
    for (std::size_t i = 0; i < kElements; ++i) {
      double kept = 0;
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        const std::vector<float>& residual = ranks[rank].state.feedback.residual;
        // hitopk keeps what its shard leaves, the first or second half
        const std::size_t from = method.name == "hitopk" ? rank % 2 * (kElements - residual.size()) : 0;
        if (i >= from && i - from < residual.size()) kept += static_cast<double>(residual[i - from]);
      }
      REQUIRE(std::abs(sent[i] + kept - given[i]) < rounding);
    }
  }
}

TEST_CASE("aggregate: without error feedback nothing is kept, and all ranks get the same bytes") {
  const Options options = {.density = 0.05, .error_feedback = false, .recompute_every = 3};
  for (const Method& method : aggregate::methods()) {
    CAPTURE(method.name);
    std::vector<Rank> ranks = fresh(options);
    for (std::uint64_t iteration = 0; iteration < 4; ++iteration) {
      call(method, options, iteration, ranks);
      for (const Rank& rank : ranks) {
        REQUIRE(rank.state.feedback.residual.empty());
        REQUIRE(rank.sum == ranks[0].sum);
        REQUIRE(rank.selected.global == ranks[0].selected.global);
      }
    }
  }
}

TEST_CASE("aggregate: numbers selected are k where a method selects exactly, and all where it does not") {
  const Options options = {.density = 0.05};
  const auto selected = [&](std::string_view name) {
    std::vector<Rank> ranks = fresh(options);
    call(*aggregate::find_method(name), options, 0, ranks);
    return ranks[1].selected;
  };
  for (const std::string_view name :
       {"top-k", "mstopk", "random-k", "topk-a", "topk-dsa", "gtopk", "ok-topk"})
    CHECK(selected(name).local == 30);
  CHECK(selected("hitopk").local == 15);  // of a shard, half of the elements
  for (const std::string_view name : {"dense", "efsignsgd", "onebit", "fp16", "bf16"})
    CHECK(selected(name).local == kElements);
  CHECK(selected("random-k").global == 30);  // all ranks draw the same
  CHECK(selected("gtopk").global == 30);
  CHECK(selected("ok-topk").global == 30);
  CHECK(selected("topk-a").global == selected("topk-dsa").global);
  CHECK(selected("topk-a").global > 30);
}
