// The model format: blocks, repetition, references, shapes, and errors.

#include "core/model/model.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"

namespace core {
namespace {

/// Returns a model file with these parts; images of 3 x 8 x 8.
std::string model_text(const std::string& layers, const std::string& blocks = "") {
  return R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "",
    "input": [{"name": "image", "shape": [3, 8, 8]}, {"name": "words", "shape": ["$sequence_length", 6]},
              {"name": "tokens", "shape": ["$sequence_length"], "element": "token", "vocabulary": 10}],
    "sequence_length": 5, "batch_size": 2, "dtype": "float32",
    "blocks": [)" +
         blocks + R"(], "layers": [)" + layers + "]}";
}

Model parse(const std::string& layers, const std::string& blocks = "") {
  return read_model(Field::parse(model_text(layers, blocks), "m.json"));
}

std::string message(const std::string& layers, const std::string& blocks = "") {
  try {
    (void)parse(layers, blocks);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing refused";
}

constexpr std::size_t kInputs = 3;

std::vector<std::string> layer_names(const Model& model) {
  std::vector<std::string> names;
  for (std::size_t i = kInputs; i < model.layers.size(); ++i) names.push_back(model.layers[i].name);
  return names;
}

/// The shape of the last layer's output.
Shape last_shape(const std::string& layers) {
  return parse(layers + R"(, {"kind": "layer_norm"})").layers.back().output;
}

using Names = std::vector<std::string>;

// ---- names, repetition, blocks

TEST_CASE("model: a layer without a name is numbered, as in a Sequential") {
  const Model model = parse(R"({"kind": "batch_norm"}, {"name": "features", "layers": [
    {"kind": "conv2d", "out_channels": 4, "kernel": 3}, {"kind": "relu"}]}, {"kind": "relu"})");
  CHECK(layer_names(model) == Names{"0", "features.0", "features.1", "2"});
  CHECK(model.layers[kInputs + 1].tensors.at(0).name == "features.0.weight");
  CHECK(model.layers[kInputs + 1].tensors.at(1).name == "features.0.bias");
}

TEST_CASE("model: repeated by a number, with a point, a place in the name, or none") {
  CHECK(layer_names(parse(R"({"name": "a", "kind": "batch_norm", "repeat": 2})")) == Names{"a.0", "a.1"});
  CHECK(layer_names(parse(R"({"name": "a{}b", "kind": "batch_norm", "repeat": 2, "first": 1})")) ==
        Names{"a1b", "a2b"});
  CHECK(layer_names(parse(R"({"kind": "batch_norm", "repeat": 2})")) == Names{"0", "1"});
}

TEST_CASE("model: a repetition takes the one before as its first input") {
  const Model model = parse(R"({"name": "a", "kind": "batch_norm"}, {"name": "b", "kind": "add", "repeat": 2,
    "inputs": ["a", "image"]}, {"name": "c", "kind": "relu", "inputs": ["b"]})");
  CHECK(model.layers[kInputs + 1].inputs == std::vector<std::size_t>{kInputs, 0});
  CHECK(model.layers[kInputs + 2].inputs == std::vector<std::size_t>{kInputs + 1, 0});
  CHECK(model.layers[kInputs + 3].inputs == std::vector<std::size_t>{kInputs + 2});
}

constexpr const char* kConv =
    R"({"name": "conv", "parameters": ["channels", ["kernel", 1]], "layers": [
         {"name": "c", "kind": "conv2d", "out_channels": "$channels", "kernel": "$kernel"}, {"name": "r", "kind": "relu"}]})";

TEST_CASE("model: a block takes its use's parameters, or its own values for them") {
  const Model model = parse(R"({"name": "x", "block": "conv", "channels": 4},
                               {"name": "y", "block": "conv", "channels": 5, "kernel": [1, 3]})",
                            kConv);
  CHECK(layer_names(model) == Names{"x.c", "x.r", "y.c", "y.r"});
  CHECK(model.layers[kInputs].tensors.at(0).shape == Shape{4, 3, 1, 1});
  CHECK(model.layers[kInputs + 2].tensors.at(0).shape == Shape{5, 4, 1, 3});
  CHECK(model.layers[kInputs + 2].output == Shape{5, 8, 6});
}

