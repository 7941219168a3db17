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

core::Model parse(const std::string& layers, const std::string& input = "100, 40, 25") {
  return core::read_model(core::Field::parse(
      fmt::format(
          R"({{"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 10, "dtype": "float32",
              "input": [{{"name": "x", "shape": [{}]}}], "layers": [{}]}})",
          input, layers),
      "m.json"));
}

// Slow memory: 1 GB/s, so 800 bytes in a us, or 550 where kernels make sums. Fast memory: 1e6 GB/s. Both
// compute 1 TFLOP/s in float32, 0.7e6 operations in a us, and 4 on tensor cores, 2.4e6, with one
// multiprocessor.
constexpr Device kSlowMemory = {"slow", "slow memory", 1, 4, 4, 4, 1, 1, 2};
constexpr Device kFastMemory = {"fast", "fast memory", 1, 4, 4, 4, 1e6, 1, 2};

void check_times(const ProfileLayer& layer, double forward_us, double backward_us) {
  CAPTURE(layer.name);
  CHECK(layer.forward_us == doctest::Approx(forward_us));
  CHECK(layer.backward_us == doctest::Approx(backward_us));
}

TEST_CASE("estimate: a convolution in float32 takes its products or its traffic, and its launches") {
  // The first layer's input has no gradient.
  const core::Model model = parse(R"({"name": "c", "kind": "conv2d", "out_channels": 64, "kernel": 1},
               {"name": "d", "kind": "conv2d", "out_channels": 128, "kernel": 3, "padding": 1},
               {"name": "e", "kind": "conv2d", "out_channels": 100, "kernel": 3, "stride": 2, "padding": 1, "bias": false})",
                                  "128, 40, 24");
  // 9,600 positions. c: 150 x 1 tiles of 64 x 64 results, two at a time
  const Profile computing = estimate(model, kFastMemory);
  const double c = 2.0 * 9600 * 64 * 128 / 0.7e6;
  CHECK(computing.layers[0].forward_us == doctest::Approx(c + 5));
  CHECK(computing.layers[0].backward_us == doctest::Approx(c + 5 + 5).epsilon(1e-4));  // the bias: 2.5 MB
  // d: by Winograd, both gradients; its own bias
  const double d = 2.0 * 9600 * 128 * (64 * 9) / (2.25 * 0.7e6);
  CHECK(computing.layers[1].forward_us == doctest::Approx(d + 5));
  CHECK(computing.layers[1].backward_us == doctest::Approx(2 * (d + 5) + 5).epsilon(1e-4));
  // e: 2,400 positions, filled up to 38 x 2 tiles forward, 38 x 2 for the input and 2 x 18 for the weights
  const double e = 2.0 * (38 * 64) * 128 * (128 * 9) / 0.7e6;
  CHECK(computing.layers[2].forward_us == doctest::Approx(e + 5));
  CHECK(computing.layers[2].backward_us == doctest::Approx(2.0 * (38 * 64) * 128 * (100 * 9) / 0.7e6 + 5 +
                                                           2.0 * 128 * (128 * 9) * 2400 / 0.7e6 + 5));
  // Where shared memory has 1 byte for each multiply-add, both operands take twice as long.
  Device hopper = kFastMemory;
  hopper.shared_bytes = 1;
  CHECK(estimate(model, hopper).layers[0].forward_us == doctest::Approx(2 * c + 5));

  const Profile moving = estimate(model, kSlowMemory);
  const double moved = 1'228'800 + 614'400 + (64 * 128 + 64);  // in, out, weights
  check_times(moving.layers[0], 4 * moved / 800 + 5, 4 * moved / 800 + 5 + (4 * 614'400.0 / 550 + 5));
  CHECK(moving.layers[0].activation_bytes == 4 * 614'400);
}

TEST_CASE("estimate: a wave of tiles takes as long as a whole one") {
  const core::Model model = parse(
      R"({"name": "c", "kind": "conv2d", "out_channels": 64, "kernel": 1, "bias": false})", "128, 40, 24");
  Device device = kFastMemory;
  device.multiprocessors = 50;  // 75 tiles of 128 x 64 results are two waves, of 100
  CHECK(estimate(model, device).layers[0].forward_us ==
        doctest::Approx(2.0 * (100 * 128 * 64) * 128 / 0.7e6 + 5));
  // The sums of the weights' gradients are divided between multiprocessors.
  CHECK(estimate(model, device).layers[0].backward_us == doctest::Approx(2.0 * 9600 * 64 * 128 / 0.7e6 + 5));
}

TEST_CASE("estimate: up to 8 rows are multiplied as vectors, more fill tiles") {
  const core::Model model =
      parse(R"({"name": "l", "kind": "linear", "out_features": 128, "bias": false})", "64");
  const auto forward_us = [&](std::int64_t batch) {
    return estimate(model, kFastMemory, {.batch_size = batch}).layers[0].forward_us;
  };
  CHECK(forward_us(1) == doctest::Approx(2.0 * 1 * 128 * 64 / 0.7e6 + 5));
  CHECK(forward_us(8) == doctest::Approx(2.0 * 8 * 128 * 64 / 0.7e6 + 5));
  CHECK(forward_us(9) == doctest::Approx(2.0 * 64 * 128 * 64 / 0.7e6 + 5));
}

TEST_CASE("estimate: on tensor cores images are transposed, but for steps of one pixel that lie well") {
  const core::Model model =
      parse(R"({"name": "a", "kind": "conv2d", "out_channels": 64, "kernel": 1, "bias": false},
               {"name": "b", "kind": "conv2d", "out_channels": 64, "kernel": 3, "padding": 1, "bias": false},
               {"name": "c", "kind": "conv2d", "out_channels": 60, "kernel": 1, "bias": false})",
            "64, 40, 24");
  // 614,400 elements of two bytes; transposing reads and writes input and output, in two kernels
  const double images = 2 * 614'400.0;
  const double transposing = 2 * 2 * images / 800 + 2 * 5;
  const Profile half = estimate(model, kSlowMemory, {.dtype = Dtype::float16});
  const double a = 2 * (images + 64 * 64) / 800 + 5;
  check_times(half.layers[0], a, a + transposing);
  const double b = 2 * (images + 64 * 64 * 9) / 800 + 5;
  check_times(half.layers[1], b + transposing, 2 * (b + transposing));
  // 60 channels are no multiple of 16 bytes: on float32's lanes, with nothing to turn around
  const double c = 2 * (614'400.0 + 576'000 + 64 * 60) / 800 + 5;
  check_times(half.layers[2], c, 2 * c);

  const Profile fast = estimate(model, kFastMemory, {.dtype = Dtype::bfloat16});
  const double product = 2.0 * 9600 * 64 * (64 * 9) / 2.4e6;
  CHECK(fast.layers[1].forward_us == doctest::Approx(product + 3 * 5).epsilon(1e-4));
  // the gradient of the weights at half the rate
  CHECK(fast.layers[1].backward_us == doctest::Approx(3 * product + 6 * 5).epsilon(1e-4));
  CHECK(fast.layers[2].forward_us == doctest::Approx(2.0 * 9600 * 64 * 64 / 0.7e6 + 5));
}

TEST_CASE("estimate: products on tensor cores take longer where rows are no multiple of 16 bytes") {
  const auto times_of = [](int features, Dtype dtype, bool tf32) {
    const core::Model model = parse(
        fmt::format(R"({{"name": "l", "kind": "linear", "out_features": {}, "bias": false}})", features),
        "128, 64");
    return estimate(model, kFastMemory, {.dtype = dtype, .tf32 = tf32}).layers[0];
  };
  // 10 samples x 128 rows x 2 x 64 x features operations, of which 64 are computed at a time
  const auto operations = [](double features) { return 1280.0 * 2 * 64 * features; };
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    check_times(times_of(832, dtype, false), operations(832) / 2.4e6 + 5, operations(832) / 2.4e6 + 5);
    CHECK(times_of(802, dtype, false).forward_us == doctest::Approx(operations(832) / (0.22 * 4e6) + 5));
    CHECK(times_of(801, dtype, false).forward_us == doctest::Approx(operations(832) / (0.12 * 4e6) + 5));
  }
  check_times(times_of(832, Dtype::float32, false), operations(832) / 0.7e6 + 5, operations(832) / 0.7e6 + 5);
  // TF32's gradients of weights have operands that lie across the sum.
  check_times(times_of(832, Dtype::float32, true), operations(832) / 2.4e6 + 5, operations(832) / 1.2e6 + 5);
  CHECK(times_of(801, Dtype::float32, true).forward_us ==
        doctest::Approx(operations(832) / (0.22 * 4e6) + 5));
}

