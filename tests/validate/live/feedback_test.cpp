// Fusion buffers over several iterations: the sent elements and the residuals of error feedback, computed by
// hand and as sums.

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/transport/in_process.hpp"
#include "planner/cost/compressor.hpp"
#include "validate/live/fusion_buffer.hpp"
#include "validate/live/gradients.hpp"

namespace {

using Floats = std::vector<float>;

live::Method method(const std::string& compressor, bool error_feedback, std::uint32_t workers_per_node = 1) {
  planner::Transfer transfer;
  transfer.all_reduce.name = "ring";
  transfer.compressor = planner::read_compressor(core::Field::parse(compressor, "c"));
  return live::method_of(transfer, true, workers_per_node, error_feedback);
}

/// The result on all ranks after each iteration, with the same gradients each time.
std::vector<Floats> sums(const live::Method& how, const std::vector<Floats>& gradients,
                         std::size_t iterations) {
  const auto ranks = static_cast<std::uint32_t>(gradients.size());
  std::vector<std::vector<Floats>> out(ranks);
  transport::run_ranks(ranks, [&](transport::Transport& transport) {
    Floats values = gradients[transport.rank()];
    live::FusionBuffer fusion_buffer(how, values, ranks, 1);
    for (std::size_t i = 0; i < iterations; ++i) {
      values = gradients[transport.rank()];
      fusion_buffer.encode();
      fusion_buffer.carry(transport, core::CollectiveKind::all_reduce);
      fusion_buffer.decode();
      out[transport.rank()].push_back(values);
    }
  });
  for (const std::vector<Floats>& rank : out) CHECK(rank == out[0]);
  return out[0];
}

TEST_CASE("live: error feedback sends later what was left out, by hand") {
  const std::vector<Floats> gradients = {{1, 2, 3, 4}, {4, 3, 0, 0}};
  for (const std::string name :
       {R"("topk-a", "density": 0.25)", R"("topk-dsa", "density": 0.25)", R"("top-k", "ratio": 0.5)"}) {
    CAPTURE(name);
    // residuals: 1 2 3 0 and 0 3 0 0; then 2 4 0 4 and 4 0 0 0
    CHECK(sums(method(R"({"name": )" + name + "}", true), gradients, 3) ==
          std::vector<Floats>{{4, 0, 0, 4}, {0, 6, 6, 0}, {8, 0, 0, 8}});
    CHECK(sums(method(R"({"name": )" + name + "}", false), gradients, 2) ==
          std::vector<Floats>{{4, 0, 0, 4}, {4, 0, 0, 4}});
  }
}

TEST_CASE("live: between nodes a worker keeps what its part of the node's sum leaves, by hand") {
  // the nodes' sums: 2 -3 | 3 5 and 6 1 | 7 -1; bars separate workers' parts
  const std::vector<Floats> gradients = {{1, 2, 3, 4}, {1, -5, 0, 1}, {4, 0, 0, -1}, {2, 1, 7, 0}};
  for (const std::string name :
       {R"("hitopk", "density": 0.5)", R"("top-k", "ratio": 1, "between_nodes": true)"}) {
    CAPTURE(name);
    // residuals: 2 0 | 3 0 and 0 1 | 0 -1
    CHECK(sums(method(R"({"name": )" + name + "}", true, 2), gradients, 2) ==
          std::vector<Floats>{{6, -3, 7, 5}, {10, 0, 13, 0}});
    CHECK(sums(method(R"({"name": )" + name + "}", false, 2), gradients, 2) ==
          std::vector<Floats>{{6, -3, 7, 5}, {6, -3, 7, 5}});
  }
}

/// The start of the part of which a rank keeps a residual.
std::size_t left_begin(const live::Method& how, std::uint32_t rank, std::size_t left, std::size_t elements) {
  return left == elements ? 0 : rank % how.workers_per_node * (elements - left);
}

// An exception are elements dropped in merges of gtopk, which its paper counts as sent.
TEST_CASE("live: with error feedback all that was given has been sent or is left, and the check follows") {
  constexpr std::uint32_t kRanks = 4;
  constexpr std::size_t kElements = 600;
  std::vector<live::Method> all;
  for (const char* name : {"dgc", "random-k", "efsignsgd", "onebit", "mstopk", "fp16"}) {
    all.push_back(method('"' + std::string(name) + '"', true));
    all.push_back(method(R"({"name": ")" + std::string(name) + R"(", "between_nodes": true})", true, 2));
  }
  for (const char* name : {"topk-a", "topk-dsa", "gaussian-k", "ok-topk", "hitopk"})
    all.push_back(method(R"({"name": ")" + std::string(name) + R"(", "density": 0.05})", true, 2));
  all[all.size() - 2].recompute_every = 3;  // ok-topk's thresholds are recomputed
  all.push_back(method(R"({"name": "power-sgd", "rank": 2})", true));
  const std::vector<low_rank::Matrix> tensors = {{.rows = 20, .columns = 25}, {.rows = 100}};
  const live::Gradients gradients(5, kRanks);
  for (std::size_t m = 0; m < all.size(); ++m) {
    CAPTURE(m);
    std::vector<double> given(kElements);
    std::vector<double> done(kElements);  // elements sent or kept as residual
    std::vector<Floats> left(kRanks);
    std::vector<std::string> faults(kRanks);
    transport::run_ranks(kRanks, [&](transport::Transport& transport) {
      const std::uint32_t rank = transport.rank();
      Floats values(kElements);
      live::FusionBuffer fusion_buffer(all[m], values, kRanks, 1, tensors);
      live::Expected expected(all[m], gradients, 0, kElements, 1, tensors);
      for (std::uint32_t iteration = 0; iteration < 8; ++iteration) {
        gradients.fill(all[m].spread(), rank, iteration, 0, values);
        fusion_buffer.encode();
        fusion_buffer.carry(transport, core::CollectiveKind::all_reduce);
        fusion_buffer.decode();
        if (rank == 0)
          for (std::size_t i = 0; i < kElements; ++i) done[i] += static_cast<double>(values[i]);
        faults[rank] += expected.fault(iteration, values);
      }
      left[rank].assign(fusion_buffer.left().begin(), fusion_buffer.left().end());
    });
    for (const std::string& fault : faults) CHECK(fault.empty());
    double max = 0;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      Floats values(kElements);
      for (std::uint32_t iteration = 0; iteration < 8; ++iteration) {
        gradients.fill(all[m].spread(), rank, iteration, 0, values);
        for (std::size_t i = 0; i < kElements; ++i) given[i] += static_cast<double>(values[i]);
      }
      const std::size_t begin = left_begin(all[m], rank, left[rank].size(), kElements);
      for (std::size_t i = 0; i < left[rank].size(); ++i) {
        done[begin + i] += static_cast<double>(left[rank][i]);
        max = std::max(max, static_cast<double>(std::abs(left[rank][i])));
      }
    }
    CHECK((max > 0) == !(all[m].encoder != nullptr && all[m].encoder->sums()));
    for (std::size_t i = 0; i < kElements; ++i) REQUIRE(std::abs(done[i] - given[i]) <= 0.5);
  }
}

}  // namespace
