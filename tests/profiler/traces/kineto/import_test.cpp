// Traces of the PyTorch profiler: two real ones, without steps and NCCL, and synthetic ones with both.

#include "profiler/traces/kineto/import.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "core/host_stream.hpp"
#include "planner/scenarios/replay.hpp"
#include "profiler/traces/kineto/calls.hpp"
#include "profiler/traces/kineto/layers.hpp"
#include "profiler/traces/kineto/read_trace.hpp"
#include "profiler/traces/kineto/used_steps.hpp"
#include "profiler/traces/ranks/source_kind.hpp"
#include "tests/profiler/traces/kineto/marked_job.hpp"
#include "tests/profiler/traces/kineto/trace_text.hpp"
#include "tests/support/needs.hpp"
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

TraceText three_gradients();

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
}

TEST_CASE("kineto: a batch size that no trace holds is assumed to be 1, with a warning") {
  const Imported imported = import_text(three_gradients().as_object());
  CHECK(imported.profile.batch_size == 1);
  CHECK(imported.profile.origin.source.find("ASSUMED, as the trace holds no batch size: 1 sample") !=
        std::string::npos);
  CHECK(std::any_of(imported.warnings.begin(), imported.warnings.end(), [](const std::string& warning) {
    return warning.find("the trace holds no batch size (--batch N): 1 is assumed") == 0;
  }));
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
      CHECK(layers[i].forward_device_us == median(made.forward[i]));
      CHECK(layers[i].backward_device_us == median(made.backward[i]));
      CHECK(layers[i].forward_us == doctest::Approx(median(made.forward_with_wait(i))));
      CHECK(layers[i].backward_us == doctest::Approx(median(made.backward_with_wait(i))));
      CHECK(layers[i].backward_spread_us == doctest::Approx(spread(made.backward_with_wait(i))));
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
    CHECK(tells(imported, "5 steps, 5 with layers, 5 of them alike and used"));
    CHECK(tells(imported, "an iteration takes 20.000 ms (median of 5 steps: 0 to 4; spread 0.000)"));
    CHECK(imported.iteration_us == 20000);
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
  // one size: 10 us for one byte, and the same line beyond
  const double us = *std::min_element(made.nccl.begin(), made.nccl.end());
  REQUIRE(measured.curve.points().size() == 3);
  CHECK(measured.curve.points()[0] == std::pair<double, double>{1, 10});
  CHECK(measured.curve.points()[1] == std::pair<double, double>{1e6, us});
  CHECK(measured.curve.us(2e6) == doctest::Approx(2 * us - 10));
  CHECK(tells(imported, fmt::format("communication runs for {:.3f} ms", median(made.nccl) / 1e3)));
}

TEST_CASE("kineto: the parts of an iteration add up to its measured length") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    const TwoLayers made = two_layers(seed, 1 + static_cast<int>(seed % 7));
    const Imported imported = import_text(made.text.as_object());
    const core::Profile& profile = imported.profile;
    REQUIRE(profile.iteration.has_value());
    const core::Profile simulated = core::with_host_stream(profile);
    CHECK(std::max(forward_us(simulated) + backward_us(simulated) + profile.iteration->optimizer_us +
                       profile.iteration->other_us + imported.exposed_us,
                   core::host_bound_us(profile, 1)) ==
          doctest::Approx(imported.iteration_us).epsilon(0.03));  // sums of medians
  }
}

/// Three layers of one gradient each; the first two leave in a bucket of 900 elements, the third in one
/// of 50.
TraceText three_gradients() {
  TraceText text;
  text.range("user_annotation", 1, "ProfilerStep#0", 0, 900);
  for (int layer = 0; layer < 3; ++layer) {
    text.range("python_function", 1, fmt::format("nn.Module: Linear_{}", layer), 10 + 20 * layer, 15);
    text.range("cpu_op", 1, "aten::linear", 12 + 20 * layer, 10,
               fmt::format("\"Sequence number\": {}", layer));
    text.kernel(1, 14 + 20 * layer, "gemm", 100 + 50 * layer, 40);
    const double start = 300 + 50 * (2 - layer);
    text.range("cpu_op", 2, "autograd::engine::evaluate_function: AddmmBackward0", start, 10,
               fmt::format("\"Sequence number\": {}", layer));
    text.kernel(2, start + 1, "gemm_backward", start + 5, 30);
    text.range("cpu_op", 2, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
               start + 12, 9);
    text.range("cpu_op", 2, "torch::autograd::AccumulateGrad", start + 13, 3);
    if (layer == 2) continue;
    text.kernel(
        2, start + 18, "ncclDevKernel_AllReduce", start + 40, 30,
        fmt::format("\"Collective name\": \"allreduce\", \"In msg nelems\": {}, \"dtype\": \"Float\", "
                    "\"Group size\": 2",
                    layer == 1 ? 901 : 50));
  }
  return text;
}

