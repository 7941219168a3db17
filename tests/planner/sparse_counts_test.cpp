// The predicted traffic of sparse all-reduces equals their real traffic: the collectives of sparse/ run
// between threads, and the words of the rank with the most traffic are compared.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "collectives/compression/compressor.hpp"
#include "collectives/compression/select.hpp"
#include "collectives/sparse/collectives.hpp"
#include "collectives/sparse/gradients.hpp"
#include "collectives/sparse/hitopk.hpp"
#include "collectives/sparse/ok_topk.hpp"
#include "planner/cost/sparse.hpp"
#include "planner/cost/transfers.hpp"
#include "tests/collectives/sparse/ranks.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using doctest::Approx;
using ranks::SparseVector;
using transport::Transport;

constexpr std::size_t kElements = 200'000;
constexpr std::size_t kKept = 2'000;
constexpr double kDensity = static_cast<double>(kKept) / kElements;
constexpr double kBytes = 4.0 * kElements;

/// A random gradient, independent on every rank, so that indexes are uniform.
std::vector<float> gradient(std::uint32_t rank, std::uint64_t iteration = 0) {
  return sparse::gradient({.seed = 5, .common = 0}, kElements, rank, iteration);
}

SparseVector selected(std::uint32_t rank) { return compression::top_k(gradient(rank), kKept); }

SparseCalls calls_of(std::string_view name, const Fabric& fabric, const SparseOptions& options = {}) {
  return find_sparse(name)->calls(fabric, kDensity, options);
}
SparseCalls calls_of(std::string_view name, std::uint32_t size, const SparseOptions& options = {}) {
  return calls_of(name, Fabric{.workers = size, .flat = {}, .nodes = {}}, options);
}

double words(const Traffic& traffic) { return (traffic.bytes + traffic.bytes_per_byte * kBytes) / 4; }
double sent_words(const SparseCall& call) { return (call.sent_bytes + call.sent_per_byte * kBytes) / 4; }

template <typename Ran, typename Words>
double max(const Ran& ran, Words words_of) {
  std::int64_t out = 0;
  for (std::size_t rank = 0; rank < ran.phases.size(); ++rank) out = std::max(out, words_of(rank));
  return static_cast<double>(out);
}

template <typename Ran>
double max_received(const Ran& ran, std::string_view phase = "") {
  return max(ran, [&](std::size_t rank) { return ran.words_received(rank, phase); });
}

template <typename Ran>
double mean_sent(const Ran& ran) {
  std::int64_t sum = 0;
  for (std::size_t rank = 0; rank < ran.phases.size(); ++rank) sum += ran.words_sent(rank);
  return static_cast<double>(sum) / static_cast<double>(ran.phases.size());
}

/// The number of messages that a rank receives, maximum over ranks.
template <typename Ran>
double max_messages(const Ran& ran, std::string_view phase = "") {
  return max(ran, [&](std::size_t rank) { return ran.counts(rank, phase).messages_received; });
}

constexpr std::uint32_t kSizes[] = {2, 3, 4, 8, 16};

TEST_CASE("sparse costs: topk-a and gaussian-k send exactly what the all-gather does") {
  for (const std::uint32_t size : kSizes) {
    CAPTURE(size);
    const auto ran =
        ranks::run(size, [](Transport& t) { return sparse::topk_a(t, selected(t.rank()), kElements); });
    const core::Network only_bytes = support::link_of(0, 1);
    const core::Network only_messages = support::link_of(1, 0);
    for (const char* name : {"topk-a", "gaussian-k"}) {
      const Transfer transfer = {.all_reduce = {}, .compressor = sparse_compressor(name, kDensity)};
      constexpr auto kKind = core::CollectiveKind::all_reduce;
      const TransferCost bytes(only_bytes, size, transfer);
      CHECK(bytes.us(kKind, kElements * 4) / 4 == Approx(max_received(ran)).epsilon(1e-12));
      CHECK(bytes.sent_bytes(kKind, kElements * 4) / 4 == Approx(mean_sent(ran)).epsilon(1e-12));
      CHECK(TransferCost(only_messages, size, transfer).us(kKind, kElements * 4) == max_messages(ran));
    }
  }
}

