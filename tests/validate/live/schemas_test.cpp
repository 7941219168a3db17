// Output files of live runs against their schemas, and documents with a fault at every place.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/validate/live/live.hpp"

namespace {

using nlohmann::json;
using support::schema_fault;

/// Two plans, one with encoding, as the program writes them.
struct Written {
  json report;
  json predictions;
};

Written run_two_plans() {
  const support::TemporaryFolder folder;
  const std::string file = live_tests::scenario_file(
      folder,
      R"(["wfbp", {"name": "cupcake", "compression": "dgc", "fusion": {"kind": "groups", "count": 2}}])");
  const std::string prediction_file = folder / "frozen.json";
  const support::Outcome outcome =
      support::run_program({"validate", file, "--iterations", "2", "--warm-up", "0", "--tolerance", "1000",
                            "--json", "--prediction", prediction_file});
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return {.report = json::parse(outcome.out), .predictions = json::parse(core::read_file(prediction_file))};
}

const Written& written() {
  static const Written once = run_two_plans();
  return once;
}

/// Every place in a document, parents before children.
std::vector<json::json_pointer> places(const json& document,
                                       const json::json_pointer& at = json::json_pointer()) {
  std::vector<json::json_pointer> out = {at};
  const auto add = [&](const json& inside, const json::json_pointer& place) {
    const std::vector<json::json_pointer> more = places(inside, place);
    out.insert(out.end(), more.begin(), more.end());
  };
  if (document.is_object())
    for (const auto& [key, value] : document.items()) add(value, at / key);
  if (document.is_array())  // the first and the last element represent all
    for (const std::size_t i : {std::size_t{0}, document.size() - 1})
      if (i < document.size()) add(document.at(i), at / i);
  return out;
}

/// Checks that a value of another type, an additional key and a missing key are rejected, except for optional
/// keys.
void check_breaks(const json& schema, const json& document, const std::vector<std::string>& optional) {
  for (const json::json_pointer& place : places(document)) {
    CAPTURE(place.to_string());
    json broken = document;
    broken[place] = nullptr;
    CHECK_FALSE(schema_fault(schema, broken).empty());
    const json& value = document.at(place);
    if (!value.is_object()) continue;
    broken = document;
    broken[place]["surprise"] = 1;
    CHECK_FALSE(schema_fault(schema, broken).empty());
    for (const auto& [key, ignored] : value.items()) {
      if (std::ranges::find(optional, key) != optional.end()) continue;
      const auto& the_key = key;  // clang 14 cannot capture a structured binding
      CAPTURE(the_key);
      broken = document;
      broken[place].erase(key);
      CHECK_FALSE(schema_fault(schema, broken).empty());
    }
  }
}

TEST_CASE("schema: a live report is as its schema says, and no broken one is") {
  const json schema = support::schema("live-validation");
  const json& report = written().report;
  CHECK(schema_fault(schema, report) == "");
  CHECK(support::unused_parts("live-validation", {report}).empty());
  check_breaks(schema, report, {"worker"});
  json other = report;
  other["plans"] = json::array();
  CHECK(schema_fault(schema, other) == "/plans: expected minItems 1");
  other = report;
  other["version"] = 2;
  CHECK(schema_fault(schema, other) == "/version: expected const 1");
}

TEST_CASE("schema: frozen predictions are as their schema says, and no broken ones are") {
  const json schema = support::schema("predictions");
  json predictions = written().predictions;
  CHECK(schema_fault(schema, predictions) == "");
  CHECK(support::unused_parts("predictions", {predictions}).empty());
  REQUIRE(predictions.at("groups").size() == 1);
  CHECK(predictions.at("groups").at(0).at("plans").size() == 2);
  CHECK(predictions.at("groups").at(0).at("calibration").at("compressors").at(0).at("name") == "dgc");
  json other = predictions;
  other["groups"][0]["plans"][0]["workers"][1]["tasks"][0]["kind"] = "nap";
  CHECK_FALSE(schema_fault(schema, other).empty());
  other = predictions;
  other["groups"][0]["plans"][0]["groups"][0]["bytes"] = 0;
  CHECK_FALSE(schema_fault(schema, other).empty());
  // the shortest part with its own schema
  json& calibration = predictions["groups"][0]["calibration"];
  calibration["network"] = json::parse(R"({"format": "fusewise.network", "version": 1, "name": "n",
      "origin": {"kind": "estimated", "source": ""}, "link": {"alpha_us": 1, "beta_us_per_byte": 0}})");
  calibration["profile"] = json::parse(R"({"format": "fusewise.profile", "version": 1, "model": "m",
      "batch_size": 1, "dtype": "float32", "device": "", "origin": {"kind": "estimated", "source": ""},
      "layers": [{"name": "l", "kind": "k", "forward_us": 1, "backward_us": 1, "tensors": []}]})");
  calibration["compressors"] = {"dgc"};
  calibration["requested"] = {{{"compressor", "dgc"}, {"error_feedback", false}}};
  CHECK(schema_fault(schema, predictions) == "");
  check_breaks(schema, predictions, {});
}

}  // namespace
