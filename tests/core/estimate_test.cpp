// Estimated profiles: the roofline of a layer computed by hand, scaling, and the accuracy for measured
// iterations.

#include "core/estimate/estimate.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "tests/support/program.hpp"

namespace core {
namespace {

core::Model load(const std::string& name) {
  const std::filesystem::path root = support::source_dir();
  return core::read_model(core::Field::load(root / "models" / (name + ".json")));
}

core::Model parse(const std::string& layers) {
  return core::read_model(core::Field::parse(
      R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 10, "dtype": "float32",
          "input": [{"name": "x", "shape": [100, 40, 25]}], "layers": [)" +
          layers + "]}",
      "m.json"));
}

// 1 TFLOP/s and 1 GB/s: 0.7e6 operations and 800 bytes in a us
constexpr Device kSlowMemory = {"slow", "slow memory", 1, 2, 2, 1};
// 1e6 GB/s
constexpr Device kFastMemory = {"fast", "fast memory", 1, 2, 2, 1e6};

TEST_CASE("estimate: a layer takes as long as its arithmetic or its traffic, and its launches") {
  const core::Model model = parse(R"({"name": "c", "kind": "conv2d", "out_channels": 50, "kernel": 1},
                                       {"name": "r", "kind": "relu"})");
  // 10 samples x 2 x 100 x 50 x 1000 = 1e8 operations; 1e6 elements in, 5e5 out, 5050 weights
  const Profile computing = estimate(model, kFastMemory);
  CHECK(computing.layers[0].forward_us == doctest::Approx(1e8 / 0.7e6 + 5));
  CHECK(computing.layers[0].backward_us == doctest::Approx(2 * (1e8 / 0.7e6 + 5)));
  CHECK(computing.layers[1].backward_us == doctest::Approx(5e5 / 0.7e6 + 5));

  const Profile moving = estimate(model, kSlowMemory);
  CHECK(moving.layers[0].forward_us == doctest::Approx(4 * (1e6 + 5e5 + 5050) / 800 + 5));
  // reads the output's gradient, the output and the input; writes two gradients and reads the weights
  CHECK(moving.layers[0].backward_us == doctest::Approx(4 * (2 * 5e5 + 2 * 1e6 + 2 * 5050) / 800 + 10));
  CHECK(moving.layers[1].forward_us == doctest::Approx(4 * (5e5 + 5e5) / 800 + 5));
  CHECK(moving.layers[1].activation_bytes == 4 * 500'000);

  const Profile half = estimate(model, kSlowMemory, {.batch_size = 20, .dtype = Dtype::float16});
  CHECK(half.layers[1].forward_us == doctest::Approx(moving.layers[1].forward_us));
  CHECK(half.batch_size == 20);
}

TEST_CASE("estimate: products in two bytes take longer where rows are no multiple of 8 elements") {
  const auto forward_us_of = [](int features, Dtype dtype) {
    const core::Model model = core::read_model(core::Field::parse(
        fmt::format(
            R"({{"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 10,
                "dtype": "float32", "input": [{{"name": "x", "shape": [100, 64]}}],
                "layers": [{{"name": "l", "kind": "linear", "out_features": {}}}]}})",
            features),
        "m.json"));
    return estimate(model, kFastMemory, {.dtype = dtype}).layers[0].forward_us - 5;
  };
  // 10 samples x 100 rows x 2 x 64 x features operations; tensor cores of 2 TFLOP/s, of which half is reached
  constexpr double kOperations = 1000.0 * 2 * 64;
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    CHECK(forward_us_of(800, dtype) == doctest::Approx(kOperations * 800 / 1e6));
    CHECK(forward_us_of(802, dtype) == doctest::Approx(kOperations * 802 / (0.22 * 2e6)));
    CHECK(forward_us_of(801, dtype) == doctest::Approx(kOperations * 801 / (0.12 * 2e6)));
  }
  CHECK(forward_us_of(801, Dtype::float32) == doctest::Approx(kOperations * 801 / 0.7e6));
}

TEST_CASE("estimate: the profile holds the model's tensors, and no layer that costs nothing") {
  const Profile profile = estimate(load("bert-base"), *device("v100"));
  CHECK(tensor_count(profile) == 206);
  CHECK(parameter_count(profile) == 110'106'428);
  CHECK(profile.layers.front().name == "bert.embeddings.word_embeddings");
  CHECK(profile.layers.front().tensors.at(0).shape == std::vector<std::int64_t>{30522, 768});
  const auto costs_nothing = [](const ProfileLayer& layer) {
    return layer.kind == "input" || layer.kind == "flatten" || layer.kind == "select" ||
           layer.forward_us <= 0;
  };
  CHECK(std::none_of(profile.layers.begin(), profile.layers.end(), costs_nothing));
  // and it is a profile: it reads back as it is
  CHECK(read_profile(core::Field::parse(profile_text(profile), "p.json")) == profile);
}