TEST_CASE("estimate: other layers read and write as often as their kernels do") {
  const core::Model model = parse(R"({"name": "c", "kind": "conv2d", "out_channels": 10, "kernel": 1},
                                     {"name": "b", "kind": "batch_norm"},
                                     {"name": "r", "kind": "relu"},
                                     {"name": "d", "kind": "dropout"},
                                     {"name": "p", "kind": "max_pool", "kernel": 2},
                                     {"name": "q", "kind": "max_pool", "kernel": 2, "inputs": ["d"]},
                                     {"name": "a", "kind": "add", "inputs": ["p", "q"]},
                                     {"name": "j", "kind": "concat", "inputs": ["a", "p"]})",
                                  "2, 20, 20");
  const Profile profile = estimate(model, kSlowMemory);
  const double mb = 4 * 40'000.0;  // of 10 x 10 x 20 x 20 elements
  const auto moves = [](double bytes) { return bytes / 800 + 5; };
  const auto sums = [](double bytes) { return bytes / 550 + 5; };
  check_times(profile.layers[1], sums(3 * mb), sums(5 * mb));
  check_times(profile.layers[2], moves(2 * mb), moves(3 * mb));
  // read by p and by q, whose gradients are added
  check_times(profile.layers[3], moves(2.25 * mb), moves(2.25 * mb) + moves(3 * mb));
  check_times(profile.layers[4], sums(1.25 * mb), sums(2.5 * mb) + moves(3 * mb / 4));
  check_times(profile.layers[6], moves(0.75 * mb), 0);
  check_times(profile.layers[7], moves(mb) + 5, moves(mb) + 5);
  // PyTorch's batch norms of bfloat16 take as long as those of float32, and those of float16 half as long.
  CHECK(estimate(model, kSlowMemory, {.dtype = Dtype::bfloat16}).layers[1].forward_us ==
        doctest::Approx(sums(3 * mb)));
  CHECK(estimate(model, kSlowMemory, {.batch_size = 20, .dtype = Dtype::float16}).layers[1].forward_us ==
        doctest::Approx(sums(3 * mb)));

  const Profile norm = estimate(parse(R"({"name": "l", "kind": "linear", "out_features": 50},
                                         {"name": "n", "kind": "layer_norm"},
                                         {"name": "e", "kind": "cross_entropy"})",
                                      "8, 64"),
                                kSlowMemory);
  const double rows = 4 * 10 * 8 * 50.0;
  check_times(norm.layers[1], sums(2 * rows), sums(3 * rows) + sums(2 * rows));
  check_times(norm.layers[2], sums(2 * rows) + 5, sums(3 * rows) + moves(rows));
}