std::vector<std::int64_t> elements_of(const core::Profile& profile) {
  std::vector<std::int64_t> out;
  for (const core::ProfileLayer& layer : profile.layers)
    for (const core::ProfileTensor& tensor : layer.tensors) out.push_back(tensor.elements);
  return out;
}

TEST_CASE("kineto: without shapes a bucket's elements are divided evenly among the gradients before it") {
  const Imported imported = import_text(three_gradients().as_object(), {.batch_size = 1});
  CHECK(elements_of(imported.profile) == std::vector<std::int64_t>{50, 451, 450});
  CHECK(imported.profile.origin.source.find("gradients of a bucket that was all-reduced have equal sizes") !=
        std::string::npos);
  REQUIRE(imported.warnings.size() == 1);
  REQUIRE(imported.curve_warnings.size() == 1);
  CHECK(imported.curve_warnings[0].find(
            "all_reduce on 2 workers: 2 sizes were measured, of 200 to 3604 bytes; ") == 0);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST_CASE("kineto: an all-reduce that a forward pass launches belongs to a layer, and is no bucket") {
  TraceText text = three_gradients();
  const std::vector<std::int64_t> buckets = import_text(text.as_object(), {.batch_size = 1}).buckets;
  CHECK(buckets == std::vector<std::int64_t>{901, 50});
  text.range("cpu_op", 1, "c10d::allreduce_", 70, 10, "\"Sequence number\": 2");
  text.kernel(
      1, 352, "ncclDevKernel_AllReduce", 360, 30,
      "\"Collective name\": \"allreduce\", \"In msg nelems\": 5000, \"dtype\": \"Float\", \"Group size\": 2");
  CHECK(import_text(text.as_object(), {.batch_size = 1}).buckets == buckets);
}

//         us 405          435  440       470  480         510  520
// device     [backward of 0]                                   [more of it, 10 us]
// channel                      [bucket]       [all-reduce]
TEST_CASE("kineto: an all-reduce that a backward function launches belongs to its layer, and is no bucket") {
  TraceText text = three_gradients();
  const Imported without = import_text(text.as_object(), {.batch_size = 1});
  text.kernel(
      2, 403, "ncclDevKernel_AllReduce", 480, 30,
      "\"Collective name\": \"allreduce\", \"In msg nelems\": 5000, \"dtype\": \"Float\", \"Group size\": 2");
  text.kernel(2, 404, "gemm_backward", 520, 10);
  const Imported with = import_text(text.as_object(), {.batch_size = 1});
  CHECK(with.buckets == without.buckets);
  CHECK(elements_of(with.profile) == elements_of(without.profile));
  CHECK(with.exchange_us == 30);
  const auto backward_us = [](const Imported& imported) {
    return *imported.profile.layers[0].backward_device_us;
  };
  CHECK(backward_us(with) == backward_us(without) + 30 + 10);
}

std::string with_groups(std::string text) {
  return replaced(replaced(std::move(text), "\"Group size\": 2",
                           "\"Group size\": 2, \"Process Group Name\": \"7\", \"Process Group Description\": "
                           "\"data\""),
                  "\"of\": \"layers\"", "\"Process Group Name\": \"3\"");
}

TEST_CASE("kineto: the network is that of the group that sums gradients, and others of its size are named") {
  TraceText text = three_gradients();
  text.range("cpu_op", 1, "c10d::allreduce_", 70, 10, "\"Sequence number\": 2");
  text.kernel(1, 75, "ncclDevKernel_AllReduce", 250, 4,
              "\"Collective name\": \"allreduce\", \"In msg nelems\": 901, \"dtype\": \"Float\", \"of\": "
              "\"layers\", \"Group size\" : 2");
  const Imported imported = import_text(with_groups(text.as_object()), {.batch_size = 1});
  REQUIRE(imported.network.has_value());
  REQUIRE(imported.network->measured.size() == 1);
  CHECK(imported.network->measured[0].curve.us(3604) == doctest::Approx(30));  // not 4
  REQUIRE(imported.curve_warnings.size() == 2);
  CHECK(imported.curve_warnings[1] ==
        "the network is that of process group 7 (data); --group NAME takes another: 3");
}

TEST_CASE("kineto: a step of an optimizer may run forward and backward itself") {
  for (const std::string step : {"ProfilerStep#", ""}) {
    CAPTURE(step);
    const auto imported = [&](bool has_closure) {
      const support::TemporaryFolder folder;
      return import_trace(folder.put("t.json", two_layers(3, 5, true, has_closure).text.as_object()), {},
                          step);
    };
    const Imported plain = imported(false);
    const Imported closure = imported(true);
    CHECK(profile_text(closure.profile) == profile_text(plain.profile));
    CHECK(closure.account == plain.account);
  }
}

TEST_CASE("kineto: without shapes, and with gradients that no bucket follows, all have equal sizes") {
  const std::string whole = three_gradients().as_object();
  const Imported imported =
      import_text(replaced(whole, "\"In msg nelems\": 50,", "\"In msg nelems\": 0,"), {.batch_size = 1});
  CHECK(elements_of(imported.profile) == std::vector<std::int64_t>{301, 300, 300});
  CHECK(imported.profile.origin.source.find(
            "some gradients become ready after the last all-reduce: all gradients have equal sizes") !=
        std::string::npos);
  // buckets that are scattered count as those that are reduced
  const std::string scattered =
      replaced(replaced(whole, "AllReduce", "ReduceScatter"), "allreduce", "reduce_scatter");
  CHECK(elements_of(import_text(scattered, {.batch_size = 1}).profile) ==
        std::vector<std::int64_t>{50, 451, 450});
}

TEST_CASE("kineto: without shapes sizes are taken from the model's parameters in the opposite order") {
  const Imported imported =
      import_text(three_gradients().as_object(), {.parameters = {7, 300, 20}, .batch_size = 1});
  CHECK(elements_of(imported.profile) == std::vector<std::int64_t>{7, 300, 20});
  CHECK(imported.profile.origin.source.find("opposite order of the model's parameters") != std::string::npos);
  CHECK(refusal(three_gradients().as_object(), {.parameters = {7, 300}, .batch_size = 1}) ==
        "t.json: /: expected as many gradients in a step as the model has parameters, 2, got 3");
}

TEST_CASE("kineto: DDP's copies out of its buckets belong to the update, not to a layer") {
  TraceText text = three_gradients();
  text.range("cpu_op", 2, "torch.distributed.ddp.reducer::copy_bucket_to_grad", 700, 20);
  text.range("cpu_op", 2, "aten::copy_", 702, 10);
  text.kernel(2, 704, "elementwise_kernel", 720, 11);
  const core::Profile profile =
      import_text(text.as_object(), {.parameters = {7, 300, 20}, .batch_size = 1}).profile;
  REQUIRE(profile.layers.size() == 4);
  CHECK(profile.layers[0].name == "launch of the update");
  CHECK(profile.layers[0].backward_us > 0);
  CHECK(profile.layers[0].backward_device_us == 0);
  CHECK(profile.iteration->optimizer_us == 11);
}

TEST_CASE("kineto: before PyTorch 2.2 the annotation around its launch says what a collective sends") {
  TraceText text = three_gradients();
  text.range("user_annotation", 2, "nccl:all_reduce", 800, 40,
             "\"Input Dims\": [[10, 30]], \"Input type\": [\"c10::Half\"]");
  text.kernel(2, 810, "ncclKernel_AllReduce_RING_LL_Sum_half", 850, 25);
  std::string object = text.as_object();
  object.replace(
      object.find("\"schemaVersion\": 1"), 18,
      "\"schemaVersion\": 1, \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8}");
  const Imported imported = import_text(object, {.parameters = {7, 300, 20}, .batch_size = 1});
  REQUIRE(imported.network.has_value());
  const auto eight = std::find_if(imported.network->measured.begin(), imported.network->measured.end(),
                                  [](const core::Measured& measured) { return measured.workers == 8; });
  REQUIRE(eight != imported.network->measured.end());
  CHECK(eight->curve.points().at(1) == std::pair<double, double>{600, 25});
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
  CHECK(imported.profile.layers[0].forward_device_us == median(made.forward[0]));
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
  CHECK(ranks::source_kind(packed) == ranks::SourceKind::kineto);
}

TEST_CASE("kineto: of a file that is cut off the steps before the last one with kernels are used") {
  const support::TemporaryFolder folder;
  const std::string text = two_layers(1, 5).text.as_object();
  const std::string cut = text.substr(0, text.find("ProfilerStep#4") + 900);  // amid the last step
  const std::string plain = folder.put("t.json", cut);
  const Imported imported = import_trace(plain, {});
  CHECK(tells(imported, "5 steps, 5 with layers, 4 of them alike and used"));
  REQUIRE_FALSE(imported.warnings.empty());
  CHECK(imported.warnings.front().find("the file is cut off after ") == 0);

  const std::string packed = folder / "packed.json.gz";
  gzFile file = gzopen(packed.c_str(), "wb");
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(file) == Z_OK);
  const std::string bytes = core::read_file(packed);
  const std::string amid = folder.put("cut.json.gz", bytes.substr(0, bytes.size() * 4 / 5));
  const Imported unpacked = import_trace(amid, {});
  REQUIRE_FALSE(unpacked.warnings.empty());
  CHECK(unpacked.warnings.front().find("the file is cut off after ") == 0);
}

