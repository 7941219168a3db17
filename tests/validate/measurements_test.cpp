// Measured throughputs: the format of their file, and of the set-up that gives their names a meaning.

#include "validate/measurements/measurements.hpp"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"

namespace {

using validate::Measurement;

std::string header() { return "model,network,schedule,workers,samples_per_s\n"; }

std::string refusal(const std::string& text) {
  try {
    (void)validate::read_measurements(text, "m.csv");
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "";
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
  CHECK(refusal("") ==
        "m.csv:1: expected the columns model,network,schedule,workers,samples_per_s and a row of "
        "measurements, got the end of the file");
  CHECK(refusal("model,network,schedule,workers\n") ==
        "m.csv:1: expected the columns model,network,schedule,workers,samples_per_s, got "
        "'model,network,schedule,workers'");
  CHECK(refusal(header() + "m,n,ddp,8\n") == "m.csv:2: expected 5 cells, got 'm,n,ddp,8'");
  CHECK(refusal(header() + "m,n,ddp,8,nan\n") == "m.csv:2: expected a number from 1e-09 to 1e+15, got 'nan'");
  CHECK(refusal(header() + "m,n,ddp,0,5\n") == "m.csv:2: expected a number from 1 to 1e+06, got '0'");
  CHECK(refusal(header() + "m,n,ddp,2.5,5\n") == "m.csv:2: expected a number from 1 to 1e+06, got '2.5'");
  CHECK(refusal(header() + "m,n,,2,5\n") == "m.csv:2: expected a name in every cell, got ''");
  CHECK(refusal("{\"a\": 1}\n") == "m.csv:1: expected a line of a table (CSV), got '{\"a\": 1}'");
  CHECK(refusal(header() + "\"m\",n,ddp,2,5\n") ==
        "m.csv:2: expected cells without quotes, got '\"m\",n,ddp,2,5'");
}

TEST_CASE("measurements: iteration times stand in place of throughputs") {
  const auto rows =
      validate::read_measurements("model,network,schedule,workers,iteration_us\nm,n,ddp,8,1250\n", "m.csv");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].iteration_us == 1250);
  CHECK(rows[0].samples_per_s == 0);
  CHECK(refusal("model,network,schedule,workers,iteration_us\nm,n,ddp,8,0\n") ==
        "m.csv:2: expected a number from 0.001 to 1e+12, got '0'");
}

TEST_CASE("measurements: rows are picked by their columns") {
  const std::vector<Measurement> rows =
      validate::read_measurements(header() + "m,n,wfbp,2,1\nm,n,wfbp,8,1\nm,n,ddp,8,1\n", "m.csv");
  const std::vector<bool> picked = validate::select_rows(rows, "schedule=wfbp,workers=8");
  CHECK(std::count(picked.begin(), picked.end(), true) == 1);
  CHECK(picked[1]);
  CHECK_THROWS_WITH_AS((void)validate::select_rows(rows, "workers=7"),
                       "--calibrate-on: expected a row of the measurements, got none with 'workers=7'",
                       core::InputError);
  CHECK_THROWS_AS((void)validate::select_rows(rows, "colour=7"), core::InputError);
}

TEST_CASE("measurements: a schedule of the set-up may hold for one model and one number of workers") {
  const validate::Setup setup = validate::read_setup(core::Field::parse(R"({
    "format": "fusewise.setup", "version": 1,
    "models": [{"name": "m", "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 8,
       "dtype": "float32", "device": "none", "origin": {"kind": "estimated", "source": ""},
       "layers": [{"name": "l", "kind": "k", "forward_us": 1, "backward_us": 2, "tensors": [{"name": "a", "elements": 2}]}]}}],
    "networks": [{"name": "n", "network": {"format": "fusewise.network", "version": 1, "name": "n",
       "origin": {"kind": "estimated", "source": ""}, "link": {"alpha_us": 10, "beta_us_per_byte": 0.001}}}],
    "schedules": [{"name": "s", "model": "m", "workers": 8, "schedule": "wfbp"},
                  {"name": "s", "workers": 4, "schedule": "dense"}]})",
                                                                        "setup.json"));
  const auto pipeline = [&](std::int64_t workers) -> std::string {
    Measurement row;
    row.model = "m";
    row.schedule = "s";
    row.workers = workers;
    const planner::Schedule* found = validate::schedule_of(setup, row);
    return found == nullptr ? "" : std::string(found->pipeline->name);
  };
  CHECK(pipeline(8) == "wfbp");
  CHECK(pipeline(4) == "after_backward");
  CHECK(pipeline(2) == "");
}

TEST_CASE("measurements: a set-up names profiles and networks that come with the program") {
  const validate::Setup setup = validate::read_setup(core::Field::parse(R"({
    "format": "fusewise.setup", "version": 1, "models": [{"name": "m", "profile": "resnet50-v100"}],
    "networks": [{"name": "n", "network": "v100-10gbe"}, {"name": "h", "network": "h100-nvlink-8"}]})",
                                                                        "setup.json"));
  CHECK(setup.networks.at("n").name == "v100-10gbe");
  CHECK(setup.networks.at("h").name == "h100-nvlink-8");
}

}  // namespace
