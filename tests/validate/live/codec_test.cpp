// Measured times of compressors become their costs.

#include <doctest/doctest.h>

#include "collectives/transport/in_process.hpp"
#include "core/errors.hpp"
#include "planner/cost/transfers.hpp"
#include "tests/support/corrupting_transport.hpp"
#include "validate/live/codec.hpp"

namespace {

using core::CollectiveKind;
using doctest::Approx;

const std::vector<std::int64_t> kSizes = {4000, 40'000};

core::Network network() {
  core::Network out;
  out.link = core::Link{.alpha_us = 10, .beta_us_per_byte = 0.01};
  out.levels = {{.name = "inside", .size = 2, .link = *out.link},
                {.name = "between", .size = {}, .link = *out.link}};
  return out;
}

planner::TransferCost cost_of(const planner::Compressor& compressor, const core::Network& network) {
  planner::Transfer transfer;
  transfer.compressor = compressor;
  return {network, 4, transfer};
}

TEST_CASE("coding: what a sparse all-reduce takes beyond its messages is on the way") {
  const core::Network links = network();
  const planner::Compressor gtopk = planner::sparse_compressor("gtopk", 0.01);
  const double messages_us = cost_of(gtopk, links).us(CollectiveKind::all_reduce, 40'000);
  const live::TimedCompressor timed = {
      .compressor = gtopk,
      // the small one was faster than its messages allow
      .times = {{.encode_us = 50, .carry_us = 1, .decode_us = 20},
                {.encode_us = 500, .carry_us = messages_us + 300, .decode_us = 10}}};
  const planner::Compressor measured = live::measured_compressor(timed, kSizes, links, 4);
  const planner::TransferCost cost = cost_of(measured, links);
  CHECK(cost.encode_us(40'000) == Approx(500));
  CHECK(cost.us(CollectiveKind::all_reduce, 40'000) == Approx(messages_us + 300));
  CHECK(measured.in_transit.us(4000) == 0);
  CHECK(cost.decode_us(40'000) == Approx(20));  // costs are monotone in size
  CHECK_FALSE(measured.decodes_each);
}

TEST_CASE("coding: where all is done on the way compute encodes nothing") {
  const core::Network links = network();
  planner::Compressor between = planner::built_in_compressor("mstopk");
  between.between_nodes = true;
  for (const planner::Compressor& each : {planner::sparse_compressor("hitopk", 0.01), between}) {
    CAPTURE(each.name);
    const live::TimedCompressor timed = {.compressor = each,
                                         .times = {{.encode_us = 1, .carry_us = 5000, .decode_us = 2},
                                                   {.encode_us = 1, .carry_us = 9000, .decode_us = 7}}};
    const planner::TransferCost cost = cost_of(live::measured_compressor(timed, kSizes, links, 4), links);
    CHECK(cost.us(CollectiveKind::all_reduce, 4000) == Approx(5000));
    CHECK(cost.us(CollectiveKind::all_reduce, 40'000) == Approx(9000));
    CHECK(cost.encode_us(40'000) == 0);
    CHECK(cost.decode_us(40'000) == (each.between_nodes ? 0 : Approx(7)));
  }
}

TEST_CASE("coding: an encoding of every size is timed on all ranks, with its ratio") {
  for (const char* name : {"fp16", "efsignsgd"}) {
    CAPTURE(name);
    live::TimedCompressor timed;
    transport::run_ranks(3, [&](transport::Transport& transport) {
      live::TimedCompressor own = live::time_compressor(
          transport, {.compressor = planner::built_in_compressor(name)}, kSizes, 1, {.rounds = 3});
      if (transport.rank() == 0) timed = std::move(own);
    });
    REQUIRE(timed.times.size() == kSizes.size());
    for (const live::CodeTimes& each : timed.times) {
      CHECK(each.encode_us > 0);
      CHECK(each.carry_us > 0);
      CHECK(each.ratio == Approx(name[0] == 'f' ? 0.5 : 1.0 / 32).epsilon(0.05));
    }
  }
}

TEST_CASE("coding: a changed byte on the way is found out, by which rank and of which size") {
  for (const char* name : {"fp16", "efsignsgd", "mstopk"}) {
    CAPTURE(name);
    const auto run = [&](std::size_t min) {
      transport::run_ranks(3, [&](transport::Transport& transport) {
        tests::CorruptingTransport changing(transport, transport.rank() == 1 ? min : SIZE_MAX, SIZE_MAX);
        (void)live::time_compressor(changing, {.compressor = planner::built_in_compressor(name)}, {40'000}, 1,
                                    {.rounds = 3});
      });
    };
    run(100'000);
    CHECK_THROWS_AS(run(300), core::EnvironmentError);
  }
}

}  // namespace