TEST_CASE("sparse costs: gtopk's first rank sends and receives exactly as said") {
  for (const std::uint32_t size : kSizes) {
    CAPTURE(size);
    const auto ran = ranks::run(
        size, [](Transport& t) { return sparse::gtopk(t, selected(t.rank()), kElements, kKept).sum; });
    const SparseCall call = calls_of("gtopk", size).usual;
    CHECK(words(call.flat) == Approx(max(ran, [&](std::size_t rank) {
                                return ran.words_received(rank) + ran.words_sent(rank);
                              })).epsilon(1e-12));
    CHECK(call.flat.messages == max(ran, [&](std::size_t rank) {
            return ran.counts(rank, "").messages_received + ran.counts(rank, "").messages_sent;
          }));
    CHECK(sent_words(call) == Approx(mean_sent(ran)).epsilon(1e-12));
  }
}

TEST_CASE("sparse costs: topk-dsa fills in as independent indexes do, within 2 %") {
  for (const std::uint32_t size : kSizes) {
    CAPTURE(size);
    const auto ran = ranks::run(
        size, [](Transport& t) { return sparse::topk_dsa(t, selected(t.rank()), kElements).non_zeros; });
    const SparseCall call = calls_of("topk-dsa", size).usual;
    CHECK(fill_in(kDensity, size, 0) * kElements ==
          Approx(static_cast<double>(ran.results.front())).epsilon(0.02));
    CHECK(words(call.flat) == Approx(max_received(ran)).epsilon(0.03));
    CHECK(sent_words(call) == Approx(mean_sent(ran)).epsilon(0.02));
    CHECK(call.flat.messages == max_messages(ran));
  }
}

TEST_CASE("sparse costs: topk-dsa where some indexes are common fills in as said, and turns dense") {
  constexpr std::uint32_t kSize = 8;
  constexpr double kOverlap = 0.5;
  // the first 1,000 indexes are common, and 1,000 further ones belong to each rank
  const auto half_common = [](std::uint32_t rank) {
    std::vector<float> values = gradient(rank);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i % 200 == 0) values[i] = 1e6F;
    return compression::top_k(values, kKept);
  };
  const auto ran = ranks::run(
      kSize, [&](Transport& t) { return sparse::topk_dsa(t, half_common(t.rank()), kElements).non_zeros; });
  CHECK(fill_in(kDensity, kSize, kOverlap) * kElements ==
        Approx(static_cast<double>(ran.results.front())).epsilon(0.02));
  const SparseCall call = calls_of("topk-dsa", kSize, {.overlap = kOverlap}).usual;
  CHECK(words(call.flat) == Approx(max_received(ran)).epsilon(0.03));
  // 1 - 0.8^8 = 83 % are nonzero
  const auto full = ranks::run(kSize, [&](Transport& t) {
    return sparse::topk_dsa(t, compression::top_k(gradient(t.rank()), kElements / 5), kElements).non_zeros;
  });
  const SparseCall dense =
      find_sparse("topk-dsa")->calls({.workers = kSize, .flat = {}, .nodes = {}}, 0.2, {}).usual;
  CHECK(words(dense.flat) == Approx(max_received(full)).epsilon(0.01));
}