/// The file as gzip, with `count` blanks in the place of the first '@'.
std::string packed(const support::TemporaryFolder& folder, const std::string& text, std::size_t count) {
  const std::string name = folder / "t.json.gz";
  const gzFile file = gzopen(name.c_str(), "wb1");
  const std::size_t at = text.find('@');
  REQUIRE(gzwrite(file, text.data(), static_cast<unsigned>(at)) == static_cast<int>(at));
  const std::string blanks(1U << 20U, ' ');
  for (std::size_t done = 0; done < count; done += blanks.size())
    REQUIRE(gzwrite(file, blanks.data(), static_cast<unsigned>(blanks.size())) > 0);
  REQUIRE(gzputs(file, text.c_str() + at + 1) >= 0);
  REQUIRE(gzclose(file) == Z_OK);
  return name;
}

TEST_CASE("kineto: what is much larger than its file is refused with a line") {
  constexpr std::size_t kMebi = 1U << 20U;
  const support::TemporaryFolder folder;
  const auto refused = [](const std::string& file, const std::string& message) {
    CHECK_THROWS_WITH_AS(import_trace(file, {}), (file + message).c_str(), core::InputError);
  };
  refused(packed(folder, "[\n@]", 17 * kMebi),
          ":2: expected a text, a number or blanks of at most 16 MiB, got more");
  refused(packed(folder, "[\n\"@\"]", 17 * kMebi),
          ":2: expected a text, a number or blanks of at most 16 MiB, got more");
  CHECK_THROWS_WITH_AS(import_trace(packed(folder, "[@]", 15 * kMebi), {}),
                       doctest::Contains("expected kernels of a GPU, got an empty trace"), core::InputError);
}