TEST_CASE("estimate: attention is its products and, unless fused, passes over its scores") {
  const auto attention = [](const std::string& more, const Device& device) {
    return estimate(parse(R"({"name": "l", "kind": "linear", "out_features": 384, "bias": false},
                             {"name": "a", "kind": "attention", "heads": 2)" +
                              more + "}",
                          "256, 64"),
                    device)
        .layers[1];
  };
  // 20 heads of 256 x 256 scores, with 64 features each; q, k, v together are three times the output
  const double scores = 4 * 20 * 256 * 256.0;
  const double operands = 4 * 20 * 2 * 256 * 64.0;
  const auto moves = [](double bytes) { return bytes / 800 + 5; };
  const auto sums = [](double bytes) { return bytes / 550 + 5; };
  const double products = 2 * moves(operands + scores);
  const double heads = moves(2 * 4 * (4 * 10 * 256 * 128.0));
  check_times(attention("", kSlowMemory), products + heads + moves(2 * scores) + sums(2 * scores),
              2 * products + heads + moves(2 * scores) + sums(3 * scores));
  check_times(attention(R"(, "causal": true, "dropout": 0.1)", kSlowMemory),
              products + heads + 2 * moves(2 * scores) + moves(2.25 * scores) + sums(2 * scores),
              2 * products + heads + 2 * moves(2 * scores) + moves(2.25 * scores) + sums(3 * scores));
  // Fused: two products forward, five backward, as it computes the scores again
  const double product = 2.0 * 20 * 256 * 256 * 64 / 0.7e6 + 5;
  check_times(attention(R"(, "fused": true)", kFastMemory), 2 * product, 5 * product);
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
  CHECK(std::ranges::none_of(profile.layers, costs_nothing));
  // and it is a profile: it reads back as it is
  CHECK(read_profile(core::Field::parse(profile_text(profile), "p.json")) == profile);
}

