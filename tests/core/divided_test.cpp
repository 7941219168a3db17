// The part of a model that one worker of a tensor and an expert group computes: sizes by hand, and those of
// published models.

#include "core/model/divided.hpp"

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/support/program.hpp"

namespace core {
namespace {

using doctest::Approx;

/// One block of a transformer: 8 positions, 16 features, 4 heads, two of four experts or a feed-forward
/// network of 32 hidden features; 100 words.
Model transformer(bool has_experts) {
  const std::string feed_forward =
      has_experts ? R"({"name": "gate", "kind": "linear", "out_features": 4, "bias": false},
                       {"name": "ff", "kind": "experts", "experts": 4, "chosen": 2, "hidden": 32,
                        "inputs": ["norm2", "gate"]})"
                  : R"({"name": "up", "kind": "linear", "out_features": 32}, {"name": "gelu", "kind": "gelu"},
                       {"name": "ff", "kind": "linear", "out_features": 16})";
  const std::string text = R"({"format": "fusewise.model", "version": 1, "name": "small", "about": "",
    "input": [{"name": "tokens", "shape": [8], "element": "token", "vocabulary": 100}], "batch_size": 1, "dtype": "float32", "layers": [
      {"name": "words", "kind": "embedding", "entries": 100, "features": 16},
      {"name": "norm1", "kind": "layer_norm"},
      {"name": "qkv", "kind": "linear", "out_features": 48},
      {"name": "core", "kind": "attention", "heads": 4},
      {"name": "out", "kind": "linear", "out_features": 16},
      {"name": "add1", "kind": "add", "inputs": ["out", "words"]},
      {"name": "norm2", "kind": "layer_norm"},)" +
                           feed_forward + R"(,
      {"name": "add2", "kind": "add", "inputs": ["ff", "add1"]},
      {"name": "head", "kind": "linear", "out_features": 100, "bias": false},
      {"name": "loss", "kind": "cross_entropy"}]})";
  return read_model(Field::parse(text, "m.json"));
}

const Layer& layer(const Model& model, const std::string& name) {
  for (const Layer& each : model.layers)
    if (each.name == name) return each;
  FAIL("no layer ", name);
  return model.layers.front();
}

std::int64_t elements(const Model& model, const std::string& name) {
  std::int64_t out = 0;
  for (const Tensor& tensor : layer(model, name).tensors) out += tensor.elements;
  return out;
}

TEST_CASE("divided: nothing changes for a worker that divides with no other") {
  const Model whole = transformer(false);
  const Model same = divided(whole, {});
  CHECK(parameter_count(same) == parameter_count(whole));
  CHECK(forward_flops(same) == forward_flops(whole));
}

TEST_CASE("divided: linear layers by outputs, then by inputs, attention by heads, norms not at all") {
  const Model whole = transformer(false);
  const Model part = divided(whole, {.tensor = 4});
  CHECK(layer(part, "words").tensors[0].shape == Shape{25, 16});
  CHECK(layer(part, "words").output == Shape{8, 16});
  CHECK(elements(part, "norm1") == elements(whole, "norm1"));
  CHECK(layer(part, "qkv").tensors[0].shape == Shape{12, 16});
  CHECK(elements(part, "qkv") == 12 * 16 + 12);  // its bias is divided, too
  CHECK(layer(part, "qkv").output == Shape{8, 12});
  CHECK(layer(part, "core").output == Shape{8, 4});
  CHECK(layer(part, "out").tensors[0].shape == Shape{16, 4});
  CHECK(elements(part, "out") == 16 * 4 + 16);  // the bias is added to the sum of all workers
  CHECK(layer(part, "out").output == Shape{8, 16});
  CHECK(layer(part, "gelu").output == Shape{8, 8});
  CHECK(layer(part, "gelu").activation_elements == 64);
  CHECK(layer(part, "add2").output == Shape{8, 16});
  CHECK(layer(part, "head").tensors[0].shape == Shape{25, 16});
  for (const char* name : {"qkv", "core", "out", "up", "gelu", "ff", "head", "loss"})
    CHECK(layer(part, name).forward_flops == Approx(layer(whole, name).forward_flops / 4));
  for (const char* name : {"norm1", "add1", "norm2", "add2"})
    CHECK(layer(part, name).forward_flops == layer(whole, name).forward_flops);
}