TEST_CASE("kineto: what no trace is compressed to is refused, whatever it holds" *
          support::needs(support::no_sanitizer)) {
  const support::TemporaryFolder folder;
  const std::string name = folder / "t.json.gz";
  const gzFile file = gzopen(name.c_str(), "wb1");
  std::string zeros;  // 1 MiB
  while (zeros.size() < (1U << 20U)) zeros += ", 0";
  REQUIRE(gzputs(file, "[\n0") > 0);
  for (int i = 0; i < 270; ++i) REQUIRE(gzputs(file, zeros.c_str()) > 0);
  REQUIRE(gzputs(file, "]") > 0);
  REQUIRE(gzclose(file) == Z_OK);
  CHECK_THROWS_WITH_AS(import_trace(name, {}),
                       (name + ":2: expected a trace that is compressed to 1/200 or more, got less").c_str(),
                       core::InputError);
}

TEST_CASE("kineto: a NUL ends no trace") {
  const std::string whole = two_layers(1, 2).text.as_object();
  CHECK(refusal(whole + std::string("\0 and more", 10)) ==
        "t.json:" + std::to_string(1 + std::count(whole.begin(), whole.end(), '\n')) +
            ": expected JSON, got a NUL character");
}

TEST_CASE("kineto: a shape longer than any tensor's is refused") {
  std::string dims = "1";
  while (dims.size() < (1U << 21U)) dims += ", 1";
  CHECK(refusal("[{\"ph\": \"X\", \"args\": {\"Input Dims\": [[" + dims + "]]}}]") ==
        "t.json:1: expected an Input Dims of at most 1 MiB, got more");
}

/// A step with calls of modules of these names, each with an operator that has no gradients.
void add_step(TraceText& text, int number, const std::vector<std::string>& modules) {
  const double at = 100'000.0 * number;
  text.range("user_annotation", 1, fmt::format("ProfilerStep#{}", number), at, 99'000);
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const double start = at + 100 * static_cast<double>(i) + 10;
    text.range("python_function", 1, "nn.Module: " + modules[i], start, 50);
    text.range("cpu_op", 1, "aten::op", start + 1, 40, "\"Sequence number\": 7, \"Input Dims\": [[2, 3]]");
    text.kernel(1, start + 2, "k", start + 3, 5);
  }
}