TEST_CASE("model: a list of parameter sets repeats a block with each") {
  const Model model = parse(
      R"({"name": "x", "block": "conv", "kernel": 3, "repeat": [{"channels": 4}, {"channels": 6, "kernel": 1}]})",
      kConv);
  CHECK(layer_names(model) == Names{"x.0.c", "x.0.r", "x.1.c", "x.1.r"});
  CHECK(model.layers[kInputs + 1].output == Shape{4, 6, 6});
  CHECK(model.layers[kInputs + 3].output == Shape{6, 6, 6});
}

TEST_CASE(
    "model: a block used without a name joins the layers around it, one with a name is known by its end") {
  const Model model = parse(R"({"name": "g", "layers": [{"block": "conv", "channels": 3},
      {"name": "sum", "kind": "add", "inputs": ["r", "input"]}]}, {"name": "end", "kind": "add", "inputs": ["g", "g.c"]})",
                            kConv);
  CHECK(layer_names(model) == Names{"g.c", "g.r", "g.sum", "end"});
  CHECK(model.layers[kInputs + 2].inputs == std::vector<std::size_t>{kInputs + 1, 0});
  CHECK(model.layers[kInputs + 3].inputs == std::vector<std::size_t>{kInputs + 2, kInputs});
}

TEST_CASE("model: a block may have several inputs") {
  const Model model =
      parse(R"({"name": "a", "kind": "batch_norm"}, {"name": "x", "block": "two", "inputs": ["a", "image"]})",
            R"({"name": "two", "inputs": ["left", "right"], "layers": [
                                 {"name": "n", "kind": "batch_norm"}, {"name": "s", "kind": "add", "inputs": ["n", "right"]}]})");
  CHECK(model.layers[kInputs + 1].inputs == std::vector<std::size_t>{kInputs});
  CHECK(model.layers[kInputs + 2].inputs == std::vector<std::size_t>{kInputs + 1, 0});
}

TEST_CASE("model: a shared tensor counts once") {
  const Model model =
      parse(R"({"name": "e", "kind": "embedding", "inputs": ["tokens"], "entries": 10, "features": 4},
                               {"name": "head", "kind": "linear", "out_features": 10, "tied_to": "e.weight"})");
  CHECK(tensor_count(model) == 2);
  CHECK(parameter_count(model) == 50);
  const Layer& head = model.layers.back();
  CHECK(head.tensors.at(0).name == "head.bias");
  REQUIRE(head.shared_weight.has_value());
  CHECK(head.shared_weight->layer == kInputs);
  CHECK(head.forward_flops == 2 * 5 * 10 * 4);
}

TEST_CASE("model: the length of a sequence can be given instead of the file's") {
  const Field file = Field::parse(model_text(R"({"kind": "layer_norm", "inputs": ["words"]})"), "m.json");
  CHECK(read_model(file).layers.back().output == Shape{5, 6});
  const Model longer = read_model(file, {.sequence_length = 7});
  CHECK(longer.layers.back().output == Shape{7, 6});
  CHECK(longer.sequence_length == 7);
}

TEST_CASE("model: images can be of another size than the file's") {
  const auto text = [](const std::string& shape) {
    return R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 1,
               "dtype": "float32", "input": [{"name": "x", "shape": )" +
           shape +
           R"(}], "layers": [{"kind": "conv2d", "out_channels": 4, "kernel": 3}, {"kind": "flatten"}]})";
  };
  CHECK(read_model(Field::parse(text("[3, 5, 7]"), "m.json")).layers.back().output == Shape{4 * 3 * 5});
  CHECK(read_model(Field::parse(text("[3, 5, 7]"), "m.json"), {.input_size = 6}).layers.back().output ==
        Shape{4 * 4 * 4});
  const Field no_images = Field::parse(R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "",
      "batch_size": 1, "dtype": "float32", "input": [{"name": "x", "shape": [3]}],
      "layers": [{"kind": "linear", "out_features": 4}]})",
                                       "m.json");
  CHECK_THROWS_WITH_AS(
      (void)read_model(no_images, {.input_size = 6}),
      "m.json: /input: expected an input of images, as an input size was asked for, got none", InputError);
  CHECK_THROWS_WITH_AS(
      (void)read_model(Field::parse(text("[3, 5, 7]"), "m.json"), {.input_size = 2}),
      "m.json: /layers/0: expected a window that fits into the padded input, got a kernel of 3 x 3 "
      "on 2 x 2 in layer '0'",
      InputError);
}

