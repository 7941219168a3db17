// Traces of the PyTorch profiler: two real ones, without steps and NCCL, and synthetic ones with both.

#include "profiler/traces/kineto/import.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "profiler/traces/kineto/layers.hpp"
#include "profiler/traces/kineto/read_trace.hpp"
#include "tests/profiler/traces/kineto/trace_text.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace kineto {
namespace {

std::string data(const std::string& name) {
  return (support::source_dir() / "tests" / "data" / "kineto" / name).string();
}

bool tells(const Imported& imported, const std::string& words) {
  return std::any_of(imported.account.begin(), imported.account.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

Imported import_text(const std::string& text, const traces::ImportOptions& options = {}) {
  const support::TemporaryFolder folder;
  return import_trace(folder.put("t.json", text), options);
}

/// The message, without the folder.
std::string refusal(const std::string& text, const traces::ImportOptions& options = {}) {
  const support::TemporaryFolder folder;
  const std::string file = folder.put("t.json", text);
  try {
    (void)import_trace(file, options);
  } catch (const core::InputError& error) {
    std::string message = error.what();
    const std::size_t at = message.find(file);
    return at == std::string::npos ? message : message.replace(at, file.size(), "t.json");
  }
  return "taken";
}

// ---- real traces

TEST_CASE("kineto: VGG13 on an H100, every layer with its parameters, nearly all GPU time attributed") {
  const Imported imported = import_trace(data("vgg13-h100-iter41.json"), {});
  const core::Profile& profile = imported.profile;
  CHECK(profile.layers.size() == 34);
  CHECK(profile.batch_size == 512);
  CHECK(parameter_count(profile) == 133'047'848);  // of VGG13
  CHECK(tensor_count(profile) == 26);
  CHECK(profile.device == "NVIDIA H100 80GB HBM3");
  CHECK(profile.layers.front().name == "Conv2d_0");
  CHECK(profile.layers.front().tensors.size() == 2);
  CHECK(forward_us(profile) > 50'000);
  CHECK(backward_us(profile) > forward_us(profile));
  CHECK(tells(imported, "100.00 % of it attributed"));
  CHECK(tells(imported, "forward 31.79 %, backward 67.19 %, optimizer 1.03 %"));
  CHECK(tells(imported, "no step markers"));
  CHECK(tells(imported, "no NCCL kernels"));
  CHECK_FALSE(imported.network.has_value());
}

TEST_CASE("kineto: AlexNet on an A100, without shapes and backward, says what it assumes") {
  const Imported imported = import_trace(data("alexnet-hta.json"), {.batch_size = 128},
                                         "[param|pytorch.model.alex_net|0|0|0|measure|forward]");
  CHECK(imported.profile.layers.size() == 21);
  CHECK(parameter_count(imported.profile) == 61'100'840);  // of AlexNet
  CHECK(imported.warnings.size() == 2);
  CHECK(imported.profile.origin.source.find("ASSUMED, as the trace holds no shapes") != std::string::npos);
  CHECK(imported.profile.origin.source.find("ASSUMED, as the trace holds no backward pass") !=
        std::string::npos);
  CHECK_THROWS_AS(import_trace(data("alexnet-hta.json"), {}), core::InputError);  // no batch size
}

// ---- made traces

TEST_CASE("kineto: medians and spread over steps, gradients in the order they got ready, both forms alike") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const TwoLayers made = two_layers(seed, 5);
    const Imported imported = import_text(made.text.as_object());
    const std::vector<core::ProfileLayer>& layers = imported.profile.layers;
    REQUIRE(layers.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(layers[i].name == fmt::format("Linear_{}", i));
      CHECK(layers[i].kind == "linear");
      CHECK(layers[i].forward_us == median(made.forward[i]));
      CHECK(layers[i].backward_us == median(made.backward[i]));
      CHECK(layers[i].backward_spread_us == spread(made.backward[i]));
      REQUIRE(layers[i].tensors.size() == 2);
      CHECK(layers[i].tensors[0].name == layers[i].name + ".weight");  // was ready last
      CHECK(layers[i].tensors[0].elements == 32);
      CHECK(layers[i].tensors[1].elements == 4);
      CHECK(layers[i].tensors[1].backward_us == layers[i].backward_us);
    }
    CHECK(imported.profile.batch_size == 16);
    CHECK(imported.profile.device == "NVIDIA H100");
    CHECK(profile_text(import_text(made.text.as_array(), {.device = "NVIDIA H100"}).profile) ==
          profile_text(imported.profile));
    CHECK(tells(imported, "5 steps, 5 with layers, 5 of them alike and used; iteration 20.000 ms"));
    CHECK(tells(imported, "100.00 % of it attributed"));
  }
}

TEST_CASE("kineto: NCCL kernels become a measurement, and what nothing hid is told") {
  const TwoLayers made = two_layers(7, 5);
  const Imported imported = import_text(made.text.as_object());
  REQUIRE(imported.network.has_value());
  REQUIRE(imported.network->measured.size() == 1);
  const core::Measured& measured = imported.network->measured[0];
  CHECK(measured.collective == core::CollectiveKind::all_reduce);
  CHECK(measured.workers == 4);
  CHECK(measured.curve.points() ==
        std::vector<std::pair<double, double>>{{1e6, *std::min_element(made.nccl.begin(), made.nccl.end())}});
  std::vector<double> exposed;
  for (std::size_t i = 0; i < made.nccl.size(); ++i)  // both begin at 7000
    exposed.push_back(std::max(0.0, made.nccl[i] - made.backward[0][i]) / 1e3);
  CHECK(tells(imported, fmt::format("communication takes {:.3f} ms, {:.3f} ms of it exposed",
                                    median(made.nccl) / 1e3, median(exposed))));
}

TEST_CASE("kineto: steps that differ from most are left out, work outside of all steps too") {
  TwoLayers made = two_layers(3, 5);
  const double at = 20000.0 * 5;
  made.text.range("user_annotation", 1, "ProfilerStep#5", at, 19000);
  made.text.range("cpu_op", 1, "aten::linear", at + 10, 70, "\"Sequence number\": 90");
  made.text.kernel(1, at + 20, "gemm", at + 100, 9999);
  made.text.range("cpu_op", 1, "aten::linear", at + 30000, 70, "\"Sequence number\": 91");
  made.text.kernel(1, at + 30020, "gemm", at + 30100, 9999);
  const Imported imported = import_text(made.text.as_object());
  CHECK(imported.profile.layers.size() == 2);
  CHECK(imported.profile.layers[0].forward_us == median(made.forward[0]));
  CHECK(tells(imported, "6 steps, 6 with layers, 5 of them alike and used"));
  CHECK(tells(imported, "most of what is not attributed: gemm, 9.999 ms"));
}

TEST_CASE("kineto: gzip is read as what it holds") {
  const support::TemporaryFolder folder;
  const std::string text = two_layers(1, 3).text.as_object();
  const std::string plain = folder.put("t.json", text);
  const std::string packed = plain + ".gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(file) == Z_OK);
  const std::string profile = profile_text(import_trace(plain, {.model = "m"}).profile);
  std::string unpacked = profile_text(import_trace(packed, {.model = "m"}).profile);
  const std::size_t name = unpacked.find("t.json.gz");
  REQUIRE(name != std::string::npos);
  CHECK(unpacked.erase(name + 6, 3) == profile);
  CHECK(looks_like_trace(packed));

  const std::string bytes = core::read_file(packed);
  const std::string cut = folder.put("cut.json.gz", bytes.substr(0, bytes.size() / 2));
  CHECK_THROWS_WITH_AS(
      import_trace(cut, {}),
      (cut + ": expected gzip data to the end, got a file that is damaged or cut off (unexpected end)")
          .c_str(),
      core::InputError);
}

TEST_CASE("kineto: what is no trace, or holds too little, is refused with its place") {
  const std::string whole = two_layers(1, 2).text.as_object();
  CHECK(refusal(whole.substr(0, whole.size() / 2)).find("expected JSON, got the end of the file") !=
        std::string::npos);
  CHECK(refusal("{\"traceEvents\": [\n{\"ph\": \"X\", oops}]}") ==
        "t.json:2:13: expected JSON, got '\"X\", o'");
  CHECK(refusal(whole + whole).find("expected JSON, got") != std::string::npos);
  CHECK(refusal("{}") == "t.json: expected an array of events or an object with traceEvents, got neither");
  CHECK(refusal("[]") == "t.json: expected kernels of a GPU, got none in 0 events");
  CHECK(refusal("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"dur\": 1}]") ==
        "t.json:1: expected an event with a time (ts), got one without: k");
  CHECK(refusal("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1, \"dur\": -2}]") ==
        "t.json:1: expected an event that lasts 0 us or longer, got k");
  CHECK(refusal("[\n{\"ts\": 1e300}]") == "t.json:2: expected a time in us, got 1e300");
  const std::string longest =
      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 0, \"dur\": 1.5e15}";
  CHECK(refusal("[\n" + longest + ",\n" + longest + "]") ==
        "t.json:3: expected kernels that take at most 2305843009213693 us in all, got more");
  CHECK(refusal(std::string(1000, '[')) == "t.json:1: expected nesting of at most 100, got more");
  CHECK(refusal("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1, \"dur\": 2}]") ==
        "t.json: expected operators with GPU time, got none");
  CHECK(refusal(whole, {.format = "kineto", .batch_size = 3}) == "taken");
  CHECK_FALSE(looks_like_trace(data("no such file")));
}

TEST_CASE("kineto: through the program, with a network beside the profile") {
  const support::TemporaryFolder folder;
  const std::string trace = folder.put("t.json", two_layers(1, 4).text.as_object());
  const std::string profile = (folder.path() / "p.json").string();
  const std::string network = (folder.path() / "n.json").string();
  const support::Outcome outcome =
      support::run_program({"import", trace, "--model", "two", "-o", profile, "--network", network});
  CHECK(outcome.err == "");
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("4 NCCL kernels, 0 without a known size") != std::string::npos);
  const std::string scenario =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json",
    "network": "n.json", "workers": 4, "schedules": ["wfbp", "fusewise"]})");
  CHECK(support::run_program({"simulate", scenario}).exit_code == 0);

  const std::string quiet = folder.put("q.json", two_layers(1, 4, false).text.as_object());
  const support::Outcome none =
      support::run_program({"import", quiet, "-o", profile, "--network", network + "2"});
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("expected NCCL kernels of known sizes, to write a network, got none") !=
        std::string::npos);
}

}  // namespace
}  // namespace kineto