TEST_CASE("kineto: steps are alike where their calls are, not where their names read alike in one line") {
  // A module may be called anything, also the text that separates two calls in some notation of a step.
  for (const std::string between : {"|aten::op()nn.Module: ", "|aten::op", "aten::op", "", "\\n"}) {
    CAPTURE(between);
    TraceText text;
    add_step(text, 0, {"A", "B", "C"});
    add_step(text, 1, {"A" + between + "B", "C"});
    add_step(text, 2, {"A" + between + "B" + between + "C"});
    add_step(text, 3, {"A", "B", "C"});
    const support::TemporaryFolder folder;
    Trace trace = read_trace(folder.put("t.json", text.as_array()));
    const Calls calls = find_calls(trace, kProfilerStep);
    const UsedSteps used = choose_steps(calls, {});
    CHECK(used.steps == std::vector<std::int32_t>{0, 3});
    const Layers found = find_layers(trace, calls, used.steps);
    REQUIRE(found.layers.size() == 3);
    CHECK(found.layers[1].name == "B");
  }
}

TEST_CASE("kineto: steps are alike where each call has the same gradients") {
  // The gradients [4] and one without shapes in the first step, [4] alone in the second.
  TraceText text;
  for (int step = 0; step < 2; ++step) {
    add_step(text, step, {"A"});
    const double at = 100'000.0 * step + 1000;
    text.range("cpu_op", 2, "autograd::engine::evaluate_function: B", at, 40, "\"Sequence number\": 7");
    for (int gradient = 0; gradient < 2 - step; ++gradient) {
      const double start = at + 50 + 20 * gradient;
      text.range("cpu_op", 2, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", start,
                 15);
      text.range("cpu_op", 2, "torch::autograd::AccumulateGrad", start + 1, 12,
                 gradient == 0 ? "\"Input Dims\": [[4]]" : "");
    }
  }
  CHECK(refusal(text.as_array()).starts_with("t.json: /: expected shapes of gradients "));
}

TEST_CASE("kineto: what is no trace, or holds too little, is refused with its place") {
  const std::string whole = two_layers(1, 2).text.as_object();
  CHECK(refusal(whole.substr(0, whole.size() / 2))
            .starts_with("t.json: /: expected a whole step, got a file that is cut off after "));
  CHECK(refusal(whole.substr(0, 30)) == "t.json:1: expected JSON, got the end of the file before any event");
  CHECK(refusal("{\"traceEvents\": [\n{\"ph\": \"X\", oops}]}") ==
        "t.json:2:13: expected JSON, got '\"X\", o'");
  CHECK(refusal(whole + whole).find("expected JSON, got") != std::string::npos);
  CHECK(refusal("{}") == "t.json: /: expected an array of events or an object with traceEvents, got neither");
  const std::string empty =
      "t.json: /: expected kernels of a GPU, got an empty trace, exported before anything was recorded: call "
      "step() of torch.profiler.profile in every iteration, as often as its schedule waits, warms up and is "
      "active, and export then";
  CHECK(refusal("[]") == empty);
  CHECK(refusal("{\"traceEvents\": []}") == empty);
  CHECK(
      refusal(R"([{"name": "aten::linear", "ph": "X", "ts": 1, "dur": 2, "tid": 1, "pid": "CPU functions",
                    "args": {}}])") ==
      "t.json: /: expected kernels of a GPU, got a trace of torch.autograd.profiler without Kineto, which "
      "holds neither kernels nor what connects forward and backward; record it with torch.profiler.profile, "
      "or with fusewise.torch, which profiles jobs of builds without Kineto (docs/pytorch.md)");
  CHECK(
      refusal(R"([{"name": "cudaLaunchKernel", "cat": "cuda_runtime", "ph": "X", "ts": 1, "dur": 2, "tid": 1,
                    "pid": 1, "args": {"correlation": 5}}])") ==
      "t.json: /: expected kernels of a GPU, got none beside 1 launches: the profiler was told nothing of "
      "the GPU, as where another one uses it or the driver allows that to administrators alone");
  CHECK(refusal(R"([{"name": "aten::cudnn_convolution", "cat": "cpu_op", "ph": "X", "ts": 1, "dur": 2}])") ==
        "t.json: /: expected kernels of a GPU, got none in 1 events; a job on a GPU needs "
        "torch.profiler.ProfilerActivity.CUDA, and one on CPUs a trace with operators (docs/traces.md)");
  const std::string longest =
      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 0, \"dur\": 1.5e15}";
  CHECK(refusal("[\n" + longest + ",\n" + longest + "]") ==
        "t.json:3: expected kernels that take at most 2305843009213693 us in all, got more");
  CHECK(refusal(std::string(1000, '[')) == "t.json:1: expected nesting of at most 100, got more");
  const std::string kNoOperators =
      "t.json: /: expected operators with GPU time, got none; record operators and launches too: "
      "torch.profiler.ProfilerActivity.CPU";
  CHECK(refusal("[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 1, \"dur\": 2}]") ==
        kNoOperators);
  // an operator beside a kernel that says neither its launch nor its operator
  CHECK(
      refusal(R"([{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "ts": 1, "dur": 2, "pid": 1, "tid": 1},
                   {"ph": "X", "cat": "kernel", "name": "k", "ts": 2, "dur": 2, "args": {"correlation": 5}}])") ==
      kNoOperators);
  CHECK(refusal(whole, {.format = "kineto", .batch_size = 3}) == "taken");
  CHECK(ranks::source_kind(data("no such file")) == ranks::SourceKind::log);
}

