// Measured times of compressors become their costs.

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include <doctest/doctest.h>

#include "collectives/transport/in_process.hpp"
#include "core/errors.hpp"
#include "planner/cost/transfers.hpp"
#include "tests/support/corrupting_transport.hpp"
#include "validate/live/codec.hpp"

namespace {

using core::CollectiveKind;
using doctest::Approx;

const std::vector<live::CodeLoad> kLoads = {{.bytes = 4000}, {.bytes = 40'000}};

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
  const planner::Compressor measured = live::measured_compressor(timed, kLoads, links, 4);
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
    const planner::TransferCost cost = cost_of(live::measured_compressor(timed, kLoads, links, 4), links);
    CHECK(cost.us(CollectiveKind::all_reduce, 4000) == Approx(5000));
    CHECK(cost.us(CollectiveKind::all_reduce, 40'000) == Approx(9000));
    CHECK(cost.encode_us(40'000) == 0);
    CHECK(cost.decode_us(40'000) == (each.between_nodes ? 0 : Approx(7)));
  }
}

core::Profile profile_of(const std::vector<std::vector<std::int64_t>>& shapes) {
  core::Profile out;
  core::ProfileLayer& layer = out.layers.emplace_back();
  for (const std::vector<std::int64_t>& shape : shapes)
    layer.tensors.push_back(
        {.name = "t",
         .elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()),
         .shape = shape});
  return out;
}

TEST_CASE(
    "coding: PowerSGD is timed on matrices that it approximates, one of each size, from least to most") {
  // 2 x 9 sends 11 of 18 values, 1000 all of them; both 30 x 40 and 40 x 30 have 1200
  const core::Profile profile =
      profile_of({{2, 9}, {1000}, {30, 40}, {40, 30}, {8, 6, 5, 2}, {2000, 1000}, {50, 60}});
  const planner::Compressor compressor = planner::low_rank_compressor({.rank = 1});
  const auto elements = [&](std::size_t sizes) {
    std::vector<std::size_t> out;
    for (const live::CodeLoad& load :
         live::code_loads(compressor, std::vector<std::int64_t>(sizes, 4), profile)) {
      const low_rank::Matrix& first = load.tensors.front();
      CHECK(load.bytes == static_cast<std::int64_t>(4 * first.elements() * load.tensors.size()));
      CHECK(load.tensors == std::vector(std::max<std::size_t>(1, 1'000'000 / first.elements()), first));
      out.push_back(first.elements());
    }
    return out;
  };
  CHECK(elements(9) == std::vector<std::size_t>{480, 1200, 3000, 2'000'000});
  CHECK(elements(3) == std::vector<std::size_t>{480, 1200, 2'000'000});
  CHECK(elements(1) == std::vector<std::size_t>{480, 2'000'000});
  CHECK(live::code_loads(planner::built_in_compressor("dgc"), {4000}, profile).front().bytes == 4000);
}

TEST_CASE(
    "coding: what PowerSGD takes beyond its two sums is between them, and all costs are those of a matrix") {
  const core::Network links = network();
  const planner::Compressor asked = planner::low_rank_compressor({.rank = 2});
  // two of 10 x 100: both P have 2 x 10 x 2 values, both Q 2 x 100 x 2. One of 100 x 200: 200 and 400
  const std::vector<live::CodeLoad> loads = {
      {.bytes = 8000, .tensors = std::vector<low_rank::Matrix>(2, {.rows = 10, .columns = 100})},
      {.bytes = 80'000, .tensors = {{.rows = 100, .columns = 200}}}};
  const auto sums_us = [&](std::int64_t p, std::int64_t q) {
    const planner::TransferCost cost(links, 4, {});
    return cost.us(CollectiveKind::all_reduce, 4 * p) + cost.us(CollectiveKind::all_reduce, 4 * q);
  };
  const live::TimedCompressor timed = {
      .compressor = asked,
      .times = {{.encode_us = 30, .carry_us = sums_us(40, 400) + 60, .decode_us = 10},
                {.encode_us = 200, .carry_us = sums_us(200, 400) + 500, .decode_us = 80}}};
  const planner::Compressor measured = live::measured_compressor(timed, loads, links, 4);
  CHECK(measured.low_rank == asked.low_rank);
  for (const auto& [bytes, encode, in_transit, decode] :
       {std::tuple(4000.0, 15.0, 30.0, 5.0), std::tuple(80'000.0, 200.0, 500.0, 80.0)}) {
    CHECK(measured.encode.us(bytes) == Approx(encode));
    CHECK(measured.in_transit.us(bytes) == Approx(in_transit));
    CHECK(measured.decode.us(bytes) == Approx(decode));
  }
  CHECK(live::measured_compressor({.compressor = asked, .times = {}}, {}, links, 4) == asked);
}

TEST_CASE("coding: an encoding of every size is timed on all ranks, with its ratio") {
  for (const char* name : {"fp16", "efsignsgd"}) {
    CAPTURE(name);
    live::TimedCompressor timed;
    transport::run_ranks(3, [&](transport::Transport& transport) {
      live::TimedCompressor own = live::time_compressor(
          transport, {.compressor = planner::built_in_compressor(name)}, kLoads, 1, {.rounds = 3});
      if (transport.rank() == 0) timed = std::move(own);
    });
    REQUIRE(timed.times.size() == kLoads.size());
    for (const live::CodeTimes& each : timed.times) {
      CHECK(each.encode_us > 0);
      CHECK(each.carry_us > 0);
      CHECK(each.ratio == Approx(name[0] == 'f' ? 0.5 : 1.0 / 32).epsilon(0.05));
    }
  }
}

TEST_CASE("coding: PowerSGD's steps are timed, and what they send is counted") {
  const std::vector<live::CodeLoad> loads =
      live::code_loads(planner::low_rank_compressor({.rank = 1}), {4}, profile_of({{20, 30}, {100, 200}}));
  live::TimedCompressor timed;
  transport::run_ranks(2, [&](transport::Transport& transport) {
    live::TimedCompressor own = live::time_compressor(
        transport, {.compressor = planner::low_rank_compressor({.rank = 1})}, loads, 1, {.rounds = 3});
    if (transport.rank() == 0) timed = std::move(own);
  });
  REQUIRE(timed.times.size() == 2);
  CHECK(timed.times[0].ratio == Approx(50.0 / 600));
  CHECK(timed.times[1].ratio == Approx(300.0 / 20'000));
  for (const live::CodeTimes& each : timed.times)
    CHECK(std::min({each.encode_us, each.carry_us, each.decode_us}) > 0);
}

TEST_CASE("coding: a changed byte on the way is found out, by which rank and of which size") {
  for (const char* name : {"fp16", "efsignsgd", "mstopk"}) {
    CAPTURE(name);
    const auto run = [&](std::size_t min) {
      transport::run_ranks(3, [&](transport::Transport& transport) {
        tests::CorruptingTransport changing(transport, transport.rank() == 1 ? min : SIZE_MAX, SIZE_MAX);
        (void)live::time_compressor(changing, {.compressor = planner::built_in_compressor(name)},
                                    {{.bytes = 40'000}}, 1, {.rounds = 3});
      });
    };
    run(100'000);
    CHECK_THROWS_AS(run(300), core::EnvironmentError);
  }
}

}  // namespace
