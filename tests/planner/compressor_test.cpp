// Compressors: reading, every error message verbatim, and built-in costs against published ones.

#include "planner/cost/compressor.hpp"
#include "tests/support/listed.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "planner/cost/transfers.hpp"
#include "planner/job/registry.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using doctest::Approx;

Compressor read(const std::string& json) { return read_compressor(core::Field::parse(json, "s.json")); }

TEST_CASE("compressor: encoding takes the greater of its floor and its line") {
  const CodeCost cost = {.startup_us = 3, .us_per_byte = 0.5, .floor_us = 10};
  CHECK(cost.us(0) == 10);
  CHECK(cost.us(13) == 10);
  CHECK(cost.us(14) == 10);  // the lines intersect
  CHECK(cost.us(15) == 10.5);
  CHECK(cost.us(1000) == 503);
  CHECK(CodeCost{.startup_us = 3, .us_per_byte = 0.5}.us(2) == 4);
  CHECK(CodeCost{.floor_us = 7}.us(1e12) == 7);
  CHECK(CodeCost{}.us(1e12) == 0);
  CHECK(CodeCost{}.is_free());
  CHECK_FALSE(CodeCost{.startup_us = 1}.is_free());
  CHECK_FALSE(CodeCost{.us_per_byte = 1}.is_free());
  CHECK_FALSE(CodeCost{.floor_us = 1}.is_free());
}

TEST_CASE("compressor: an object has a name and a ratio, costs that are not given are 0, and is gathered") {
  const Compressor min = read(R"({"name": "mine", "ratio": 0.25})");
  CHECK(min == Compressor{.name = "mine", .ratio = 0.25, .collective = CollectiveKind::all_gather});
  CHECK_FALSE(min.is_none());
  CHECK(min.encode.is_free());
  CHECK(min.decode.is_free());
  CHECK(read(R"({"name": "mine", "ratio": 0.25, "encode": {}, "decode": {}, "collective": "all_gather"})") ==
        min);
  CHECK(read(R"({"name": "x", "ratio": 2, "encode": {"startup_us": 1, "us_per_byte": 2, "floor_us": 3},
                 "decode": {"us_per_byte": 4}, "collective": "all_reduce"})") ==
        Compressor{.name = "x",
                   .ratio = 2,
                   .encode = {.startup_us = 1, .us_per_byte = 2, .floor_us = 3},
                   .decode = {.us_per_byte = 4},
                   .collective = CollectiveKind::all_reduce});
  // the contract's example is not a built-in compressor, although it has the name of one
  CHECK(
      read(
          R"({"name": "dgc", "ratio": 0.01, "encode": {"startup_us": 300, "us_per_byte": 0.00002, "floor_us": 0},
                 "decode": {}, "collective": "all_gather"})") ==
      Compressor{.name = "dgc",
                 .ratio = 0.01,
                 .encode = {.startup_us = 300, .us_per_byte = 0.00002},
                 .collective = CollectiveKind::all_gather});
}

TEST_CASE("compressor: none is no compressor") {
  CHECK(read(R"("none")") == Compressor{});
  CHECK(built_in_compressor("none").is_none());
  CHECK(Compressor{}.ratio == 1);
}

TEST_CASE("compressor: every built-in one is read by its name, and says where its costs are from") {
  for (const BuiltInCompressor& built_in : built_in_compressors()) {
    CAPTURE(built_in.name);
    const Compressor compressor = read('"' + std::string(built_in.name) + '"');
    CHECK(compressor == built_in_compressor(built_in.name));
    CHECK(compressor == read(std::string(built_in.json)));
    CHECK(compressor.name == built_in.name);
    CHECK((compressor.ratio < 1 || compressor.low_rank));
    CHECK_FALSE(compressor.encode.is_free());
    CHECK_FALSE(compressor.decode.is_free());
    CHECK_FALSE(built_in.summary.empty());
    CHECK_FALSE(built_in.source.empty());
  }
  for (const char* name : {"dgc", "random-k", "efsignsgd", "onebit", "mstopk", "fp16"})
    CHECK_NOTHROW(built_in_compressor(name));
}