TEST_CASE("kineto: a trace without launches says what to record") {
  nlohmann::json trace = nlohmann::json::parse(core::read_file(data("vgg13-h100-iter41.json")));
  nlohmann::json kept = nlohmann::json::array();
  for (nlohmann::json& event : trace["traceEvents"])
    if (event.value("cat", "") != "cuda_runtime") kept.push_back(std::move(event));
  trace["traceEvents"] = std::move(kept);
  CHECK(refusal(trace.dump())
            .ends_with("record operators and launches too: torch.profiler.ProfilerActivity.CPU"));
}

TEST_CASE("kineto: a network needs no layers") {
  TraceText text;
  text.kernel(1, 5, "ncclDevKernel_AllReduce_Sum_f16", 10, 70,
              "\"Collective name\": \"allreduce\", \"In msg nelems\": 500, \"dtype\": \"Half\", \"Group "
              "size\": 4");
  const support::TemporaryFolder folder;
  const std::string file = folder.put("t.json", text.as_object());
  const ImportedNetwork imported = import_network(file, {});
  REQUIRE(imported.network.measured.size() == 1);
  CHECK(imported.network.measured[0].workers == 4);
  CHECK(imported.network.measured[0].curve.points().at(1) == std::pair<double, double>{1000, 70});
  CHECK_THROWS_AS(import_trace(file, {}), core::InputError);
}

TEST_CASE("kineto: the gradients' type is that of their collectives, unless it is given") {
  TraceText text = three_gradients();
  text.kernel(
      2, 815, "ncclDevKernel_AllReduce_Sum_bf16", 880, 25,
      "\"Collective name\": \"allreduce\", \"In msg nelems\": 100000, \"dtype\": \"BFloat16\", \"Group "
      "size\": 2");
  CHECK(import_text(text.as_object()).profile.dtype == core::Dtype::bfloat16);
  CHECK(import_text(text.as_object(), {.dtype = core::Dtype::float16}).profile.dtype == core::Dtype::float16);
  CHECK(import_text(three_gradients().as_object()).profile.dtype == core::Dtype::float32);
}

TEST_CASE("kineto: a backward pass that does not say when gradients are ready is refused for that") {
  const std::string text = replaced(two_layers(1, 4).text.as_object(), "AccumulateGrad", "Accumulated");
  CHECK(refusal(text) == "taken");  // by what is all-reduced
  CHECK(refusal(replaced(text, "In msg nelems", "elements")) ==
        "t.json: /: expected AccumulateGrad operators in the backward pass, which say when each gradient is "
        "ready, got none, as in a backward pass that compiled autograd runs");
}

TEST_CASE("kineto: whole steps in CUDA graphs are named in the refusal") {
  CHECK(
      refusal(
          R"([{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 1, "dur": 2, "pid": 1, "tid": 1,
                    "args": {"correlation": 5}},
                   {"ph": "X", "cat": "kernel", "name": "k", "ts": 4, "dur": 2, "args": {"correlation": 5}}])") ==
      "t.json: /: expected operators with GPU time, got none, as whole steps run as CUDA graphs; record the "
      "trace "
      "without them");
}

TEST_CASE("kineto: record_param_comms says what is sent as a list of tensors, and the kernel of which type") {
  TraceText text = three_gradients();
  text.range("cpu_op", 2, "record_param_comms", 800, 40,
             "\"Input Dims\": [[[10, 30], [100]], [], []], \"Input type\": [\"TensorList\", \"\", \"\"]");
  text.kernel(2, 810, "ncclKernel_AllReduce_RING_LL_Sum_half", 850, 25);
  text.range("cpu_op", 2, "record_param_comms", 900, 40, "\"Input Dims\": \"((40, 5), ())\"");
  text.kernel(2, 910, "ncclKernel_AllReduce_RING_LL_Sum_float", 950, 35);
  const Imported imported = import_text(text.as_object(), {.parameters = {7, 300, 20}, .workers = 8});
  REQUIRE(imported.network.has_value());
  const auto eight = std::find_if(imported.network->measured.begin(), imported.network->measured.end(),
                                  [](const core::Measured& measured) { return measured.workers == 8; });
  REQUIRE(eight != imported.network->measured.end());
  CHECK(eight->curve.points().at(1) == std::pair<double, double>{800, 25});  // 35 us for 800 too
}

