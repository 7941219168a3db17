// Transfers: the cost of compressed groups, against closed forms computed by hand.

#include "planner/cost/transfers.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/planning.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using core::Network;
using doctest::Approx;
using support::link_of;
using support::Random;

constexpr auto kAllReduce = CollectiveKind::all_reduce;
constexpr auto kReduceScatter = CollectiveKind::reduce_scatter;
constexpr auto kAllGather = CollectiveKind::all_gather;

Approx close(double value) { return Approx(value).epsilon(1e-12); }

/// A compressor that encodes in max(8, 2 + 0.25 x) us and decodes in 0.125 x us.
Compressor compressor(double ratio, CollectiveKind collective) {
  return {.name = "x",
          .ratio = ratio,
          .encode = {.startup_us = 2, .us_per_byte = 0.25, .floor_us = 8},
          .decode = {.us_per_byte = 0.125},
          .collective = collective};
}

TEST_CASE("ways: a gathered group takes (P - 1)(alpha + beta ratio x), the ratio unrounded, without gamma") {
  const Network network = link_of(10, 0.5, 0.25);
  for (const std::int64_t workers : {2, 3, 4, 7, 64, 1000}) {
    CAPTURE(workers);
    const TransferCost transfer(network, workers, {.compressor = compressor(0.3, kAllGather)});
    const auto others = static_cast<double>(workers - 1);
    for (const std::int64_t bytes : {4, 100, 1004, 999'999'996}) {
      const double encoded = 0.3 * static_cast<double>(bytes);
      CHECK(transfer.us(kAllReduce, bytes) == close(others * (10 + 0.5 * encoded)));
      CHECK(transfer.sent_bytes(kAllReduce, bytes) == close(others * encoded));
      CHECK(transfer.message_bytes(kAllReduce, bytes) == close(static_cast<double>(workers) * encoded));
    }
    CHECK(transfer.carrier(kAllReduce) == kAllGather);
  }
}

TEST_CASE("ways: what can be summed is reduced like a group of ratio x bytes, whole or in halves") {
  const Network network = link_of(10, 0.5, 0.25);
  for (const char* algorithm :
       {"ring", "binary_tree", "recursive_doubling", "halving_doubling", "double_binary_tree"}) {
    CAPTURE(algorithm);
    const TransferCost plain(network, 6, {.all_reduce = {.name = algorithm}});
    const TransferCost transfer(
        network, 6, {.all_reduce = {.name = algorithm}, .compressor = compressor(0.25, kAllReduce)});
    for (const CollectiveKind kind : {kAllReduce, kReduceScatter, kAllGather}) {
      CHECK(transfer.carrier(kind) == kind);
      CHECK(transfer.us(kind, 4000) == close(plain.us(kind, 1000)));
      CHECK(transfer.sent_bytes(kind, 4000) == close(plain.sent_bytes(kind, 1000)));
      CHECK(transfer.message_bytes(kind, 4000) == 1000);
    }
  }
  // 2(P-1) alpha + (2(P-1)/P beta + (P-1)/P gamma) ratio x
  const TransferCost ring(network, 4, {.compressor = compressor(0.3, kAllReduce)});
  CHECK(ring.us(kAllReduce, 1004) == close(60 + (0.75 + 0.1875) * 301.2));
  CHECK(ring.us(kReduceScatter, 1004) == close(30 + 0.75 * 0.75 * 301.2));
  CHECK(ring.us(kAllGather, 1004) == close(30 + 0.75 * 0.5 * 301.2));
}

TEST_CASE("ways: what was measured is looked up for what is gathered in all") {
  // 2 workers: each curve is 10 us up to 100 bytes, 30 us at 200
  const Network network = support::measured_of({{100, 10}, {200, 30}});
  const TransferCost transfer(network, 2, {.compressor = compressor(0.25, kAllGather)});
  CHECK(transfer.us(kAllReduce, 200) == 10);  // 2 x 50
  CHECK(transfer.us(kAllReduce, 300) == 20);  // 2 x 75
  const TransferCost summed(network, 2, {.compressor = compressor(0.25, kAllReduce)});
  CHECK(summed.us(kAllReduce, 400) == 10);
  CHECK(summed.us(kAllReduce, 600) == 20);
}

TEST_CASE("ways: encoding and decoding are slowed, travelling is not") {
  const Network network = link_of(10, 0.5);
  const TransferCost transfer(network, 2, {.compressor = compressor(0.5, kAllGather)}, 3);
  CHECK(transfer.encode_us(4) == 3 * 8);
  CHECK(transfer.encode_us(40) == 3 * 12);
  CHECK(transfer.decode_us(40) == 3 * 5);
  CHECK(transfer.us(kAllReduce, 40) == 10 + 0.5 * 20);
  CHECK(transfer.encode(40) == sim::from_us(36));
  CHECK(transfer.decode(40) == sim::from_us(15));
  CHECK(transfer.time(kAllReduce, 40) == sim::from_us(20));
  CHECK(transfer.encodes());
  CHECK(transfer.decodes());
}