// ---- shapes, tensors, flops

TEST_CASE("shapes: windows over images") {
  CHECK(last_shape(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3})") == Shape{4, 6, 6});
  CHECK(last_shape(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2, "padding": 1})") ==
        Shape{4, 4, 4});
  CHECK(last_shape(R"({"kind": "conv2d", "out_channels": 4, "kernel": [1, 7], "padding": [0, 3]})") ==
        Shape{4, 8, 8});
  CHECK(last_shape(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3, "dilation": 3})") == Shape{4, 2, 2});
  CHECK(last_shape(R"({"kind": "max_pool", "kernel": 3, "stride": 2})") == Shape{3, 3, 3});
  CHECK(last_shape(R"({"kind": "max_pool", "kernel": 3, "stride": 2, "ceil_mode": true})") == Shape{3, 4, 4});
  // a fifth window would begin in the padding
  CHECK(last_shape(R"({"kind": "max_pool", "kernel": 2, "stride": 3, "padding": 1, "ceil_mode": true})") ==
        Shape{3, 3, 3});
  CHECK(last_shape(R"({"kind": "avg_pool", "kernel": 4})") == Shape{3, 2, 2});
  CHECK(last_shape(R"({"kind": "adaptive_avg_pool", "output": [7, 2]})") == Shape{3, 7, 2});
}

TEST_CASE("shapes: joining and rearranging") {
  CHECK(last_shape(R"({"kind": "concat", "inputs": ["image", "image"]})") == Shape{6, 8, 8});
  CHECK(last_shape(R"({"kind": "concat", "axis": 1, "inputs": ["words", "words", "words"]})") ==
        Shape{5, 18});
  CHECK(last_shape(R"({"kind": "flatten"})") == Shape{192});
  CHECK(last_shape(R"({"kind": "flatten", "from": 1})") == Shape{3, 64});
  CHECK(last_shape(R"({"kind": "transpose", "axes": [1, 0], "inputs": ["words"]})") == Shape{6, 5});
  CHECK(last_shape(R"({"kind": "select", "inputs": ["words"]})") == Shape{6});
}

TEST_CASE("shapes: sequences") {
  CHECK(last_shape(R"({"kind": "linear", "out_features": 9, "inputs": ["words"]})") == Shape{5, 9});
  CHECK(last_shape(R"({"kind": "attention", "heads": 2, "inputs": ["words"]})") == Shape{5, 2});
  CHECK(last_shape(R"({"kind": "attention", "heads": 3, "inputs": ["words", "words", "words"]})") ==
        Shape{5, 6});
  CHECK(last_shape(R"({"kind": "position_embedding", "entries": 5, "features": 7, "inputs": ["tokens"]})") ==
        Shape{5, 7});
  CHECK(last_shape(R"({"kind": "lookahead", "context": 2, "inputs": ["words"]})") == Shape{5, 6});
}

TEST_CASE("tensors: those of a stacked bidirectional LSTM, in PyTorch's order") {
  const Model model = parse(
      R"({"name": "r", "kind": "lstm", "inputs": ["words"], "hidden": 2, "layers": 2, "bidirectional": true})");
  const Layer& lstm = model.layers.back();
  CHECK(lstm.output == Shape{5, 4});
  REQUIRE(lstm.tensors.size() == 16);
  CHECK(lstm.tensors[0].name == "r.weight_ih_l0");
  CHECK(lstm.tensors[0].shape == Shape{8, 6});
  CHECK(lstm.tensors[1].shape == Shape{8, 2});
  CHECK(lstm.tensors[2].name == "r.bias_ih_l0");
  CHECK(lstm.tensors[7].name == "r.bias_hh_l0_reverse");
  CHECK(lstm.tensors[8].shape == Shape{8, 4});
  // two directions, then two on both directions' features; five steps
  CHECK(lstm.forward_flops == 2 * 5 * (2 * 8 * (6 + 2) + 2 * 8 * (4 + 2)));
}

