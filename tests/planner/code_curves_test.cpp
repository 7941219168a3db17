// Measured coding costs: curves instead of a line in group costs, in exact plans, and in scenarios that name
// a file.

#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "planner/cost/code_cost.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/temporary_folder.hpp"

namespace planner {
namespace {

using doctest::Approx;
using support::NetworkKind;
using support::Offer;
using support::pipeline_cases;
using support::PipelineCase;
using support::Random;
using support::schedule_of;
using support::small_scene;

CodeCost code(const std::string& json) { return read_code_cost(core::Field::parse(json, "c.json")); }

TEST_CASE("code curves: lines between points, the first value before and the last line after them") {
  const CodeCost cost = code(R"({"curve": [[10, 4], [20, 8], [40, 10]]})");
  CHECK(cost.us(0) == 4);
  CHECK(cost.us(15) == 6);
  CHECK(cost.us(30) == 9);
  CHECK(cost.us(60) == 12);
  CHECK(cost.max_us(60) == 12);
  CHECK_FALSE(cost.is_free());
  CHECK(cost.is_monotone());
  CHECK(cost == code(code_cost_json(cost).dump()));
  CHECK_FALSE(cost == code(R"({"curve": [[10, 4], [20, 8]]})"));
  CHECK_FALSE(cost == CodeCost{});
  CHECK(sped_up(cost, 2).us(30) == 4.5);
  CHECK(sped_up(CodeCost{.startup_us = 3, .us_per_byte = 2, .floor_us = 1}, 2) ==
        CodeCost{.startup_us = 1.5, .us_per_byte = 1, .floor_us = 0.5});
  CHECK_FALSE(code(R"({"curve": [[10, 4], [20, 3]]})").is_monotone());
  CHECK_FALSE(code(R"({"curve": [[10, 4], [20, 3]]})").merges_for_nothing());
  CHECK_FALSE(code(R"({"curve": [[10, 4], [20, 40]]})").merges_for_nothing());  // the cost per byte rises
  CHECK(code(R"({"curve": [[10, 4], [20, 6]]})").merges_for_nothing());
}

TEST_CASE("code curves: what is none is refused") {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"curve": []})", "/curve: expected an array of at least 1 item, got an array of 0 items"},
           {R"({"curve": [[1, 2], [1, 3]]})",
            "/curve/1/0: expected more bytes than the point before, 1, got 1"},
           {R"({"curve": [[1]]})", "/curve/0: expected a pair [bytes, microseconds], got an array of 1 item"},
           {R"({"curve": [[1, -2]]})", "/curve/0/1: expected a number from 0 to 1000000000000, got -2"},
           {R"({"curve": [[1, 2]], "floor_us": 1})",
            "/floor_us: expected a key among curve, got 'floor_us'"}}) {
    const auto& the_text = text;  // clang 14 cannot capture a structured binding
    CAPTURE(the_text);
    CHECK_THROWS_WITH_AS(code(text), ("c.json: " + message).c_str(), core::InputError);
  }
}

/// A random curve: rising, falling, jagged or superlinear.
CodeCost random_code_curve(Random& random) {
  if (random.one_in(6)) return support::random_code(random);
  if (random.one_in(3)) {
    std::vector<std::pair<double, double>> points;
    for (const double bytes : {8.0, 16.0, 32.0, 64.0, 128.0})
      points.emplace_back(bytes, bytes * bytes / 64 * support::eighths(random, 16));
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    double bytes = 4;
    for (auto& [at, us] : points) at = bytes *= 2;
    return {.curve = std::make_shared<const core::CostCurve>(core::CostCurve::through(points))};
  }
  return {.curve = std::make_shared<const core::CostCurve>(
              support::random_curve(random, random.one_in(2), random.one_in(3)))};
}

Compressor with_curves(Random& random, const std::string& name, const PipelineCase& pipeline) {
  Compressor out = support::random_compressor(random, name, pipeline.halves);
  out.encode = random_code_curve(random);
  out.decode = random_code_curve(random);
  return out;
}

#ifdef NDEBUG
constexpr std::uint32_t kSeeds = 200;
#else
constexpr std::uint32_t kSeeds = 40;
#endif

TEST_CASE("code curves: plans are the best of all groupings, whatever the curves") {
  for (std::uint32_t seed = 0; seed < kSeeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random, 8, NetworkKind{seed % support::kNetworkKinds});
    for (const PipelineCase& pipeline : pipeline_cases()) {
      Offer offer = {.compressor = with_curves(random, "x", pipeline), .selective = random.one_in(4)};
      if (random.one_in(4)) offer.compressors = {Compressor{}, with_curves(random, "y", pipeline)};
      support::check_optimal(*scene, pipeline, offer, support::any_grouping);
    }
  }
}

// ---- from a file

constexpr const char* kCosts = R"({"format": "fusewise.compressors", "version": 1, "device": "d",
  "command": "c", "origin": {"kind": "measured", "source": "s"}, "dtype": "float32", "compressors": [
  {"name": "top-k", "collective": "all_gather", "curves": [
    {"density": 0.01, "points": [{"elements": 1000, "encode_us": 10, "decode_us": 1, "bytes": 80},
                                 {"elements": 2000, "encode_us": 30, "decode_us": 3, "bytes": 160}]},
    {"density": 0.03, "points": [{"elements": 1000, "encode_us": 20, "decode_us": 5, "bytes": 240},
                                 {"elements": 2000, "encode_us": 60, "decode_us": 7, "bytes": 480}]}]},
  {"name": "threshold", "collective": "all_gather", "curves": [
    {"density": 0.02, "points": [{"elements": 1000, "encode_us": 2, "decode_us": 1, "bytes": 160}]}]},
  {"name": "fp16", "collective": "all_reduce", "curves": [
    {"points": [{"elements": 1000, "encode_us": 4, "decode_us": 6, "bytes": 2000}]}]}]})";