TEST_CASE("estimate: says where it comes from, and is scaled to an iteration that is known") {
  const core::Model model = load("googlenet");
  const Profile plain = estimate(model, *device("k80"));
  CHECK(plain.device == "NVIDIA Tesla K80 (one of its two GPUs)");
  CHECK(plain.origin.kind == OriginKind::estimated);
  CHECK(plain.origin.source ==
        "roofline of each kernel: 70 % of 4.37 TFLOP/s (float32), 80 % of 240 GB/s or 55 % in reductions, 5 "
        "us a launch, batch 64; not scaled to any measurement (estimates of batches of 8 and more were 0.65 "
        "to 1.25 times the measured time elsewhere)");
  CHECK(plain.compute_range == ComputeRange{.low = 0.8, .high = 1.538});  // 1 / 1.25 and 1 / 0.65
  CHECK(estimate(model, *device("v100"), {.dtype = Dtype::float16}).compute_range ==
        ComputeRange{.low = 0.625, .high = 2});
  CHECK(estimate(model, *device("a100"), {.tf32 = true})
            .origin.source.find("60 % of 156 TFLOP/s (TF32 on tensor cores)") != std::string::npos);
  CHECK(estimate(model, *device("v100"), {.tf32 = true}) == estimate(model, *device("v100")));

  const Profile scaled = estimate(model, *device("k80"), {.compute_us = 308e3});
  CHECK(forward_us(scaled) + backward_us(scaled) == doctest::Approx(308'000));
  CHECK(!scaled.compute_range);
  CHECK(scaled.layers[5].forward_us / plain.layers[5].forward_us ==
        doctest::Approx(scaled.layers[9].backward_us / plain.layers[9].backward_us));
  CHECK(scaled.origin.source.find("batch 64; scaled to 308 ms for forward and backward") !=
        std::string::npos);
}

TEST_CASE("estimate: within 25 % of what others measured") {
  const auto iteration_ms = [](const char* model, const char* gpu, std::int64_t batch_size) {
    const Profile profile = estimate(load(model), *device(gpu), {.batch_size = batch_size});
    return (forward_us(profile) + backward_us(profile)) / 1e3;
  };
  // DeAR on a 2080 Ti, from its Table II
  CHECK(iteration_ms("resnet50", "rtx2080ti", 64) == doctest::Approx(220).epsilon(0.25));
  CHECK(iteration_ms("bert-base", "rtx2080ti", 64) == doctest::Approx(280).epsilon(0.25));
  CHECK(iteration_ms("bert-large", "rtx2080ti", 32) == doctest::Approx(407).epsilon(0.25));
  // MG-WFBP on a K80: 205.334 ms backward, half of that forward
  CHECK(iteration_ms("googlenet", "k80", 64) == doctest::Approx(308).epsilon(0.25));
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
    CHECK(each.float32_tflops <= each.tf32_tflops);
    CHECK(each.memory_gbytes_per_s > 0);
    CHECK(each.multiprocessors > 0);
    CHECK(each.shared_bytes > 0);
  }
}

}  // namespace
}  // namespace core