TEST_CASE("kineto: broadcasts are not counted as all-reduces without a size") {
  TraceText text = three_gradients();
  text.kernel(2, 810, "ncclDevKernel_Broadcast_RING_LL", 850, 25);
  text.kernel(2, 815, "ncclDevKernel_AllReduce_Sum_f32", 880, 25);
  const Imported imported = import_text(text.as_object(), {.parameters = {7, 300, 20}});
  CHECK(tells(
      imported,
      "4 NCCL kernels, 1 of them other than all-reduce, reduce-scatter and all-gather, 1 without a known "
      "size or group"));
}

TEST_CASE("kineto: collectives without a number of ranks, and time that belongs to no layer, are warned of") {
  const auto warns = [](const Imported& imported, const std::string& of) {
    return std::ranges::any_of(
        imported.warnings, [&](const std::string& warning) { return warning.find(of) != std::string::npos; });
  };
  const std::string text = two_layers(1, 4).text.as_object();
  const std::string ranks = "does not say how many ranks ran 4 of its collectives (--workers N)";
  const std::string lacking = "the layers lack much";
  const Imported whole = import_text(text);
  CHECK(whole.network.has_value());
  CHECK_FALSE(warns(whole, ranks));
  CHECK_FALSE(warns(whole, lacking));

  const Imported no_ranks = import_text(std::regex_replace(text, std::regex(", \"Group size\": 4"), ""));
  CHECK_FALSE(no_ranks.network.has_value());
  CHECK(warns(no_ranks, ranks));

  TwoLayers more = two_layers(1, 4);
  for (int step = 0; step < 4; ++step)
    more.text.kernel(3, 20000.0 * step + 600, "others", 20000.0 * step + 15200, 900);
  CHECK(warns(import_text(more.text.as_object()), lacking));
}

TEST_CASE("kineto: the buckets of a trace are a plan that a scenario takes") {
  const support::TemporaryFolder folder;
  const std::string trace = folder.put("t.json", three_gradients().as_object());
  const support::Outcome outcome =
      support::run_program({"import", trace, "-o", folder / "p.json", "--network", folder / "n.json",
                            "--plan", folder / "plan.json"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("with the trace's 2 buckets (--plan writes them)") != std::string::npos);
  const auto plan = nlohmann::json::parse(core::read_file(folder / "plan.json"));
  REQUIRE(plan["groups"].size() == 2);
  CHECK(plan["groups"][0]["bytes"] == 3604);
  CHECK(plan["groups"][1]["bytes"] == 200);
  const std::string scenario =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json",
    "network": "n.json", "workers": 2, "schedules": [{"pipeline": "wfbp", "fusion": {"kind": "plan",
    "file": "plan.json"}}]})");
  CHECK(support::run_program({"simulate", scenario}).exit_code == 0);
}

TEST_CASE("kineto: through the program, with a network beside the profile") {
  const support::TemporaryFolder folder;
  const std::string trace = folder.put("t.json", two_layers(1, 4).text.as_object());
  const std::string profile = (folder.path() / "p.json").string();
  const std::string network = (folder.path() / "n.json").string();
  const support::Outcome outcome =
      support::run_program({"import", trace, "--model", "two", "-o", profile, "--network", network});
  const support::Outcome no_plan =
      support::run_program({"import", trace, "-o", profile, "--plan", (folder.path() / "x.json").string()});
  CHECK(no_plan.exit_code == 2);
  CHECK(no_plan.err.find("expected all-reduces or reduce-scatters that add up to the gradients, to write a "
                         "plan of them, got others") != std::string::npos);
  // launches come every 20 ms, and the GPU does less in between
  CHECK(outcome.out.find("predicted with ddp on 4 workers: 20.000 ms, measured 20.000 ms (+0.0 %)") !=
        std::string::npos);
  CHECK(outcome.err.find(
            "all_reduce on 4 workers: collectives of one size were measured, of 1000000 to 1000000 bytes; "
            "ASSUMED for others: 10.000 us for one byte") != std::string::npos);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("4 NCCL kernels, 0 of them other than all-reduce, reduce-scatter and all-gather, 0 "
                         "without a known size or group") != std::string::npos);
  const std::string scenario =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json",
    "network": "n.json", "workers": 4, "schedules": ["wfbp", "fusewise"]})");
  CHECK(support::run_program({"simulate", scenario}).exit_code == 0);

  const support::Outcome alone = support::run_program({"import", trace, "--network", network});
  CHECK(alone.exit_code == 0);
  CHECK(alone.out.find("fusewise.profile") == std::string::npos);

  const std::string quiet = folder.put("q.json", two_layers(1, 4, false).text.as_object());
  const support::Outcome none =
      support::run_program({"import", quiet, "-o", profile, "--network", network + "2"});
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("expected collectives of known sizes and numbers of ranks (--workers N), to write a "
                      "network, got none") != std::string::npos);
}

