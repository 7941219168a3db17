// Measured compressors: the recorded data, through the library and the program. No time is compared.

#include "profiler/measure/compressors/measure.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "collectives/compression/compressor.hpp"
#include "core/files.hpp"
#include "profiler/common/host.hpp"
#include "profiler/measure/compressors/cuda.hpp"
#include "tests/collectives/compression/cuda/host_lanes.hpp"
#include "tests/support/cuda_device.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/needs.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace profiler {
namespace {

/// Checks what a backend measures and writes; times are not compared, as the host's lanes have none.
void check_all_measured(const CompressorBackend& backend, const std::string& device, bool has_times) {
  const CompressorOptions options = {.elements = {1000, 4000}, .densities = {0.01, 0.1}, .samples = 3};
  std::vector<std::string> told;
  std::size_t all = 0;
  const core::CompressorCosts costs =
      measure_compressors(backend, options, "command", [&](std::size_t total, const std::string& what) {
        told.push_back(what);
        CHECK(told.size() <= total);
        all = total;
      });
  CHECK(told.size() == all);
  CHECK(costs.device == device);
  CHECK(costs.origin.source.rfind(
            "backend " + std::string(backend.name) + " on " + device + ": medians of 3 ", 0) == 0);
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
        CHECK((point.encode.us > 0) == has_times);
        CHECK((point.decode.us > 0) == has_times);
      }
    }
  }
  CHECK(told.size() == curves);
  CHECK(core::read_compressor_costs(core::Field::parse(compressor_costs_text(costs), "c")) == costs);
}

TEST_CASE("measured compressors: all of them on the CPU, at each density where they leave elements out") {
  check_all_measured(compressor_backends().front(), processor_name(), true);
}

/// The GPU's kernels, run on the host.
CompressorBackend cuda_on_host() {
  CompressorBackend out = cuda_compressors();
  out.open = [](std::size_t max, std::uint64_t seed) {
    return cuda_compressor_device(compression::cuda::Device(support::host_engine(1)), max, seed);
  };
  return out;
}

TEST_CASE("measured compressors: all of them by CUDA's kernels, here on the host") {
  check_all_measured(cuda_on_host(), "host", false);
}

TEST_CASE(
    "measured compressors: a backend measures the compressors that it implements, and the bytes agree") {
  CompressorBackend few = cuda_on_host();
  few.compressors = [] { return std::vector<std::string_view>{"onebit", "top-k"}; };
  const CompressorOptions options = {.elements = {5000}, .densities = {0.01}, .samples = 2};
  const core::CompressorCosts costs = measure_compressors(few, options, "command");
  REQUIRE(costs.compressors.size() == 2);
  CHECK(costs.compressors[0].name == "top-k");
  CHECK(costs.compressors[0].curves[0].points[0].bytes == 8 * 50);
  CHECK(costs.compressors[1].name == "onebit");
  CHECK(costs.compressors[1].curves[0].points[0].bytes == 8 + 625);
}

TEST_CASE("measured compressors: the names of a CUDA device are those that it encodes") {
  compression::cuda::Device device(support::host_engine(1));
  const std::vector<std::string_view> names = compression::cuda::compressor_names();
  const std::vector<float> x(100, 1);
  for (const compression::Compressor& compressor : compression::compressors()) {
    CAPTURE(compressor.name);
    bool is_encoded = true;
    compression::State state;
    try {
      (void)compression::cuda::encode(device, compressor.name, x, state);
    } catch (const std::invalid_argument&) {
      is_encoded = false;
    }
    CHECK(is_encoded == (std::ranges::find(names, compressor.name) != names.end()));
  }
}

TEST_CASE("measured compressors: without a GPU --backend cuda says so in one line, exit 1") {
  const support::Environment none("CUDA_VISIBLE_DEVICES", "-1");
  const support::TemporaryFolder folder;
  const std::string file = folder / "never-written.json";
  const support::Outcome outcome = support::run_program(
      {"measure", "--compressors", "--backend", "cuda", "--elements", "1024", "-o", file});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.rfind("no CUDA device: ", 0) == 0);
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("measured compressors: a GPU's costs are measured and shown, and name the GPU and the backend" *
          support::needs(support::no_cuda_device)) {
  const support::TemporaryFolder folder;
  const std::string file = folder / "gpu.compressors.json";
  const support::Outcome measured = support::run_program(
      {"measure", "--compressors", "--backend", "cuda", "--only", "top-k,onebit", "--elements", "1024,65536",
       "--densities", "0.01", "--repetitions", "2", "-o", file});
  CAPTURE(measured.err);
  REQUIRE(measured.exit_code == 0);
  CHECK(support::run_program({"show", file}).out == measured.out);
  const auto document = nlohmann::json::parse(core::read_file(file));
  const std::string device = document.at("device");
  CHECK(document.at("origin").at("source").get<std::string>().find("backend cuda on " + device) == 0);
  CHECK(document.at("compressors").size() == 2);
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
      {{"measure", "--compressors", "--only", "topk"}, "--only: expected one of top-k, mstopk, dgc, "},
      {{"measure", "--compressors", "--backend", "cuda", "--only", "topk"},
       "fp16, bf16 with --backend cuda, got 'topk', did you mean 'top-k'?"},
      {{"measure", "--compressors", "--backend", "nccl"},
       "--backend: expected one of cpu, cuda with --compressors, got 'nccl'"},
      {{"measure", "--backend", "cuda", "--workers", "2"},
       "--backend: expected one of tcp, nccl, got 'cuda'"},
      {{"measure", "--compressors", "--elements", "0"}, "--elements"},
      {{"measure", "--compressors", "--densities", "nan"}, "--densities"},
      {{"measure", "--compressors", "--repetitions", "0"}, "--repetitions"},
      {{"measure", "--compressors", "-o", ""}, "--output"},
  };
  for (const auto& [arguments, said] : wrong) {
    const auto& the_said = said;  // clang 14 cannot capture a structured binding
    CAPTURE(the_said);
    const support::Outcome outcome = support::run_program(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.find(said) != std::string::npos);
  }
}

}  // namespace
}  // namespace profiler