TEST_CASE("divided: experts by their number and by hidden features, the router is whole") {
  const Model whole = transformer(true);
  const Model part = divided(whole, {.tensor = 2, .expert = 4});
  CHECK(elements(part, "gate") == elements(whole, "gate"));
  CHECK(layer(part, "gate").output == Shape{8, 4});
  CHECK(elements(part, "ff") == elements(whole, "ff") / 8);
  CHECK(layer(part, "ff").forward_flops == Approx(layer(whole, "ff").forward_flops / 2));
  // 8 positions on two experts each: a copy, its result, and three numbers for each hidden feature
  CHECK(layer(whole, "ff").activation_elements == 8 * 2 * (2 * 16 + 3 * 32));
  CHECK(layer(part, "ff").activation_elements == 8 * 2 * (2 * 16 + 3 * 16));
  CHECK(layer(part, "ff").output == Shape{8, 16});
}

TEST_CASE("divided: a linear layer whose outputs a norm needs as a whole is not divided") {
  const Model whole =
      read_model(Field::parse(R"({"format": "fusewise.model", "version": 1, "name": "small", "about": "",
    "input": [{"name": "values", "shape": [8, 16]}], "batch_size": 1, "dtype": "float32", "layers": [
      {"name": "first", "kind": "linear", "out_features": 16}, {"name": "gelu", "kind": "gelu"},
      {"name": "norm", "kind": "layer_norm"}, {"name": "last", "kind": "linear", "out_features": 10},
      {"name": "loss", "kind": "cross_entropy"}]})",
                              "m.json"));
  const Model part = divided(whole, {.tensor = 2});
  CHECK(elements(part, "first") == elements(whole, "first"));
  CHECK(elements(part, "last") == elements(whole, "last") / 2);
}

TEST_CASE("divided: what is read beside something whole is whole, too") {
  const Model whole =
      read_model(Field::parse(R"({"format": "fusewise.model", "version": 1, "name": "small", "about": "",
    "input": [{"name": "values", "shape": [8, 16]}], "batch_size": 1, "dtype": "float32", "layers": [
      {"name": "q", "kind": "linear", "out_features": 16, "inputs": ["values"]},
      {"name": "k", "kind": "linear", "out_features": 16, "inputs": ["values"]},
      {"name": "norm", "kind": "rms_norm", "inputs": ["k"]},
      {"name": "v", "kind": "linear", "out_features": 16, "inputs": ["values"]},
      {"name": "core", "kind": "attention", "heads": 4, "inputs": ["q", "norm", "v"]},
      {"name": "out", "kind": "linear", "out_features": 16},
      {"name": "loss", "kind": "cross_entropy"}]})",
                              "m.json"));
  const Model part = divided(whole, {.tensor = 2});
  for (const char* name : {"q", "k", "v"}) CHECK(elements(part, name) == elements(whole, name));
  CHECK(layer(part, "core").forward_flops == layer(whole, "core").forward_flops);
  CHECK(elements(part, "out") == elements(whole, "out") / 2);
}

TEST_CASE("divided: the parameters of a worker of published models") {
  const auto bundled = [](const char* name) {
    const std::filesystem::path root = support::source_dir();
    return read_model(Field::load(root / "models" / (std::string(name) + ".json")));
  };
  // Llama 3 70B: 80 layers of 8192 features with two norms each and one more are whole
  const Model llama = bundled("llama3-70b");
  const std::int64_t norms = (2 * 80 + 1) * 8192;
  CHECK(parameter_count(divided(llama, {.tensor = 8})) == (parameter_count(llama) - norms) / 8 + norms);
  // Mixtral: experts by 8 alone, and 32 routers of 8 x 4096 and 65 norms of 4096 are whole
  const Model mixtral = bundled("mixtral-8x7b");
  const std::int64_t experts = std::int64_t{32} * 8 * 3 * 4096 * 14336;
  CHECK(parameter_count(divided(mixtral, {.expert = 8})) == parameter_count(mixtral) - experts / 8 * 7);
  const std::int64_t whole = std::int64_t{32} * 8 * 4096 + std::int64_t{65} * 4096;
  CHECK(parameter_count(divided(mixtral, {.tensor = 2, .expert = 8})) ==
        (parameter_count(mixtral) - experts - whole) / 2 + experts / 16 + whole);
}

TEST_CASE("divided: heads and experts that cannot be divided evenly are refused") {
  CHECK_THROWS_WITH_AS(divided(transformer(false), {.tensor = 3}),
                       "expected a model with numbers of heads that tensor 3 divides, got 4 in 'core'",
                       Unsupported);
  const std::filesystem::path root = support::source_dir();
  CHECK_THROWS_WITH_AS(divided(read_model(Field::load(root / "models" / "llama3-70b.json")), {.tensor = 16}),
                       "expected a model with numbers of heads that tensor 16 divides, got 8 in "
                       "'model.layers.0.self_attn.core'",
                       Unsupported);
  CHECK_THROWS_WITH_AS(divided(transformer(true), {.expert = 3}),
                       "expected a model with numbers of experts that expert 3 divides, got 4 in 'ff'",
                       Unsupported);
}

}  // namespace
}  // namespace core