TEST_CASE("ways: one worker neither encodes nor sends nor decodes, and none compresses nothing") {
  const Network network = link_of(10, 0.5, 0.25);
  for (const bool selective : {false, true}) {
    const TransferCost alone(network, 1, {.compressor = compressor(0.5, kAllGather), .selective = selective});
    const TransferCost none(network, 4, {.selective = selective});
    CHECK(alone.us(kAllReduce, 4000) == 0);
    CHECK(alone.sent_bytes(kAllReduce, 4000) == 0);
    CHECK(none.us(kAllReduce, 4000) == close(60 + (0.75 + 0.1875) * 4000));
    CHECK(none.sent_bytes(kAllReduce, 4000) == close(6000));
    for (const TransferCost* transfer : {&alone, &none}) {
      CHECK_FALSE(transfer->is_encoded(4000));
      CHECK_FALSE(transfer->encodes());
      CHECK_FALSE(transfer->decodes());
      CHECK(transfer->encode_us(4000) == 0);
      CHECK(transfer->decode_us(4000) == 0);
      CHECK(transfer->message_bytes(kAllReduce, 4000) == 4000);
      CHECK(transfer->carrier(kAllReduce) == kAllReduce);
    }
  }
}

TEST_CASE("ways: selective, a group is encoded exactly if it is sooner there for it") {
  const Network network = link_of(4, 0.5);
  const Transfer transfer = {.compressor = compressor(0.25, kAllGather), .selective = true};
  // uncompressed 8 + 0.5 x; encoded max(8, 2 + 0.25 x) + 4 + 0.125 x + 0.125 x, which is 12 + 0.25 x up to x
  // = 24
  const TransferCost fast(network, 2, transfer);
  for (const std::int64_t bytes : {4, 12, 16, 20, 24, 4000}) CHECK(fast.is_encoded(bytes) == (bytes > 16));
}

TEST_CASE("ways: selective, the costs are those of the way that was chosen") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Network network = support::random_link(random);
    const std::int64_t workers = random.between(2, 9);
    const double slowdown = random.one_in(2) ? 1 : 1.75;
    Compressor compressor = {.name = "x",
                             .ratio = static_cast<double>(random.between(1, 200)) / 128,
                             .encode = {.startup_us = static_cast<double>(random.below(50)),
                                        .us_per_byte = static_cast<double>(random.below(50)) / 4096,
                                        .floor_us = static_cast<double>(random.below(60))},
                             .decode = {.us_per_byte = static_cast<double>(random.below(50)) / 4096},
                             .collective = random.one_in(2) ? kAllReduce : kAllGather};
    const TransferCost dense(network, workers, {}, slowdown);
    const TransferCost always(network, workers, {.compressor = compressor}, slowdown);
    const TransferCost chosen(network, workers, {.compressor = compressor, .selective = true}, slowdown);
    const std::int64_t bytes = 4 * random.between(1, 5000);
    const double encoded_us =
        always.encode_us(bytes) + always.us(kAllReduce, bytes) + always.decode_us(bytes);
    const TransferCost& taken = encoded_us < dense.us(kAllReduce, bytes) ? always : dense;
    CHECK(chosen.is_encoded(bytes) == (&taken == &always));
    CHECK(chosen.us(kAllReduce, bytes) == taken.us(kAllReduce, bytes));
    CHECK(chosen.encode_us(bytes) == taken.encode_us(bytes));
    CHECK(chosen.decode_us(bytes) == taken.decode_us(bytes));
    CHECK(chosen.sent_bytes(kAllReduce, bytes) == taken.sent_bytes(kAllReduce, bytes));
    for (const TransferCost* transfer : {&dense, &always, &chosen}) {
      const double all =
          transfer->encode_us(bytes) + transfer->us(kAllReduce, bytes) + transfer->decode_us(bytes);
      CHECK(all <= transfer->max_us(kAllReduce, bytes) * (1 + 1e-12));
      double in_groups = 0;
      std::int64_t left = bytes;
      for (std::int64_t groups = 7; groups > 0 && left > 0; --groups) {
        const std::int64_t part = groups == 1 ? left : random.between(1, left);
        in_groups += transfer->encode_us(part) + transfer->us(kAllReduce, part) + transfer->decode_us(part);
        left -= part;
      }
      const double bound = transfer->max_in_groups_us(kAllReduce, bytes, 7);
      CHECK(in_groups <= bound * (1 + 1e-12));
      CHECK(bound <= 7 * transfer->max_us(kAllReduce, bytes) * (1 + 1e-12));
    }
  }
}

TEST_CASE("ways: planners are told where more bytes may cost less") {
  const Compressor gathered = compressor(0.25, kAllGather);
  const Network rising = link_of(10, 0.5);
  CHECK(TransferCost(rising, 4, {}).is_monotone(kAllReduce));
  CHECK(TransferCost(rising, 4, {.compressor = gathered}).is_monotone(kAllReduce));
  CHECK_FALSE(TransferCost(rising, 4, {.compressor = gathered, .selective = true}).is_monotone(kAllReduce));
  // the collective that transfers the group determines the result
  Network falling = support::measured_of({{100, 10}, {200, 30}});
  falling.measured.back().curve = core::CostCurve::through({{100, 30}, {200, 10}});
  REQUIRE(falling.measured.back().collective == kAllGather);
  CHECK(TransferCost(falling, 2, {}).is_monotone(kAllReduce));
  CHECK_FALSE(TransferCost(falling, 2, {.compressor = gathered}).is_monotone(kAllReduce));
}

}  // namespace
}  // namespace planner
