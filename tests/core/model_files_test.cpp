// The bundled models: the published numbers of tensors and parameters, the right shapes and operations.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/model/kinds.hpp"
#include "core/model/model.hpp"
#include "tests/support/program.hpp"

namespace core {
namespace {

std::filesystem::path root() { return support::source_dir(); }

Model load(const std::string& name) { return read_model(Field::load(root() / "models" / (name + ".json"))); }

const Layer& layer(const Model& model, const std::string& name) {
  const auto found = std::ranges::find(model.layers, name, &Layer::name);
  REQUIRE_MESSAGE(found != model.layers.end(), name);
  return *found;
}

struct Expected {
  const char* model;
  std::int64_t layers_with_tensors;
  std::int64_t tensors;
  std::int64_t parameters;
  double gmacs;  ///< of convolutions, linear layers and similar ones
};

// Tensors and parameters: torchvision, timm, Hugging Face and the five papers. Layers: Table I of DeAR, if it
// contains them. Operations: torchvision's and timm's tables for the image networks, at their own image
// sizes; otherwise from the matrix sizes by hand.
constexpr Expected kExpected[] = {
    {"googlenet", 64, 128, 13'378'280, 1.59},
    {"resnet18", 41, 62, 11'689'512, 1.814},
    {"resnet50", 107, 161, 25'557'032, 4.089},
    {"resnet101", 209, 314, 44'549'160, 7.801},
    {"resnet152", 311, 467, 60'192'808, 11.514},
    {"densenet161", 322, 484, 28'681'000, 7.728},
    {"densenet201", 402, 604, 20'013'928, 4.291},
    {"inception-v4", 299, 449, 42'679'816, 12.28},
    {"vgg16", 16, 32, 138'357'544, 15.47},
    {"vgg16-cifar10", 27, 54, 14'728'266, 0.3132},
    {"vgg19", 19, 38, 143'667'240, 19.63},
    {"lstm-an4", 16, 40, 27'569'568, 5.72},
    {"transformer-base", 127, 253, 63'082'496, 17.3},
    {"bert-base", 105, 206, 110'106'428, 7.03},
    {"bert-base-untied", 105, 207, 133'547'324, 14.27},
    {"bert-large", 201, 398, 336'226'108, 21.5},
    {"gpt2", 75, 148, 124'439'808, 146.0},
    // 1024 tokens x (weights without the embeddings, and the head) + 48 x 2 x 1024^2 x 1600
    {"gpt2-xl", 291, 580, 1'557'611'200, 1753.4},
    {"llama2-7b", 291, 291, 6'738'415'616, 31'450},
    // 8192 tokens x (weights without the embeddings + 2 x layers x 8192 x features)
    {"llama3-8b", 291, 291, 8'030'261'248, 79'075},
    {"llama3-70b", 723, 723, 70'553'706'496, 657'330},
    // 4096 tokens, active experts alone: 12.75e9 and 2.62e9 weights without the embeddings
    {"mixtral-8x7b", 259, 323, 46'702'792'704, 56'620},
    {"deepseek-moe-16b", 309, 363, 16'375'728'128, 12'651},
};

TEST_CASE("model files: tensors, parameters and operations are the published ones") {
  for (const Expected& expected : kExpected) {
    CAPTURE(expected.model);
    const Model model = load(expected.model);
    CHECK(model.name == expected.model);
    CHECK(std::ranges::count_if(model.layers, [](const Layer& each) { return !each.tensors.empty(); }) ==
          expected.layers_with_tensors);
    CHECK(tensor_count(model) == expected.tensors);
    CHECK(parameter_count(model) == expected.parameters);
    CHECK(forward_flops(model) == doctest::Approx(2e9 * expected.gmacs).epsilon(0.02));
  }
}

TEST_CASE("model files: each is in the table, and its own word of what is published is true") {
  for (const auto& entry : std::filesystem::directory_iterator(root() / "models")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    const Model model = read_model(Field::load(entry.path()));
    const std::string stem = entry.path().stem().string();
    CHECK(std::any_of(std::begin(kExpected), std::end(kExpected),
                      [&](const Expected& expected) { return stem == expected.model; }));
    REQUIRE(model.published.has_value());
    if (model.published->tensors) CHECK(tensor_count(model) == *model.published->tensors);
    // the Transformer's paper says 65 million and not how it counts
    if (stem == "transformer-base")
      CHECK(static_cast<double>(parameter_count(model)) == doctest::Approx(65e6).epsilon(0.03));
    else
      CHECK(parameter_count(model) == model.published->parameters);
  }
}

TEST_CASE("model files: every layer follows its inputs, every loss counts") {
  for (const Expected& expected : kExpected) {
    CAPTURE(expected.model);
    const Model model = load(expected.model);
    std::vector<int> readers(model.layers.size());
    for (std::size_t i = 0; i < model.layers.size(); ++i)
      for (const std::size_t input : model.layers[i].inputs) {
        REQUIRE(input < i);
        ++readers[input];
      }
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      CAPTURE(model.layers[i].name);  // the message is used only on failure
      CHECK((readers[i] == 0) == (model.layers[i].kind == LayerKind::cross_entropy));
    }
  }
}

TEST_CASE("googlenet: exactly the tensors of the log that MG-WFBP's authors simulated from") {
  // Elements of the last 128 rows of b-caffe's tmp8comm.log, weight and bias of each layer.
  constexpr std::int64_t kLogged[64][2] = {
      {9408, 64},   {4096, 64},      {110592, 192},   {12288, 64},    {18432, 128},    {110592, 128},
      {3072, 64},   {12800, 64},     {6144, 64},      {32768, 128},   {32768, 128},    {221184, 192},
      {8192, 64},   {76800, 128},    {16384, 64},     {92160, 192},   {46080, 128},    {179712, 256},
      {7680, 64},   {19200, 64},     {30720, 64},     {65536, 128},   {2097152, 1024}, {1024000, 1024},
      {81920, 192}, {57344, 128},    {225792, 256},   {12288, 64},    {38400, 64},     {32768, 64},
      {65536, 128}, {65536, 128},    {294912, 256},   {12288, 64},    {38400, 64},     {32768, 64},
      {57344, 128}, {73728, 192},    {373248, 320},   {16384, 64},    {51200, 64},     {32768, 64},
      {67584, 128}, {2097152, 1024}, {1024000, 1024}, {135168, 256},  {84480, 192},    {460800, 320},
      {16896, 64},  {102400, 128},   {67584, 128},    {212992, 256},  {133120, 192},   {460800, 320},
      {26624, 64},  {102400, 128},   {106496, 128},   {319488, 384},  {159744, 192},   {663552, 384},
      {39936, 64},  {153600, 128},   {106496, 128},   {1024000, 1024}};
  constexpr std::int64_t kPadding = 64;  // the fork starts each tensor at a multiple of 64 elements
  std::size_t row = 0;
  std::int64_t bytes = 0;
  for (const Layer& each : load("googlenet").layers) {
    if (each.tensors.empty()) continue;
    CAPTURE(each.name);
    REQUIRE(row < std::size(kLogged));
    REQUIRE(each.tensors.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t padded = (each.tensors[i].elements + kPadding - 1) / kPadding * kPadding;
      CHECK(padded == kLogged[row][i]);
      bytes += 4 * padded;
    }
    ++row;
  }
  CHECK(row == std::size(kLogged));
  CHECK(bytes == 53'516'544);
}

TEST_CASE("model files: shapes and names of layers one knows") {
  const Model resnet = load("resnet50");
  CHECK(layer(resnet, "conv1").output == Shape{64, 112, 112});
  CHECK(layer(resnet, "maxpool").output == Shape{64, 56, 56});
  CHECK(layer(resnet, "layer2.0.conv2").output == Shape{128, 28, 28});
  CHECK(layer(resnet, "layer4.2.relu3").output == Shape{2048, 7, 7});
  CHECK(layer(resnet, "layer1.0.downsample.0").tensors.at(0).shape == Shape{256, 64, 1, 1});

  const Model vgg = load("vgg16");
  CHECK(layer(vgg, "features.28").tensors.at(0).shape == Shape{512, 512, 3, 3});
  CHECK(layer(vgg, "classifier.0").tensors.at(0).shape == Shape{4096, 25088});

  const Model googlenet = load("googlenet");
  CHECK(layer(googlenet, "inception_3b.output").output == Shape{480, 28, 28});
  CHECK(layer(googlenet, "inception_5b.output").output == Shape{1024, 7, 7});
  CHECK(layer(googlenet, "loss1.ave_pool").output == Shape{512, 4, 4});

  const Model densenet = load("densenet201");
  CHECK(layer(densenet, "features.denseblock4.denselayer32.concat").output == Shape{1920, 7, 7});
  CHECK(layer(densenet, "features.transition2.conv").tensors.at(0).name ==
        "features.transition2.conv.weight");

  const Model inception = load("inception-v4");
  CHECK(layer(inception, "features.5.concat").output == Shape{384, 35, 35});
  CHECK(layer(inception, "features.17.concat").output == Shape{1024, 17, 17});
  CHECK(layer(inception, "features.21.concat").output == Shape{1536, 8, 8});
  CHECK(layer(inception, "features.11.branch1.1.conv").tensors.at(0).shape == Shape{224, 192, 1, 7});

  const Model lstm = load("lstm-an4");
  CHECK(layer(lstm, "conv.seq_module.5").output == Shape{32, 41, 150});
  CHECK(layer(lstm, "rnns.0.rnn").tensors.at(0).shape == Shape{3200, 1312});
  CHECK(layer(lstm, "rnns.4.rnn").output == Shape{150, 800});
}

TEST_CASE("model files: heads that share keys and values, and mixtures of experts") {
  const Model llama = load("llama3-8b");
  CHECK(layer(llama, "model.layers.31.self_attn.k_proj").tensors.at(0).shape == Shape{1024, 4096});
  CHECK(layer(llama, "model.layers.0.self_attn.core").output == Shape{8192, 4096});
  CHECK(layer(llama, "model.layers.0.mlp.down_proj").tensors.at(0).shape == Shape{4096, 14336});
  CHECK(layer(load("llama3-70b"), "model.layers.79.self_attn.v_proj").tensors.at(0).shape ==
        Shape{1024, 8192});

  const Model mixtral = load("mixtral-8x7b");
  const Layer& experts = layer(mixtral, "model.layers.0.block_sparse_moe.experts");
  CHECK(experts.output == Shape{4096, 4096});
  REQUIRE(experts.tensors.size() == 3);
  CHECK(experts.tensors[0].name == "model.layers.0.block_sparse_moe.experts.gate_proj");
  CHECK(experts.tensors[0].shape == Shape{8, 14336, 4096});
  CHECK(experts.tensors[2].shape == Shape{8, 4096, 14336});

  const Model deepseek = load("deepseek-moe-16b");
  CHECK(layer(deepseek, "model.layers.0.mlp.up_proj").tensors.at(0).shape == Shape{10944, 2048});
  CHECK(layer(deepseek, "model.layers.1.mlp.gate").output == Shape{4096, 64});
  CHECK(layer(deepseek, "model.layers.27.mlp.experts").tensors.at(1).shape == Shape{64, 1408, 2048});
  CHECK(layer(deepseek, "model.layers.27.mlp.shared_experts.down_proj").tensors.at(0).shape ==
        Shape{2048, 2816});
  // Elements of the routed experts: the names tell them from shared ones.
  std::int64_t routed = 0;
  for (const Layer& each : deepseek.layers)
    for (const Tensor& tensor : each.tensors)
      if (tensor.name.find(".experts.") != std::string::npos) routed += tensor.elements;
  CHECK(routed == std::int64_t{27} * 64 * 3 * 2048 * 1408);
}

TEST_CASE("model files: tied weights belong to the first layer that has them") {
  const Model bert = load("bert-base");
  const Layer& decoder = layer(bert, "cls.predictions");
  REQUIRE(decoder.shared_weight.has_value());
  CHECK(bert.layers[decoder.shared_weight->layer].tensors[decoder.shared_weight->tensor].name ==
        "bert.embeddings.word_embeddings.weight");
  REQUIRE(decoder.tensors.size() == 1);
  CHECK(decoder.tensors[0].name == "cls.predictions.bias");
  // Ok-Topk's count: the decoder has a matrix of its own
  CHECK(parameter_count(bert) + std::int64_t{30522} * 768 == 133'547'324);

  const Model gpt2 = load("gpt2");
  CHECK(layer(gpt2, "transformer.h.11.attn.c_attn").tensors.at(0).elements == 1'769'472);
  CHECK(layer(gpt2, "lm_head").tensors.empty());
}

}  // namespace
}  // namespace core