TEST_CASE("activations: a fused attention stores no scores, and computes as much") {
  const auto attention = [](const std::string& more) {
    return parse(R"({"name": "a", "kind": "attention", "heads": 3, "inputs": ["words", "words", "words"])" +
                 more + R"(}, {"kind": "layer_norm"})")
        .layers[kInputs];
  };
  CHECK(attention("").activation_elements == 5 * 6 + 3 * 5 * 5);
  CHECK(attention(R"(, "fused": false)").activation_elements == 5 * 6 + 3 * 5 * 5);
  CHECK(attention(R"(, "fused": true)").activation_elements == 5 * 6);
  CHECK(attention(R"(, "fused": true)").forward_flops == attention("").forward_flops);
}

TEST_CASE("flops: a multiply-add counts two") {
  const auto flops = [](const std::string& layer) {
    return parse(layer + R"(, {"kind": "layer_norm"})").layers[kInputs].forward_flops;
  };
  CHECK(flops(R"({"kind": "conv2d", "out_channels": 4, "kernel": 3})") == 2 * (4 * 6 * 6) * (3 * 3 * 3));
  CHECK(flops(R"({"kind": "conv2d", "out_channels": 6, "kernel": 3, "groups": 3})") ==
        2 * (6 * 6 * 6) * (3 * 3));
  CHECK(flops(R"({"kind": "linear", "out_features": 9, "inputs": ["words"]})") == 2 * 5 * 9 * 6);
  CHECK(flops(R"({"kind": "attention", "heads": 3, "inputs": ["words", "words", "words"]})") ==
        2 * 2 * (5 * 5 * 6) + 5 * (3 * 5 * 5));
  // 4 heads of q on 2 of k and v: as many as on 4
  const std::string heads = R"({"name": "q", "kind": "linear", "out_features": 8, "inputs": ["words"]},
      {"name": "k", "kind": "linear", "out_features": 4, "inputs": ["words"]},
      {"name": "a", "kind": "attention", "heads": 4, "key_value_heads": 2, "inputs": ["q", "k", "k"]})";
  CHECK(parse(heads).layers.back().forward_flops == 2 * 2 * (5 * 5 * 8) + 5 * (4 * 5 * 5));
  CHECK(parse(heads).layers.back().output == Shape{5, 8});
  CHECK(parse(heads).layers.back().activation_elements == 5 * 8 + 4 * 5 * 5);
  // each of 5 positions on 2 of 3 experts, of matrices between 6 and 7 features
  const Layer experts = parse(R"({"name": "gate", "kind": "linear", "out_features": 3, "inputs": ["words"]},
      {"name": "e", "kind": "experts", "experts": 3, "chosen": 2, "hidden": 7, "inputs": ["words", "gate"]})")
                            .layers.back();
  CHECK(experts.forward_flops == 5 * 2 * (3 * 2 * 6 * 7 + 2 * 7) + 5 * (5 * 3));
  CHECK(experts.output == Shape{5, 6});
  REQUIRE(experts.tensors.size() == 3);
  CHECK(experts.tensors[1].shape == Shape{3, 7, 6});
  CHECK(experts.activation_elements == 5 * 2 * (2 * 6 + 3 * 7));
}

// ---- what is refused

