// Measured compressors: the recorded data, through the library and the program. No time is compared.

#include "profiler/measure/compressors/measure.hpp"

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "collectives/compression/compressor.hpp"
#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace profiler {
namespace {

TEST_CASE("measured compressors: all of them, at each density where they leave elements out") {
  const CompressorOptions options = {.elements = {1000, 4000}, .densities = {0.01, 0.1}, .samples = 3};
  std::vector<std::string> told;
  const core::CompressorCosts costs =
      measure_compressors(options, "command", [&](const std::string& what) { told.push_back(what); });
  CHECK(costs.command == "command");
  REQUIRE(costs.compressors.size() == compression::compressors().size());
  std::size_t curves = 0;
  for (std::size_t i = 0; i < costs.compressors.size(); ++i) {
    const core::MeasuredCompressor& measured = costs.compressors[i];
    const compression::Compressor& compressor = compression::compressors()[i];
    CAPTURE(measured.name);
    CHECK(measured.name == compressor.name);
    CHECK((measured.collective == core::CollectiveKind::all_reduce) == compressor.sums());
    const bool is_sparse = compressor.wire_bytes(1000, 0).max == 0;
    CHECK(measured.curves.size() == (is_sparse ? 2 : 1));
    for (const core::CodeCurve& curve : measured.curves) {
      ++curves;
      REQUIRE(curve.points.size() == 2);
      for (const core::CodePoint& point : curve.points) {
        const compression::WireSize size =
            compressor.wire_bytes(static_cast<std::size_t>(point.elements), curve.density.value_or(1));
        CHECK(point.bytes >= static_cast<double>(size.min));
        CHECK(point.bytes <= static_cast<double>(size.max));
        CHECK(point.encode.us > 0);
        CHECK(point.decode.us > 0);
      }
    }
  }
  CHECK(told.size() == curves);
  CHECK(core::read_compressor_costs(core::Field::parse(compressor_costs_text(costs), "c")) == costs);
}

TEST_CASE("measured compressors: the program writes a file that it shows and that a scenario takes") {
  const support::TemporaryFolder folder;
  const std::string file = (folder.path() / "cpu.compressors.json").string();
  const support::Outcome measured =
      support::run_program({"measure", "--compressors", "--only", "top-k,fp16", "--elements", "4096,1024",
                            "--densities", "0.01,0.1", "--repetitions", "1", "-o", file});
  CHECK(measured.exit_code == 0);
  const support::Outcome shown = support::run_program({"show", file});
  CHECK(shown.exit_code == 0);
  CHECK(shown.out == measured.out);
  const auto document = nlohmann::json::parse(core::read_file(file));
  CHECK(document.at("command") ==
        "fusewise measure --compressors --only top-k,fp16 --elements 4096,1024 --densities 0.01,0.1 "
        "--repetitions 1");
  CHECK(document.at("compressors").at(0).at("curves").at(1).at("points").at(1).at("elements") == 4096);

  const std::string root = support::source_dir().string();
  const auto scenario =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": ")" + root +
                               R"(/traces/vgg16-v100.profile.json", "network": ")" + root +
                               R"(/traces/v100-10gbe.network.json", "workers": 4, "schedules": [
                    {"compression": {"name": "top-k", "density": 0.05, "costs": "cpu.compressors.json"}}]})");
  const support::Outcome simulated = support::run_program({"simulate", scenario.string()});
  CHECK(simulated.exit_code == 0);
  CHECK(simulated.err.find("compressor top-k: measured up to 16384 bytes, the last line is continued to") !=
        std::string::npos);
}

TEST_CASE("measured compressors: one line for what is wrong") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"measure", "--compressors", "--workers", "4"}, "--workers"},
      {{"measure", "--only", "top-k"}, "--compressors"},
      {{"measure", "--compressors", "--only", "topk"}, "--only: expected one of "},
      {{"measure", "--compressors", "--elements", "0"}, "--elements"},
      {{"measure", "--compressors", "--densities", "nan"}, "--densities"},
      {{"measure", "--compressors", "--repetitions", "0"}, "--repetitions"},
      {{"measure", "--compressors", "-o", ""}, "--output"},
  };
  for (const auto& [arguments, said] : wrong) {
    CAPTURE(said);
    const support::Outcome outcome = support::run_program(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.find(said) != std::string::npos);
  }
}

}  // namespace
}  // namespace profiler
