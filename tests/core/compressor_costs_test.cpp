// Measured costs of compressors: reading, writing, and every error message verbatim.

#include "core/compressor_costs.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"

namespace core {
namespace {

using nlohmann::json;

json whole() {
  return json::parse(R"({"format": "fusewise.compressors", "version": 1, "device": "d", "command": "c",
    "origin": {"kind": "measured", "source": "s"}, "dtype": "float32", "compressors": [
    {"name": "dgc", "collective": "all_gather", "curves": [
      {"density": 0.01, "points": [{"elements": 8, "encode_us": 1, "encode_spread_us": 0.5, "decode_us": 2,
                                    "decode_spread_us": 0.25, "bytes": 8},
                                   {"elements": 16, "encode_us": 3, "decode_us": 4, "bytes": 8}]},
      {"density": 0.5, "points": [{"elements": 8, "encode_us": 3, "decode_us": 2, "bytes": 32},
                                  {"elements": 16, "encode_us": 5, "decode_us": 4, "bytes": 64}]}]},
    {"name": "fp16", "collective": "all_reduce", "curves": [
      {"points": [{"elements": 8, "encode_us": 1, "decode_us": 1, "bytes": 16}]}]}]})");
}

CompressorCosts read(const json& document) {
  return read_compressor_costs(core::Field::parse(document.dump(), "c.json"));
}

TEST_CASE("compressor costs: what is read is written and read again the same") {
  const CompressorCosts costs = read(whole());
  CHECK(costs.compressors.size() == 2);
  CHECK(costs.compressors[0].curves[0].points[0].encode == CodeTime{.us = 1, .spread_us = 0.5});
  CHECK(costs.compressors[1].collective == CollectiveKind::all_reduce);
  CHECK(read_compressor_costs(core::Field::parse(compressor_costs_text(costs), "again")) == costs);
  CHECK(find_compressor(costs, "fp16") == &costs.compressors[1]);
  CHECK(find_compressor(costs, "bf16") == nullptr);
}

TEST_CASE("compressor costs: straight lines between densities, at each size") {
  const MeasuredCompressor dgc = read(whole()).compressors[0];
  CHECK(at_density(dgc, 0.01).encode.us(32) == 1);
  CHECK(at_density(dgc, 0.5).encode.us(64) == 5);
  const CodeAt middle = at_density(dgc, 0.255);
  CHECK(middle.encode.us(32) == doctest::Approx(2));
  CHECK(middle.encode.us(64) == doctest::Approx(4));
  CHECK(middle.encode.us(48) == doctest::Approx(3));
  CHECK(middle.ratio == doctest::Approx((16.0 / 96 + 1.0) / 2));
}

TEST_CASE("compressor costs: what is none is refused, with its place") {
  const std::string time = "expected a number from 0 to 1000000000000, got ";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"([{"op": "replace", "path": "/format", "value": "fusewise.network"}])",
       R"(/format: expected one of fusewise.compressors, got "fusewise.network")"},
      {R"([{"op": "remove", "path": "/device"}])", "/device: expected a value, got nothing"},
      {R"([{"op": "replace", "path": "/dtype", "value": "float16"}])",
       R"(/dtype: expected one of float32, got "float16", did you mean 'float32'?)"},
      {R"([{"op": "add", "path": "/devices", "value": 1}])",
       "/devices: expected a key among format, version, device, command, origin, dtype, compressors, got "
       "'devices', did you mean 'device'?"},
      {R"([{"op": "replace", "path": "/compressors", "value": []}])",
       "/compressors: expected an array of at least 1 item, got an array of 0 items"},
      {R"([{"op": "replace", "path": "/compressors/1/name", "value": "dgc"}])",
       R"(/compressors/1/name: expected a name that no other compressor in the file has, got "dgc")"},
      {R"([{"op": "replace", "path": "/compressors/1/collective", "value": "ring"}])",
       R"(/compressors/1/collective: expected one of all_gather, all_reduce, got "ring")"},
      {R"([{"op": "replace", "path": "/compressors/0/curves/1/density", "value": 0.01}])",
       "/compressors/0/curves/1/density: expected more than the density before, 0.01, got 0.01"},
      {R"([{"op": "remove", "path": "/compressors/0/curves/1/density"}])",
       "/compressors/0/curves/1/density: expected a value, got nothing"},
      {R"([{"op": "replace", "path": "/compressors/0/curves/1/density", "value": 2}])",
       "/compressors/0/curves/1/density: expected a number from 0 to 1, got 2"},
      {R"([{"op": "replace", "path": "/compressors/0/curves/1/points/0/elements", "value": 7}])",
       "/compressors/0/curves/1/points: expected points of the same elements as the first density's, got an "
       "array of 2 items"},
      {R"([{"op": "replace", "path": "/compressors/0/curves/0/points/1/elements", "value": 8}])",
       "/compressors/0/curves/0/points/1/elements: expected more than the point before, 8, got 8"},
      {R"([{"op": "replace", "path": "/compressors/0/curves/0/points/1/elements", "value": 0}])",
       "/compressors/0/curves/0/points/1/elements: expected an integer from 1 to 1000000000000, got 0"},
      {R"([{"op": "replace", "path": "/compressors/1/curves/0/points/0/encode_us", "value": -1}])",
       "/compressors/1/curves/0/points/0/encode_us: " + time + "-1"},
      {R"([{"op": "replace", "path": "/compressors/1/curves/0/points/0/decode_us", "value": "x"}])",
       "/compressors/1/curves/0/points/0/decode_us: " + time + R"("x")"},
      {R"([{"op": "remove", "path": "/compressors/1/curves/0/points/0/bytes"}])",
       "/compressors/1/curves/0/points/0/bytes: expected a value, got nothing"},
  };
  for (const auto& [patch, message] : wrong) {
    const auto& the_patch = patch;  // clang 14 cannot capture a structured binding
    CAPTURE(the_patch);
    CHECK_THROWS_WITH_AS(read(whole().patch(json::parse(patch))), ("c.json: " + message).c_str(),
                         core::InputError);
  }
}

}  // namespace
}  // namespace core