TEST_CASE("estimate: says where it comes from, and is scaled to an iteration that is known") {
  const core::Model model = load("googlenet");
  const Profile plain = estimate(model, *device("k80"));
  CHECK(plain.device == "NVIDIA Tesla K80 (one of its two GPUs)");
  CHECK(plain.origin.kind == OriginKind::estimated);
  CHECK(plain.origin.source ==
        "roofline: 70 % of 4.37 TFLOP/s (float32), 80 % of 240 GB/s, 5 us a kernel launch, batch 64; not "
        "scaled to "
        "any measurement");

  const Profile scaled = estimate(model, *device("k80"), {.compute_us = 308e3});
  CHECK(forward_us(scaled) + backward_us(scaled) == doctest::Approx(308'000));
  CHECK(scaled.layers[5].forward_us / plain.layers[5].forward_us ==
        doctest::Approx(scaled.layers[9].backward_us / plain.layers[9].backward_us));
  CHECK(scaled.origin.source.find("batch 64; scaled to 308 ms for forward and backward") !=
        std::string::npos);
}

TEST_CASE("estimate: within 20 % of what others measured") {
  const auto iteration_ms = [](const char* model, const char* gpu, std::int64_t batch_size) {
    const Profile profile = estimate(load(model), *device(gpu), {.batch_size = batch_size});
    return (forward_us(profile) + backward_us(profile)) / 1e3;
  };
  // DeAR on a 2080 Ti, from its Table II
  CHECK(iteration_ms("resnet50", "rtx2080ti", 64) == doctest::Approx(220).epsilon(0.2));
  CHECK(iteration_ms("bert-base", "rtx2080ti", 64) == doctest::Approx(280).epsilon(0.2));
  CHECK(iteration_ms("bert-large", "rtx2080ti", 32) == doctest::Approx(407).epsilon(0.2));
  // MG-WFBP on a K80: 205.334 ms backward, half of that forward
  CHECK(iteration_ms("googlenet", "k80", 64) == doctest::Approx(308).epsilon(0.2));
}

TEST_CASE("estimate: a mixture of experts computes with the chosen ones and reads all weights") {
  const core::Model model = core::read_model(core::Field::parse(
      R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 10, "dtype": "float32",
          "input": [{"name": "x", "shape": [100, 40]}, {"name": "scores", "shape": [100, 8]}],
          "layers": [{"name": "e", "kind": "experts", "experts": 8, "chosen": 2, "hidden": 50,
                      "inputs": ["x", "scores"]}]})",
      "m.json"));
  // 1000 positions x 2 experts x (3 matrices of 40 x 50, and 2 per hidden feature), and the softmax
  const double flops = 1000 * (2 * (3 * 2 * 40 * 50 + 2 * 50) + 5 * 8);
  CHECK(estimate(model, kFastMemory).layers[0].forward_us == doctest::Approx(flops / 0.7e6 + 6 * 5));
  // x and scores in, 2 copies of x, 3 hidden and 1 result of each choice written and read, all weights
  const double elements = 1000 * (40 + 8 + 2 * (2 * (2 * 40 + 3 * 50)) - 40) + 8 * 3 * 40 * 50;
  CHECK(estimate(model, kSlowMemory).layers[0].forward_us == doctest::Approx(4 * elements / 800 + 6 * 5));
}

TEST_CASE("estimate: refuses what a profile cannot hold") {
  CHECK_THROWS_AS((void)estimate(load("llama2-7b"), *device("k80"), {.batch_size = 1'000'000'000}),
                  core::InputError);
}

TEST_CASE("devices: known by name") {
  CHECK(device("v100")->full_name == "NVIDIA Tesla V100 SXM2");
  CHECK_FALSE(device("v1000").has_value());
  CHECK(peak_tflops(*device("a100"), Dtype::bfloat16) == 312);
  CHECK(peak_tflops(*device("v100"), Dtype::bfloat16) == doctest::Approx(15.7));
  for (const Device& each : devices()) {
    CAPTURE(each.name);
    CHECK(each.float32_tflops <= each.float16_tflops);
    CHECK(each.float32_tflops <= each.bfloat16_tflops);
    CHECK(each.memory_gbytes_per_s > 0);
  }
}

}  // namespace
}  // namespace core