TEST_CASE("compressor: built-in ones cost what Espresso published at 2^20 elements") {
  struct Published {
    const char* name;
    double total_us;  ///< sum of encoding and decoding
    double decode_us;
    double ratio;
    CollectiveKind collective;
  };
  // one element in a hundred as value and index; one bit instead of 32; half of the bits
  const std::vector<Published> published = {
      {"random-k", 88, 34, 0.01 * 8 / 4, CollectiveKind::all_gather},
      {"dgc", 390, 34, 0.01 * 8 / 4, CollectiveKind::all_gather},
      {"efsignsgd", 270, 140, 1.0 / 32, CollectiveKind::all_gather},
      {"onebit", 620, 170, 1.0 / 32, CollectiveKind::all_gather},
      {"fp16", 26, 22, 0.5, CollectiveKind::all_reduce},
  };
  constexpr double kBytes = 4.0 * (1 << 20);
  for (const Published& each : published) {
    CAPTURE(each.name);
    const Compressor compressor = built_in_compressor(each.name);
    CHECK(compressor.ratio == each.ratio);
    CHECK(compressor.collective == each.collective);
    const double encode_us = each.total_us - each.decode_us;
    // constant up to that size, then linear
    for (const double bytes : {4.0, 1e6, kBytes}) {
      CHECK(compressor.encode.us(bytes) == Approx(encode_us).epsilon(1e-12));
      CHECK(compressor.decode.us(bytes) == Approx(each.decode_us).epsilon(1e-12));
    }
    CHECK(compressor.encode.us(3 * kBytes) == Approx(3 * encode_us).epsilon(1e-12));
    CHECK(compressor.decode.us(3 * kBytes) == Approx(3 * each.decode_us).epsilon(1e-12));
  }
}

TEST_CASE("compressor: what is none is refused") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string known =
      "s.json: /: expected one of none, " + support::listed(planner::built_in_compressors()) + ", got ";
  const std::string keys =
      "expected a key among name, ratio, encode, decode, in_transit, collective, decode_each, between_nodes, "
      "got ";
  const std::string time = "expected a number from 0 to 1000000000000, got ";
  const std::vector<Case> cases = {
      {R"("zip")", known + R"("zip")"},
      {R"("one-bit")", known + R"("one-bit", did you mean 'onebit'?)"},
      {"7", known + "7"},
      {"[]", known + "an array of 0 items"},
      {"{}", "s.json: /name: expected a value, got nothing"},
      {R"({"ratio": 1})", "s.json: /name: expected a value, got nothing"},
      {R"({"name": "x"})", "s.json: /ratio: expected a value, got nothing"},
      {R"({"name": "", "ratio": 1})", R"(s.json: /name: expected a non-empty string, got "")"},
      {R"({"name": "none", "ratio": 1})",
       R"(s.json: /name: expected a name other than that of no compression, got "none")"},
      {R"({"name": "x", "ratio": 1, "costs": 1})",
       "s.json: /ratio: expected a key among name, density, costs, between_nodes, got 'ratio'"},
      {R"({"name": "x", "ratio": 1, "encoder": {}})",
       "s.json: /encoder: " + keys + "'encoder', did you mean 'encode'?"},
      {R"({"name": "x", "ratio": -0.5})", "s.json: /ratio: expected a number from 0 to 1000, got -0.5"},
      {R"({"name": "x", "ratio": 1001})", "s.json: /ratio: expected a number from 0 to 1000, got 1001"},
      {R"({"name": "x", "ratio": "1 %"})", R"(s.json: /ratio: expected a number from 0 to 1000, got "1 %")"},
      {R"({"name": "x", "ratio": 1, "encode": 3})", "s.json: /encode: expected an object, got 3"},
      {R"({"name": "x", "ratio": 1, "decode": {"per_byte": 3}})",
       "s.json: /decode/per_byte: expected a key among startup_us, us_per_byte, floor_us, got 'per_byte', "
       "did "
       "you mean 'us_per_byte'?"},
      {R"({"name": "x", "ratio": 1, "encode": {"startup_us": -3}})",
       "s.json: /encode/startup_us: " + time + "-3"},
      {R"({"name": "x", "ratio": 1, "decode": {"floor_us": "a"}})",
       "s.json: /decode/floor_us: " + time + R"("a")"},
      {R"({"name": "x", "ratio": 1, "encode": {"us_per_byte": 1e13}})",
       "s.json: /encode/us_per_byte: " + time + "10000000000000.0"},
      {R"({"name": "x", "ratio": 1, "collective": "reduce_scatter"})",
       R"(s.json: /collective: expected one of all_gather, all_reduce, got "reduce_scatter")"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK_THROWS_WITH_AS(read(each.text), each.message.c_str(), core::InputError);
  }
}