TEST_CASE("refused: unknown kinds, keys, names and parameters, with a suggestion") {
  CHECK(message(R"({"kind": "relu", "bias": true})") ==
        "m.json: /layers/0/bias: expected a key among name, inputs, repeat, first, kind, got 'bias'");
  CHECK(message(R"({"kind": "linear", "out_feature": 3})") ==
        "m.json: /layers/0/out_feature: expected a key among name, inputs, repeat, first, kind, "
        "out_features, bias, tied_to, got 'out_feature', did you mean 'out_features'?");
  CHECK(message(R"({"name": "bn", "kind": "batch_norm"}, {"kind": "relu", "inputs": ["bm"]})") ==
        "m.json: /layers/1/inputs/0: expected the name of an input or an earlier layer, got \"bm\", did you "
        "mean 'bn'?");
  CHECK(
      message(R"({"name": "x", "block": "cov"})", R"({"name": "c\u0000v", "layers": [{"kind": "relu"}]})") ==
      R"(m.json: /layers/0/block: expected one of c\u0000v, got "cov", did you mean 'c\u0000v'?)");
  CHECK(
      message(R"({"block": "b", "a": 1})",
              R"({"name": "b", "parameters": ["a\u0000"], "layers": [{"kind": "relu"}]})") ==
      R"(m.json: /layers/0/a: expected a key among a\u0000, name, inputs, repeat, first, block, got 'a', did )"
      R"(you mean 'a\u0000'?)");
  CHECK(message(R"({"name": "x", "block": "cov", "channels": 4})", kConv) ==
        "m.json: /layers/0/block: expected one of conv, got \"cov\", did you mean 'conv'?");
  CHECK(message(R"({"block": "conv", "channel": 4})", kConv) ==
        "m.json: /layers/0/channel: expected a key among channels, kernel, name, inputs, repeat, first, "
        "block, got 'channel', did you mean 'channels'?");
  CHECK(message(R"({"block": "conv"})", kConv) ==
        "m.json: /layers/0/channels: expected a value, got nothing");
  CHECK(message(R"({"kind": "conv2d", "out_channels": "$n", "kernel": 3})") ==
        "m.json: /layers/0/out_channels: expected a value or a parameter of this block, got \"$n\"");
  CHECK(
      message(
          R"({"name": "h", "kind": "linear", "out_features": 6, "inputs": ["words"], "tied_to": "e.weight"})") ==
      "m.json: /layers/0/tied_to: expected the name of an earlier tensor, got \"e.weight\"");
  const std::string unknown_kind = message(R"({"kind": "conv"})");
  CHECK(unknown_kind.find("m.json: /layers/0/kind: expected one of conv2d, max_pool, ") == 0);
  CHECK(unknown_kind.find(R"(, got "conv")") != std::string::npos);
}

TEST_CASE("refused: a wrong value is pointed at where it stands, a wrong shape at its layer") {
  CHECK(message(R"({"name": "x", "block": "conv", "channels": "many"})", kConv) ==
        "m.json: /layers/0/channels: expected an integer from 1 to 1000000000, got \"many\"");
  CHECK(message(R"({"name": "x", "block": "conv", "channels": 4, "kernel": 9})", kConv) ==
        "m.json: /blocks/0/layers/0: expected a window that fits into the padded input, got a kernel of 9 x "
        "9 on 8 x 8 in layer 'x.c'");
  CHECK(message(R"({"name": "a", "kind": "conv2d", "out_channels": 4, "kernel": 1},
                   {"name": "s", "kind": "add", "inputs": ["a", "image"]})") ==
        "m.json: /layers/1: expected inputs of one shape, got [4, 8, 8] and [3, 8, 8] in layer 's'");
  CHECK(message(R"({"name": "p", "kind": "max_pool", "kernel": 2},
                   {"name": "j", "kind": "concat", "inputs": ["p", "image"]})") ==
        "m.json: /layers/1: expected inputs that differ in dimension 0 alone, got [3, 4, 4] and [3, 8, 8] in "
        "layer 'j'");
  CHECK(message(R"({"name": "c", "kind": "conv2d", "out_channels": 4, "kernel": 1, "groups": 2})") ==
        "m.json: /layers/0: expected channels that divide into 2 groups, got 3 in and 4 out in layer 'c'");
  CHECK(message(R"({"name": "f", "kind": "linear", "out_features": 4})") ==
        "m.json: /layers/0: expected an input of shape [features] or [length, features], got [3, 8, 8] in "
        "layer 'f'");
  CHECK(message(R"({"name": "a", "kind": "attention", "heads": 4, "inputs": ["words", "words", "words"]})") ==
        "m.json: /layers/0: expected features that divide into 4 heads, got 6 in layer 'a'");
  CHECK(message(R"({"name": "a", "kind": "attention", "heads": 3, "key_value_heads": 2,
                    "inputs": ["words", "words", "words"]})") ==
        "m.json: /layers/0: expected key_value_heads that divide 3 heads, got 2 in layer 'a'");
  CHECK(message(
            R"({"name": "a", "kind": "attention", "heads": 2, "key_value_heads": 1, "inputs": ["words"]})") ==
        "m.json: /layers/0: expected 3 inputs, as k and v have fewer heads than q, got 1 in layer 'a'");
  CHECK(
      message(R"({"name": "a", "kind": "attention", "heads": 2, "key_value_heads": 1,
                    "inputs": ["words", "words", "words"]})") ==
      "m.json: /layers/0: expected q, k, v of as many features per head, k and v of one length, got [5, 6], "
      "[5, 6], [5, 6] in layer 'a'");
  CHECK(message(R"({"name": "e", "kind": "experts", "experts": 3, "chosen": 4, "hidden": 2,
                    "inputs": ["words", "words"]})") ==
        "m.json: /layers/0: expected at most 3 chosen experts, got 4 in layer 'e'");
  CHECK(
      message(R"({"name": "e", "kind": "experts", "experts": 3, "chosen": 1, "hidden": 2,
                    "inputs": ["words", "words"]})") ==
      "m.json: /layers/0: expected inputs of shape [length, features] and [length, 3], got [5, 6] and [5, 6] "
      "in layer 'e'");
  CHECK(
      message(
          R"({"name": "p", "kind": "position_embedding", "entries": 4, "features": 2, "inputs": ["tokens"]})") ==
      "m.json: /layers/0: expected a sequence of at most 4, got 5 in layer 'p'");
  CHECK(message(R"({"name": "r", "kind": "relu", "inputs": ["tokens"]})") ==
        "m.json: /layers/0: expected an input of numbers, got the tokens 'tokens' in layer 'r'");
  CHECK(message(R"({"name": "h", "kind": "hardtanh", "min": 1, "max": 1})") ==
        "m.json: /layers/0: expected min below max, got 1 and 1 in layer 'h'");
  CHECK(message(R"({"name": "s", "kind": "add"})") ==
        "m.json: /layers/0: expected at least 2 inputs, got 1 in layer 's'");
  CHECK(message(R"({"name": "e", "kind": "embedding", "inputs": ["tokens"], "entries": 9, "features": 4})") ==
        "m.json: /layers/0: expected at least the 10 entries that 'tokens' needs, got 9 in layer 'e'");
}