Compressor from_file(const std::string& keys) {
  return read_compressor(core::Field::parse("{" + keys + R"(, "costs": )" + kCosts + "}", "s.json"));
}

TEST_CASE("code curves: a compressor takes its costs and its ratio from a file, between measured densities") {
  const Compressor topk = from_file(R"("name": "top-k", "density": 0.02)");
  CHECK(topk.ratio == Approx(0.04));
  CHECK(topk.collective == core::CollectiveKind::all_gather);
  CHECK(topk.decodes_each);
  CHECK(topk.encode.us(4000) == Approx(15));
  CHECK(topk.encode.us(6000) == Approx(30));
  CHECK(topk.decode.us(6000) == Approx(4));
  CHECK(from_file(R"("name": "top-k", "density": 0.01)").encode.us(8000) == 30);
  CHECK(from_file(R"("name": "top-k", "density": 0.03)").encode.us(8000) == 60);
  CHECK(read_compressor(core::Field::parse(compressor_json(topk).dump(), "p.json")) == topk);
  const Compressor half = from_file(R"("name": "fp16")");
  CHECK(half.ratio == 0.5);
  CHECK(half.collective == core::CollectiveKind::all_reduce);
  CHECK_FALSE(half.decodes_each);
  CHECK(from_file(R"("name": "fp16", "between_nodes": true)").between_nodes);

  const Compressor ok = from_file(R"("name": "ok-topk", "density": 0.02)");
  CHECK(ok.sparse.has_value());
  CHECK(ok.encode.us(4000) == 2);
  CHECK(ok.sparse->recompute_selection.us(4000) == Approx(15));
  CHECK_FALSE(ok.decodes_each);
  CHECK(from_file(R"("name": "topk-a", "density": 0.02)").decodes_each);
  CHECK(from_file(R"("name": "topk-a", "density": 0.02, "decode": {})").decode.is_free());
}

TEST_CASE("code curves: all contributions of a gather are decoded") {
  const Compressor topk = from_file(R"("name": "top-k", "density": 0.01)");
  const core::Network network = support::link_of(1, 0.001);
  for (const std::int64_t workers : {1, 2, 8}) {
    const TransferCost transfer(network, workers, {.all_reduce = {}, .compressor = topk});
    CHECK(transfer.decode_us(4000) == Approx(workers == 1 ? 0.0 : static_cast<double>(workers)));
    CHECK(transfer.encode_us(4000) == Approx(workers == 1 ? 0.0 : 10.0));
  }
}

TEST_CASE("code curves: densities beyond those measured, and compressors that were not, are refused") {
  for (const auto& [keys, message] : std::vector<std::pair<std::string, std::string>>{
           {R"("name": "top-k", "density": 0.05)",
            "/density: expected a density from 0.01 to 0.03, where top-k was measured, got 0.05"},
           {R"("name": "top-k", "density": 0.001)",
            "/density: expected a density from 0.01 to 0.03, where top-k was measured, got 0.001"},
           {R"("name": "top-k")", "/density: expected a value, got nothing"},
           {R"("name": "fp16", "density": 0.5)",
            "/density: expected no density, as fp16 keeps all elements, got 0.5"},
           {R"("name": "dgc", "density": 0.01)",
            "/costs: expected a file with costs of dgc, got one of top-k, threshold, fp16"},
           {R"("name": "hitopk", "density": 0.01)",
            "/costs: expected a file with costs of mstopk, got one of top-k, threshold, fp16"},
           {R"("name": "top-k", "density": 0.01, "encode": {})",
            "/encode: expected a key among name, density, costs, between_nodes, got 'encode'"}}) {
    const auto& the_keys = keys;  // clang 14 cannot capture a structured binding
    CAPTURE(the_keys);
    CHECK_THROWS_WITH_AS(from_file(keys), ("s.json: " + message).c_str(), core::InputError);
  }
}

TEST_CASE("code curves: gradients of two bytes are refused, and groups beyond what was measured doubted") {
  const support::Scene scene(support::gradients_of({{10, 4000}, {10, 40'000}}), support::link_of(1, 0.001),
                             4);
  Schedule schedule = schedule_of(R"("wfbp")");
  schedule.compressor = from_file(R"("name": "fp16")");
  const Run ran = run(scene.setting, schedule);
  REQUIRE(ran.warnings.size() == 1);
  CHECK(ran.warnings.front().text ==
        "compressor fp16: measured up to 4000 bytes, the last line is continued to 40000");
  core::Profile half = scene.profile;
  half.dtype = core::Dtype::bfloat16;
  const support::Scene halved(half, support::link_of(1, 0.001), 4);
  CHECK_THROWS_WITH_AS(
      run(halved.setting, schedule),
      "expected a profile of float32 gradients, of which the costs of fp16 were measured, got "
      "one of two bytes an element",
      Unsupported);
}

}  // namespace
}  // namespace planner