TEST_CASE("compressor: between nodes alone, by its own costs or a built-in one's, and written so") {
  const Compressor own = read(R"({"name": "x", "ratio": 0.25, "decode_each": true, "between_nodes": true})");
  CHECK(own.between_nodes);
  CHECK(own.decodes_each);
  CHECK(read(compressor_json(own).dump()) == own);
  Compressor dgc = built_in_compressor("dgc");
  dgc.between_nodes = true;
  CHECK(read(R"({"name": "dgc", "between_nodes": true})") == dgc);
  CHECK(read(compressor_json(dgc).dump()) == dgc);
  const std::string message =
      "s.json: /name: expected one of " + support::listed(planner::built_in_compressors()) + R"(, got "x")";
  CHECK_THROWS_WITH_AS(read(R"({"name": "x", "between_nodes": true})"), message.c_str(), core::InputError);
}

TEST_CASE("compressor: what is done on the way is the channel's, of all-reduces alone") {
  const Compressor own =
      read(R"({"name": "x", "ratio": 0.5, "in_transit": {"startup_us": 7, "us_per_byte": 0.5}})");
  CHECK(own.in_transit == CodeCost{.startup_us = 7, .us_per_byte = 0.5});
  CHECK(read(compressor_json(own).dump()) == own);
  const Compressor sparse =
      read(R"({"name": "gtopk", "density": 0.01, "in_transit": {"curve": [[0, 3], [100, 5]]}})");
  CHECK(sparse.in_transit.us(50) == doctest::Approx(4));
  CHECK(read(compressor_json(sparse).dump()) == sparse);

  core::Network network;
  network.link = core::Link{.alpha_us = 10, .beta_us_per_byte = 0.25};
  for (const Compressor& each : {own, sparse}) {
    CAPTURE(each.name);
    Transfer transfer;
    transfer.compressor = each;
    const TransferCost with(network, 4, transfer);
    transfer.compressor.in_transit = {};
    const TransferCost without(network, 4, transfer);
    for (const std::int64_t bytes : {4, 100, 4000}) {
      const auto dense = static_cast<double>(bytes);
      CHECK(with.us(CollectiveKind::all_reduce, bytes) ==
            doctest::Approx(without.us(CollectiveKind::all_reduce, bytes) + each.in_transit.us(dense)));
      CHECK(with.encode_us(bytes) == without.encode_us(bytes));
      CHECK(with.max_us(CollectiveKind::all_reduce, bytes) >= with.us(CollectiveKind::all_reduce, bytes));
    }
    if (each.sparse) continue;
    CHECK(with.us(CollectiveKind::reduce_scatter, 100) == without.us(CollectiveKind::reduce_scatter, 100));
  }
}

TEST_CASE("compressor: what it keeps is told with its name") {
  CHECK(described(built_in_compressor("dgc"), 4) == "dgc (density 0.01)");
  CHECK(described(built_in_compressor("dgc"), 2) == "dgc (density 0.006667)");
  CHECK(described(built_in_compressor("dgc")) == "dgc (ratio 0.02)");
  CHECK(described(built_in_compressor("power-sgd")) == "power-sgd (rank 1)");
  CHECK(described(built_in_compressor("fp16")) == "fp16");
  CHECK(described(built_in_compressor("efsignsgd"), 4) == "efsignsgd");
  CHECK(described(sparse_compressor("ok-topk", 0.002)) == "ok-topk (density 0.002)");
}

}  // namespace
}  // namespace planner