TEST_CASE("refused: cycles and later layers, names twice, models without weights") {
  CHECK(message(R"({"name": "a", "kind": "relu", "inputs": ["b"]}, {"name": "b", "kind": "batch_norm"})") ==
        "m.json: /layers/0/inputs/0: expected the name of an input or an earlier layer, got \"b\"");
  CHECK(message(R"({"name": "a", "kind": "relu", "inputs": ["a"]})") ==
        "m.json: /layers/0/inputs/0: expected the name of an input or an earlier layer, got \"a\"");
  CHECK(message(R"({"block": "b"})", R"({"name": "b", "layers": [{"block": "b"}]})") ==
        "m.json: /blocks/0/layers/0/block: expected the name of an earlier block, got \"b\"");
  CHECK(message(R"({"name": "a", "kind": "batch_norm"}, {"name": "a", "kind": "relu"})") ==
        "m.json: /layers/1/name: expected a name that nothing else in this model has, got \"a\" twice");
  CHECK(message(R"({"name": "a", "kind": "relu"})") ==
        "m.json: /layers: expected layers with at least one tensor in all, got none");
  CHECK(message(R"({"name": "a{}", "kind": "relu"})") ==
        "m.json: /layers/0/name: expected a name without {}, as there is no 'repeat', got \"a{}\"");
}

TEST_CASE("refused: what would grow beyond all bounds") {
  const std::string wide = R"({"name": "a", "kind": "linear", "inputs": ["words"], "out_features": 1e9})";
  CHECK(message(wide + R"(, {"name": "b", "kind": "linear", "out_features": 1e9})") ==
        "m.json: /layers/1: expected at most 1000000000000 elements, got [1000000000, 1000000000] in layer "
        "'b'");
  CHECK(message(R"({"block": "b2", "repeat": 1000})",
                R"({"name": "b1", "layers": [{"kind": "relu", "repeat": 1000}]},
                   {"name": "b2", "layers": [{"block": "b1", "repeat": 1000}]})") ==
        "m.json: /blocks/0/layers/0: expected at most 20000 layers in all, got more");
}

TEST_CASE("refused: a sequence length for a model that has none") {
  const std::string text =
      R"({"format": "fusewise.model", "version": 1, "name": "m", "about": "", "dtype": "float32",
    "input": [{"name": "x", "shape": [4]}], "batch_size": 1, "layers": [{"kind": "linear", "out_features": 2}]})";
  const Field file = Field::parse(text, "m.json");
  CHECK(tensor_count(read_model(file)) == 2);
  CHECK_THROWS_WITH_AS((void)read_model(file, {.sequence_length = 3}),
                       "m.json: /: expected a model with a sequence_length, got one without", InputError);
}

}  // namespace
}  // namespace core
