// fusewise profile as a user runs it: a file that can be simulated, and one line where that cannot be.

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using nlohmann::json;
using support::Outcome;
using support::run_program;

const char* const kModel =
    R"({"format": "fusewise.model", "version": 1, "name": "tiny", "about": "", "batch_size": 2,
  "dtype": "float32", "input": [{"name": "x", "shape": [3, 8, 8]}],
  "layers": [{"name": "conv", "kind": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
             {"name": "flat", "kind": "flatten"}, {"name": "fc", "kind": "linear", "out_features": 10},
             {"name": "loss", "kind": "cross_entropy"}]})";

struct Tiny {
  support::TemporaryFolder folder;
  std::string model = folder.put("tiny.json", kModel).string();
  std::string output = (folder.path() / "tiny.profile.json").string();

  Outcome profile(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"profile",       model, "--backend", "cpu",
                                          "--repetitions", "3",   "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
};

TEST_CASE("profile: writes layers with times, spreads and tensors, which simulate gives an interval for") {
  const Tiny tiny;
  const Outcome outcome = tiny.profile({"--batch-size", "5", "-o", tiny.output});
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("profile tiny on ") == 0);
  CHECK(outcome.out.find("whole iteration ") != std::string::npos);
  CHECK(outcome.err.find('[') == std::string::npos);  // no progress bar: not a terminal
  json profile = json::parse(core::read_file(tiny.output));
  CHECK(profile.at("batch_size") == 5);
  CHECK(profile.at("origin").at("kind") == "measured");
  REQUIRE(profile.at("layers").size() == 3);
  for (const json& layer : profile.at("layers")) {
    CHECK(layer.at("forward_us") > 0);
    CHECK(layer.contains("backward_spread_us"));
  }
  CHECK(profile.at("layers").at(1).at("tensors").at(0).at("elements") == 10 * 4 * 8 * 8);

  profile.at("layers").at(1)["forward_spread_us"] = 5;  // three repetitions may all take as long
  (void)tiny.folder.put("tiny.profile.json", profile.dump());
  const std::string scenario = tiny.folder
                                   .put("s.json", R"({"format": "fusewise.scenario", "version": 1,
    "profile": "tiny.profile.json", "workers": [2], "schedules": ["wfbp"],
    "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": ""},
                "link": {"alpha_us": 1, "beta_us_per_byte": 0.001}}})")
                                   .string();
  const json entry = json::parse(run_program({"simulate", scenario, "--json"}).out).at("results").at(0);
  CHECK(entry.at("interval").at("low_us") < entry.at("interval").at("high_us"));
  CHECK(entry.at("interval").at("share") == 0.95);
  CHECK(run_program({"simulate", scenario}).out.find("95 % interval ms") != std::string::npos);
  CHECK(run_program({"simulate", scenario, "--csv"}).out.find(",iteration_low_us,iteration_high_us\n") !=
        std::string::npos);
}

TEST_CASE("profile: images and batches of another size than the model's") {
  const Tiny tiny;
  const Outcome outcome = tiny.profile({"--input-size", "4"});
  REQUIRE(outcome.exit_code == 0);
  const json profile = json::parse(outcome.out);
  CHECK(profile.at("batch_size") == 2);
  CHECK(profile.at("layers").at(1).at("tensors").at(0).at("elements") == 10 * 4 * 4 * 4);
}

TEST_CASE(
    "profile: without a GPU the CUDA backend says so, and memory that is not there is asked for in vain") {
  const Tiny tiny;
  const Outcome cuda = run_program({"profile", tiny.model, "-o", tiny.output});
  CHECK(cuda.exit_code == 1);
  CHECK(cuda.out.empty());
  CHECK(cuda.err.find("no CUDA device: ") == 0);
  const Outcome memory = tiny.profile({"--batch-size", "1000000", "--memory-mb", "1", "-o", tiny.output});
  CHECK(memory.exit_code == 1);
  CHECK(memory.out.empty());
  CHECK(memory.err.find("tiny: a batch of 1000000 needs ") == 0);
  CHECK(memory.err.find("; the largest batch that fits is ") != std::string::npos);
  CHECK(!std::filesystem::exists(tiny.output));
}

TEST_CASE("names of backends, compressors and formats may be written in any case") {
  const Tiny tiny;
  CHECK(run_program({"profile", tiny.model, "--backend", "CPU", "--repetitions", "1"}).exit_code == 0);
  const Outcome costs = run_program({"measure", "--compressors", "--backend", "Cpu", "--only", "FP16",
                                     "--elements", "1000", "--repetitions", "1"});
  CHECK(json::parse(costs.out).at("compressors").at(0).at("name") == "fp16");
  CHECK(run_program({"schema", "Network"}).out == run_program({"schema", "network"}).out);
}

TEST_CASE("profile: wrong usage and input are one line, and nothing is written") {
  const Tiny tiny;
  struct Example {
    std::vector<std::string> more;
    std::string message;
  };
  const Example examples[] = {
      {{"--dtype", "float16"}, "--dtype: expected float32 with --backend cpu, got 'float16'\n"},
      {{"--tf32"}, "--tf32: expected --backend cuda, got cpu\n"},
      {{"--verify"}, "--verify: expected --backend cuda, got cpu, with which the others are compared\n"},
      {{"-o", tiny.model}, "--output: expected a file of its own, got the input " + tiny.model + "\n"},
      {{"--sequence-length", "5"},
       tiny.model + ": /: expected a model with a sequence_length, got one without\n"},
  };
  for (const Example& example : examples) {
    const Outcome outcome = tiny.profile(example.more);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == example.message);
  }
  CHECK(run_program({"profile", tiny.model, "--backend", "cudda"}).err ==
        "--backend: expected one of cpu, cuda, got 'cudda', did you mean 'cuda'? (try --help)\n");
  CHECK(run_program({"profile", "models/gpt2.json", "--backend", "cpu", "--input-size", "5"}).err ==
        "models/gpt2.json: /input: expected an input of images, as an input size was asked for, got none\n");
  CHECK(core::read_file(tiny.model) == kModel);
}

}  // namespace
