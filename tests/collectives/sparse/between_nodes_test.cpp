// Compression between nodes only: compared with directly computed sums, and its traffic with what planning
// assumes.

#include "collectives/sparse/between_nodes.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/sparse/gradients.hpp"
#include "collectives/sparse/ring.hpp"
#include "planner/cost/transfers.hpp"
#include "tests/collectives/sparse/ranks.hpp"

namespace sparse {
namespace {

using doctest::Approx;
using transport::Transport;

constexpr std::size_t kElements = 24'000;

std::vector<float> sampled(std::uint32_t rank, std::uint64_t iteration) {
  return gradient({.seed = 3, .layers = 4}, kElements, rank, iteration);
}

struct Shape {
  std::uint32_t workers;  ///< in a node
  std::uint32_t nodes;
};
constexpr Shape kShapes[] = {{1, 2}, {2, 1}, {2, 2}, {4, 3}, {3, 4}, {2, 16}};

/// Each part: the decoded encodings of the nodes' sums, added in the order of nodes.
std::vector<float> plain_sum(const compression::Compressor& compressor, Shape shape, double density,
                             const std::vector<std::vector<float>>& node_sums) {
  std::vector<float> out(kElements);
  for (std::uint32_t place = 0; place < shape.workers; ++place) {
    const std::size_t begin = part_begin(kElements, place, shape.workers);
    const std::size_t size = part_begin(kElements, place + std::size_t{1}, shape.workers) - begin;
    for (std::uint32_t node = 0; node < shape.nodes; ++node) {
      compression::State state = {.density = density, .seed = 7};
      const compression::Bytes bytes =
          compressor.encode(std::span(node_sums[node]).subspan(begin, size), state);
      compressor.add_decoded(bytes, std::span(out).subspan(begin, size));
    }
  }
  return out;
}

/// As computed by a ring inside the node.
std::vector<std::vector<float>> sums_of_nodes(Shape shape) {
  std::vector<std::vector<float>> out(shape.nodes);
  for (std::uint32_t node = 0; node < shape.nodes; ++node)
    out[node] = ranks::run(shape.workers, [&](Transport& t) {
                  std::vector<float> x = sampled(node * shape.workers + t.rank(), 0);
                  ring_all_reduce(t, x);
                  return x;
                }).results.front();
  return out;
}

auto ran_once(const compression::Compressor& compressor, Shape shape, double density) {
  return ranks::run(shape.workers * shape.nodes, [&](Transport& t) {
    std::vector<float> x = sampled(t.rank(), 0);
    compression::State state = {.density = density, .seed = 7};
    sum_between_nodes(t, compressor, shape.workers, x, state, nullptr);
    return x;
  });
}

TEST_CASE("between nodes: the sum of what encodings of the nodes' sums say, the same bytes on all ranks") {
  for (const char* name : {"top-k", "efsignsgd", "threshold"})
    for (const Shape shape : kShapes)
      for (const double density : {0.01, 0.3}) {
        CAPTURE(name);
        CAPTURE(shape.workers);
        CAPTURE(shape.nodes);
        const compression::Compressor& compressor = *compression::find_compressor(name);
        const auto ran = ran_once(compressor, shape, density);
        const auto node_sums = sums_of_nodes(shape);
        const std::vector<float> plain =
            shape.nodes == 1 ? node_sums.front() : plain_sum(compressor, shape, density, node_sums);
        for (const std::vector<float>& each : ran.results) CHECK(ranks::same(each, plain));
      }
}

TEST_CASE("between nodes: halves are summed on the way, within their rounding") {
  const compression::Compressor& fp16 = *compression::find_compressor("fp16");
  const Shape shape = {.workers = 2, .nodes = 4};
  const auto ran = ran_once(fp16, shape, 1);
  const auto node_sums = sums_of_nodes(shape);
  for (std::size_t i = 0; i < kElements; i += 97) {
    double exact = 0;
    double max = 0;
    for (const std::vector<float>& each : node_sums) {
      exact += static_cast<double>(each[i]);
      max += std::abs(static_cast<double>(each[i]));
    }
    CHECK(std::abs(static_cast<double>(ran.results.front()[i]) - exact) <= max * 4e-3 + 1e-6);
  }
  for (const std::vector<float>& each : ran.results) CHECK(ranks::same(each, ran.results.front()));
}

TEST_CASE("between nodes: what is left out of a part comes with the next call") {
  const compression::Compressor& topk = *compression::find_compressor("top-k");
  const Shape shape = {.workers = 2, .nodes = 3};
  constexpr int kCalls = 4;
  const auto ran = ranks::run(shape.workers * shape.nodes, [&](Transport& t) {
    compression::State state = {.density = 0.05};
    compression::ErrorFeedback feedback;
    std::vector<double> all(kElements);
    for (int call = 0; call < kCalls; ++call) {
      std::vector<float> x = sampled(t.rank(), 0);
      sum_between_nodes(t, topk, shape.workers, x, state, &feedback);
      for (std::size_t i = 0; i < kElements; ++i) all[i] += static_cast<double>(x[i]);
    }
    const Range part = encoded_part(t, kElements, shape.workers);
    CHECK(feedback.residual.size() == part.size());
    for (std::size_t i = 0; i < part.size(); ++i)
      all[part.begin + i] += static_cast<double>(feedback.residual[i]);  // of this node only
    return all;
  });
  const auto node_sums = sums_of_nodes(shape);
  // all that has come and all that is left on the three nodes: kCalls times the whole sum
  for (std::size_t i = 0; i < kElements; i += 61) {
    const std::uint32_t place = i < kElements / 2 ? 0 : 1;
    double left_and_sent = -2 * ran.results[1 - place][i];  // there it is what was sent alone
    for (std::uint32_t node = 0; node < shape.nodes; ++node)
      left_and_sent += ran.results[node * shape.workers + place][i];
    double exact = 0;
    for (const std::vector<float>& each : node_sums) exact += static_cast<double>(each[i]);
    CHECK(left_and_sent == Approx(kCalls * exact).epsilon(1e-4));
  }
}

TEST_CASE("between nodes: nodes that are not full are refused") {
  CHECK_THROWS_WITH_AS(ran_once(*compression::find_compressor("top-k"), {.workers = 2, .nodes = 0}, 0.1),
                       "a collective needs at least one rank", std::invalid_argument);
  CHECK_THROWS_WITH_AS(ranks::run(3,
                                  [](Transport& t) {
                                    std::vector<float> x(10);
                                    compression::State state;
                                    sum_between_nodes(t, *compression::find_compressor("top-k"), 2, x, state,
                                                      nullptr);
                                    return 0;
                                  }),
                       "sum_between_nodes: 3 ranks are not full nodes of 2", std::invalid_argument);
}

TEST_CASE("between nodes: planning takes it to send and to encode what it does") {
  for (const char* name : {"top-k", "fp16"})
    for (const Shape shape : kShapes) {
      if (shape.nodes == 1) continue;
      CAPTURE(name);
      CAPTURE(shape.workers);
      CAPTURE(shape.nodes);
      constexpr double kDensity = 0.01;
      const compression::Compressor& compressor = *compression::find_compressor(name);
      const auto ran = ran_once(compressor, shape, kDensity);
      const planner::Compressor priced = {.name = name,
                                          .ratio = compressor.sums() ? 0.5 : 2 * kDensity,
                                          .encode = {.us_per_byte = 1},
                                          .decode = {.us_per_byte = 1},
                                          .collective = compressor.sums() ? core::CollectiveKind::all_reduce
                                                                          : core::CollectiveKind::all_gather,
                                          .decodes_each = !compressor.sums(),
                                          .between_nodes = true};
      const auto network = [&](double inside, double between, double per_byte) {
        core::Network out = {.name = "n"};
        out.levels = {{.name = "in",
                       .size = shape.workers,
                       .link = {.alpha_us = inside, .beta_us_per_byte = inside * per_byte}},
                      {.name = "out", .link = {.alpha_us = between, .beta_us_per_byte = between * per_byte}}};
        return out;
      };
      constexpr auto kKind = core::CollectiveKind::all_reduce;
      const auto us = [&](const core::Network& on) {
        return planner::TransferCost(on, shape.workers * shape.nodes,
                                     {.all_reduce = {}, .compressor = priced})
            .us(kKind, kElements * 4);
      };
      const auto max = [&](auto of) {
        std::int64_t out = 0;
        for (std::size_t rank = 0; rank < ran.phases.size(); ++rank) out = std::max(out, of(rank));
        return static_cast<double>(out);
      };
      const auto messages = [&](const char* phase) {
        return max([&](std::size_t rank) { return ran.counts(rank, phase).messages_received; });
      };
      const auto words = [&](const char* phase) {
        return max([&](std::size_t rank) { return ran.words_received(rank, phase); });
      };
      const double inside_messages = us(network(1, 0, 0));
      const double between_messages = us(network(0, 1, 0));
      CHECK(inside_messages == messages("reduce-scatter") + messages("inside"));
      CHECK(between_messages == messages("between"));
      CHECK((us(network(1, 0, 1)) - inside_messages) / 4 ==
            Approx(words("reduce-scatter") + words("inside")).epsilon(1e-3));
      CHECK((us(network(0, 1, 1)) - between_messages) / 4 == Approx(words("between")).epsilon(0.01));
      const planner::TransferCost transfer(network(1, 1, 1), shape.workers * shape.nodes,
                                           {.all_reduce = {}, .compressor = priced});
      const double part = kElements * 4.0 / shape.workers;
      CHECK(transfer.encode_us(kElements * 4) == Approx(part));
      CHECK(transfer.decode_us(kElements * 4) == Approx(compressor.sums() ? part : part * shape.nodes));
    }
}

}  // namespace
}  // namespace sparse
