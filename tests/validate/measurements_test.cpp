// Measured throughputs: the format of their file, and that a fit to some rows predicts the others.

#include "validate/measurements/measurements.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/run/predict.hpp"
#include "validate/measurements/calibrate.hpp"
#include "validate/measurements/measurements_text.hpp"

namespace {

using validate::Measurement;

std::string refusal(const std::string& text) {
  try {
    (void)validate::read_measurements(text, "m.csv");
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "";
}

validate::Setup setup() {
  return validate::read_setup(core::Field::parse(R"({"format": "fusewise.setup", "version": 1,
    "models": [{"name": "m", "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 8,
       "dtype": "float32", "device": "none", "origin": {"kind": "estimated", "source": ""},
       "layers": [{"name": "near", "kind": "k", "forward_us": 1000, "backward_us": 2000, "tensors": [{"name": "a", "elements": 250000}]},
                  {"name": "far", "kind": "k", "forward_us": 1500, "backward_us": 2500, "tensors": [{"name": "b", "elements": 500000}]}]}}],
    "networks": [{"name": "n", "network": {"format": "fusewise.network", "version": 1, "name": "n",
       "origin": {"kind": "estimated", "source": ""}, "link": {"alpha_us": 10, "beta_us_per_byte": 0.001}}}]})",
                                                 "setup.json"));
}

/// The throughputs of a worker 1.7 times and a network 2.5 times as slow as those of the set-up.
std::vector<Measurement> simulated() {
  const validate::Setup all = setup();
  const core::Profile profile = core::scaled(all.models.at("m"), 1.7);
  const core::Network network = core::scaled(all.networks.at("n"), 1, 2.5);
  std::vector<Measurement> out;
  for (const std::string schedule : {"wfbp", "sync-easgd", "fusewise-dear"})
    for (const std::int64_t workers : {2, 8, 32}) {
      const planner::Setting setting(profile, network, workers, {}, {});
      const double rate =
          planner::run(setting, planner::preset_schedule(schedule)).metrics.throughput_samples_per_s;
      out.push_back({static_cast<std::int64_t>(out.size()) + 2, "m", "n", schedule, workers, rate});
    }
  return out;
}

TEST_CASE("measurements: columns in any order, blank lines and carriage returns") {
  const auto rows = validate::read_measurements(
      "workers,model,network,samples_per_s,schedule\r\n\r\n8, m ,n,12.5,ddp\r\n", "m.csv");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].line == 3);
  CHECK(rows[0].model == "m");
  CHECK(rows[0].schedule == "ddp");
  CHECK(rows[0].workers == 8);
  CHECK(rows[0].samples_per_s == 12.5);
}

TEST_CASE("measurements: a wrong file is refused with its line") {
  const std::string header = "model,network,schedule,workers,samples_per_s\n";
  CHECK(refusal("") ==
        "m.csv:1: expected the columns model,network,schedule,workers,samples_per_s and a row of "
        "measurements, got the end of the file");
  CHECK(refusal("model,network,schedule,workers\n") ==
        "m.csv:1: expected the columns model,network,schedule,workers,samples_per_s, got "
        "'model,network,schedule,workers'");
  CHECK(refusal(header + "m,n,ddp,8\n") == "m.csv:2: expected 5 cells, got 'm,n,ddp,8'");
  CHECK(refusal(header + "m,n,ddp,8,nan\n") == "m.csv:2: expected a number from 1e-09 to 1e+15, got 'nan'");
  CHECK(refusal(header + "m,n,ddp,0,5\n") == "m.csv:2: expected a number from 1 to 1e+06, got '0'");
  CHECK(refusal(header + "m,n,ddp,2.5,5\n") == "m.csv:2: expected a number from 1 to 1e+06, got '2.5'");
  CHECK(refusal(header + "m,n,,2,5\n") == "m.csv:2: expected a name in every cell, got ''");
  CHECK(refusal(header + "\"m\",n,ddp,2,5\n") ==
        "m.csv:2: expected cells without quotes, got '\"m\",n,ddp,2,5'");
}

TEST_CASE("measurements: rows are picked by their columns") {
  const std::vector<Measurement> rows = simulated();
  const std::vector<bool> picked = validate::select_rows(rows, "schedule=wfbp,workers=8");
  CHECK(std::count(picked.begin(), picked.end(), true) == 1);
  CHECK(picked[1]);
  CHECK_THROWS_WITH_AS((void)validate::select_rows(rows, "workers=7"),
                       "--calibrate-on: expected a row of the measurements, got none with 'workers=7'",
                       core::InputError);
  CHECK_THROWS_AS((void)validate::select_rows(rows, "colour=7"), core::InputError);
}

TEST_CASE("measurements: fitted to one schedule, the others come out, and better than by scaling alone") {
  const std::vector<Measurement> rows = simulated();
  const auto result =
      validate::calibrate_and_predict(rows, validate::select_rows(rows, "schedule=wfbp"), setup(), "m.csv");
  CHECK(result.compute_factors.at("m") == doctest::Approx(1.7).epsilon(0.01));
  CHECK(result.per_byte_factors.at("n") == doctest::Approx(2.5).epsilon(0.01));
  CHECK(result.ours.rows == 6);
  CHECK(result.ours.worst < 0.01);
  CHECK(result.null.mean > 0.1);
}

TEST_CASE(
    "measurements: both means are over the same rows, models that nothing was calibrated on are apart") {
  std::vector<Measurement> rows = simulated();
  validate::Setup all = setup();
  all.models.emplace("other", all.models.at("m"));
  for (std::size_t i = 6; i < 9; ++i) rows[i].model = "other";
  const auto result =
      validate::calibrate_and_predict(rows, validate::select_rows(rows, "schedule=wfbp"), all, "m.csv");
  CHECK(result.ours.rows == 3);
  CHECK(result.null.rows == 3);
  CHECK(result.others.rows == 3);
  CHECK(result.ours.worst < 0.01);
  CHECK(result.others.worst > 0.1);  // 1.7 times as fast as it was
  const std::string table = validate::measurements_table(result);
  CHECK(table.find("of 3 rows that were not calibrated on") != std::string::npos);
  CHECK(table.find("ours, of models without a calibrated row, so without a null: ") != std::string::npos);
}

TEST_CASE("measurements: a factor that reaches its limit is named") {
  std::vector<Measurement> rows = simulated();
  const auto names = [&](const std::vector<Measurement>& measured) {
    return validate::calibrate_and_predict(measured, validate::select_rows(measured, "workers=2"), setup(),
                                           "m.csv")
        .at_limit;
  };
  CHECK(names(rows).empty());
  for (Measurement& row : rows) row.samples_per_s /= 1000;
  const auto result =
      validate::calibrate_and_predict(rows, validate::select_rows(rows, "workers=2"), setup(), "m.csv");
  CHECK(std::find(result.at_limit.begin(), result.at_limit.end(), "m") != result.at_limit.end());
  CHECK(validate::measurements_table(result).find("m is at the limit of the search (0.0183 to 54.6 times)") !=
        std::string::npos);
  CHECK(validate::measurements_json(result).find("\"at_limit\"") != std::string::npos);
}

TEST_CASE("measurements: names that the set-up does not know") {
  std::vector<Measurement> rows = simulated();
  rows[4].model = "mm";
  CHECK_THROWS_WITH_AS((void)validate::calibrate_and_predict(
                           rows, validate::select_rows(rows, "schedule=wfbp"), setup(), "m.csv"),
                       "m.csv:6: expected a model of the set-up, one of m, got 'mm', did you mean 'm'?",
                       core::InputError);
}

}  // namespace