TEST_CASE("sparse costs: ok-topk keeps to its bound, and sends what is expected within 10 %") {
  constexpr std::uint64_t kCalls = 3;
  for (const std::uint32_t size : kSizes) {
    CAPTURE(size);
    using Ran = ranks::Ran<std::size_t>;  // the number of elements that each rank has selected
    std::vector<Ran> ran(kCalls, {std::vector<std::size_t>(size), std::vector<ranks::Phases>(size)});
    transport::run_ranks(size, [&](Transport& end) {
      sparse::OkTopkState state;
      for (std::uint64_t call = 0; call < kCalls; ++call) {
        transport::Counted counted(end);
        const std::vector<float> values = gradient(end.rank(), call);
        sparse::ok_topk(counted, values, {.k = kKept}, state);
        ran[call].results[end.rank()] = compression::at_least(values, state.local_threshold).indexes.size();
        ran[call].phases[end.rank()] = counted.phases();
      }
    });
    const SparseCalls expected = calls_of("ok-topk", size);
    const SparseCalls bound = calls_of("ok-topk", size, {.bound = true});
    const double regions = max_received(ran[0], "boundaries");
    CHECK(words(expected.recomputing->flat) == Approx(max_received(ran[0]) - regions).epsilon(0.1));
    CHECK(regions <= 4.0 * size);
    CHECK(words(expected.repartitioning.flat) == Approx(regions).epsilon(0.35));
    CHECK(expected.repartitioning.flat.messages == max_messages(ran[0], "boundaries"));
    CHECK(expected.recomputing->flat.messages + expected.repartitioning.flat.messages ==
          max_messages(ran[0]));
    CHECK(sent_words(*expected.recomputing) + sent_words(expected.repartitioning) ==
          Approx(mean_sent(ran[0])).epsilon(0.1));
    for (std::uint64_t call = 1; call < kCalls; ++call) {
      CAPTURE(call);
      CHECK(words(expected.usual.flat) == Approx(max_received(ran[call])).epsilon(0.1));
      CHECK(sent_words(expected.usual) == Approx(mean_sent(ran[call])).epsilon(0.1));
      CHECK(expected.usual.flat.messages == max_messages(ran[call]));
      // the bound uses k', the most elements that a rank has selected
      const double k =
          static_cast<double>(*std::max_element(ran[call].results.begin(), ran[call].results.end()));
      CHECK(max_received(ran[call]) <= words(bound.usual.flat) * std::max(1.0, k / kKept));
      CHECK(max_messages(ran[call]) <= bound.usual.flat.messages);
    }
  }
}

struct Shape {
  std::uint32_t nodes;
  std::uint32_t workers;
};

void check_hitopk(const Shape& shape, double density) {
  CAPTURE(shape.nodes);
  CAPTURE(shape.workers);
  CAPTURE(density);
  const std::size_t of_shard = compression::kept_elements(kElements / shape.workers, density);
  const auto ran = ranks::run(shape.nodes * shape.workers, [&](Transport& t) {
    return sparse::hitopk(t, gradient(t.rank()), shape.workers,
                          [&](std::span<const float> shard) { return compression::top_k(shard, of_shard); })
        .sum;
  });
  const Fabric fabric = {
      .workers = shape.nodes * shape.workers,
      .flat = {},
      .nodes =
          Fabric::Nodes{.workers_in_node = shape.workers, .nodes = shape.nodes, .inside = {}, .between = {}}};
  const SparseCall max_filled = find_sparse("hitopk")->calls(fabric, density, {}).usual;
  const SparseCall filled = find_sparse("hitopk")->calls(fabric, density, {.overlap = 0}).usual;
  const double inside = max_received(ran, "reduce-scatter") + max_received(ran, "inside");
  CHECK(words(max_filled.between) == Approx(max_received(ran, "between")).epsilon(1e-3));
  CHECK(words(max_filled.inside) >= inside * (1 - 1e-4));
  CHECK(words(filled.inside) == Approx(inside).epsilon(0.02));
  CHECK(sent_words(filled) == Approx(mean_sent(ran)).epsilon(0.02));
}

TEST_CASE("sparse costs: hitopk sends what its equations say but for indexes that nodes share") {
  for (const Shape& shape : {Shape{2, 1}, Shape{1, 3}, Shape{2, 2}, Shape{2, 4}, Shape{4, 4}})
    check_hitopk(shape, kDensity);
}

TEST_CASE("sparse costs: hitopk's nodes together fill no more than all elements") {
  check_hitopk({4, 2}, 0.6);
  const Fabric fabric = {
      .workers = 8,
      .flat = {},
      .nodes = Fabric::Nodes{.workers_in_node = 2, .nodes = 4, .inside = {}, .between = {}}};
  const SparseCall call = find_sparse("hitopk")->calls(fabric, 0.6, {}).usual;
  CHECK(call.inside.bytes_per_byte == 0.5 + 0.5 * 2);  // dense, then all elements with their indexes
}

}  // namespace
}  // namespace planner