TEST_CASE("kineto: what is predicted is what the written files give, and is told without the added waiting") {
  // 780 us, of which gradients are summed for 80; the update is launched 5 us before the end of that. The
  // shortest sum, of 20 us, ends before.
  const support::TemporaryFolder folder;
  const MarkedJob job({{.sum_us = 20}, {.sum_us = 80}, {.sum_us = 80}, {.sum_us = 80}});
  const support::Outcome outcome =
      support::run_program({"import", folder.put("t.json", job.text()), "-o", folder / "p.json", "--network",
                            folder / "n.json", "--plan", folder / "plan.json"});
  CAPTURE(outcome.out);
  CHECK(
      outcome.out.find(
          "predicted with ddp on 2 workers: 0.780 ms, measured 0.780 ms (+0.0 %), with the trace's 1 bucket "
          "(--plan writes them); 0.005 ms that were missing are taken for waiting for slower workers, "
          "without which it is 0.775 ms (-0.6 %)") != std::string::npos);
  CHECK(outcome.out.find("an iteration takes 0.780 ms (median of 4 steps: 3 to 6; spread ") !=
        std::string::npos);
  const std::string scenario =
      folder.put("s.json", R"({"format": "fusewise.scenario", "version": 1, "profile": "p.json",
    "network": "n.json", "workers": 2, "schedules": [{"pipeline": "wfbp", "fusion": {"kind": "plan",
    "file": "plan.json"}}]})");
  const support::Outcome simulated = support::run_program({"simulate", scenario, "--json"});
  REQUIRE(simulated.exit_code == 0);
  const auto results = nlohmann::json::parse(simulated.out)["results"];
  REQUIRE(results.size() == 1);
  CHECK(results[0]["iteration_us"].get<double>() == doctest::Approx(780));
}

TEST_CASE("kineto: kernels that several processes launch are warned of, as their ranks are added up") {
  const support::TemporaryFolder folder;
  const auto warnings = [&](bool has_other_process) {
    nlohmann::json trace = nlohmann::json::parse(two_layers(3, 5).text.as_object());
    if (has_other_process) {
      nlohmann::json& events = trace["traceEvents"];
      const auto launch = std::find_if(events.rbegin(), events.rend(), [](const nlohmann::json& event) {
        return event["name"] == "cudaLaunchKernel";
      });
      (*launch)["pid"] = 6;
    }
    return import_trace(folder.put("t.json", trace.dump()), {.batch_size = 1}).warnings;
  };
  const auto says = [](const std::string& warning) {
    return warning.starts_with("several processes launch kernels");
  };
  CHECK(std::ranges::none_of(warnings(false), says));
  CHECK(std::ranges::count_if(warnings(true), says) == 1);
}

TEST_CASE("kineto: transfers behind a measured wait are added to it, but nothing where nobody waited") {
  // The job of the test before; 5 us of its 780 are not predicted without waiting.
  const support::TemporaryFolder folder;
  const MarkedJob job({{.sum_us = 20}, {.sum_us = 80}, {.sum_us = 80}, {.sum_us = 80}});
  const Imported imported = import_trace(folder.put("t.json", job.text()), {});
  const auto replayed = [&](std::optional<double> waiting_us) {
    core::Profile profile = imported.profile;
    const scenarios::Replay out = scenarios::replay(profile, imported.network,
                                                    {.iteration_us = imported.iteration_us,
                                                     .exposed_us = imported.exposed_us,
                                                     .buckets = imported.buckets,
                                                     .waiting_us = waiting_us});
    CHECK(profile.iteration->waiting_us == doctest::Approx(waiting_us.value_or(0) + out.added_waiting_us));
    return out;
  };
  CHECK(replayed(2).predicted_us == doctest::Approx(777));
  CHECK(replayed(2).added_waiting_us == doctest::Approx(3));
  CHECK(replayed(2).iteration_us == doctest::Approx(780));
  CHECK(replayed(0).iteration_us == doctest::Approx(775));
  CHECK(replayed(0).added_waiting_us == 0);
  CHECK(replayed({}).added_waiting_us == doctest::Approx(5));
}

}  // namespace
}  // namespace kineto
