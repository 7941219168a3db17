// Small models with every kind of layer, for tests of backends.

#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/field.hpp"
#include "core/model/model.hpp"

namespace support {

/// A small model with one layer named "it", or a few.
struct LayerExample {
  std::string inputs;
  std::string layers;
};

/// A layer whose input is a matrix product or a convolution, and whose output is multiplied by its own
/// numbers: so it has an input with a gradient, and an output gradient that differs between elements.
inline LayerExample image_example(const std::string& layer, const std::string& out,
                                  const std::string& in = "[4, 6, 7]") {
  return {
      fmt::format(R"([{{"name": "x", "shape": {}}}, {{"name": "y", "shape": {}}}])", in, out),
      fmt::format(R"([{{"name": "before", "kind": "conv2d", "inputs": ["x"], "out_channels": 4, "kernel": 1}},
                          {}, {{"name": "times", "kind": "multiply", "inputs": ["it", "y"]}}])",
                  layer)};
}

inline LayerExample sequence_example(const std::string& layer, const std::string& out, int features = 6) {
  return {fmt::format(R"([{{"name": "x", "shape": [5, 4]}}, {{"name": "y", "shape": {}}}])", out),
          fmt::format(R"([{{"name": "before", "kind": "linear", "inputs": ["x"], "out_features": {}}},
                          {}, {{"name": "times", "kind": "multiply", "inputs": ["it", "y"]}}])",
                      features, layer)};
}

inline LayerExample token_example(const std::string& layer) {
  return {
      R"([{"name": "t", "shape": [7], "element": "token", "vocabulary": 5}, {"name": "y", "shape": [7, 3]}])",
      fmt::format(R"([{}, {{"name": "times", "kind": "multiply", "inputs": ["it", "y"]}}])", layer)};
}

inline const std::vector<LayerExample>& layer_examples() {
  static const std::vector<LayerExample> all = {
      image_example(R"({"name": "it", "kind": "conv2d", "out_channels": 5, "kernel": 3, "padding": 1})",
                    "[5, 6, 7]"),
      image_example(R"({"name": "it", "kind": "conv2d", "out_channels": 6, "kernel": [3, 2], "stride": [2, 1],
                "padding": [2, 1], "groups": 2, "bias": false})",
                    "[6, 4, 8]"),
      image_example(
          R"({"name": "it", "kind": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2, "dilation": 2, "padding": 3,
                "groups": 4})",
          "[4, 4, 5]"),
      image_example(R"({"name": "it", "kind": "conv2d", "out_channels": 3, "kernel": 1})", "[3, 6, 7]"),
      image_example(R"({"name": "it", "kind": "conv2d", "out_channels": 3, "kernel": 1, "stride": 3})",
                    "[3, 2, 3]"),
      image_example(R"({"name": "it", "kind": "max_pool", "kernel": 3, "stride": 2, "padding": 1})",
                    "[4, 3, 4]"),
      image_example(R"({"name": "it", "kind": "max_pool", "kernel": 2, "ceil_mode": true})", "[4, 3, 4]"),
      image_example(
          R"({"name": "it", "kind": "avg_pool", "kernel": 3, "stride": 2, "padding": 1, "ceil_mode": true})",
          "[4, 4, 4]"),
      image_example(
          R"({"name": "it", "kind": "avg_pool", "kernel": 3, "stride": 1, "padding": 1, "count_padding": false})",
          "[4, 6, 7]"),
      image_example(R"({"name": "it", "kind": "adaptive_avg_pool", "output": [4, 3]})", "[4, 4, 3]"),
      image_example(R"({"name": "it", "kind": "batch_norm"})", "[4, 6, 7]"),
      image_example(R"({"name": "it", "kind": "lrn", "size": 3, "alpha": 0.5})", "[4, 6, 7]"),
      image_example(R"({"name": "it", "kind": "lrn", "size": 2, "alpha": 0.5, "k": 2})", "[4, 6, 7]"),
      image_example(R"({"name": "it", "kind": "transpose", "axes": [2, 0, 1]})", "[7, 4, 6]"),
      image_example(R"({"name": "flat", "kind": "flatten"}, {"name": "it", "kind": "relu"})", "[168]"),
      image_example(R"({"name": "it", "kind": "concat", "axis": 0, "inputs": ["before", "x", "before"]})",
                    "[12, 6, 7]"),
      image_example(R"({"name": "it", "kind": "concat", "axis": 2, "inputs": ["x", "before"]})",
                    "[4, 6, 14]"),
      sequence_example(R"({"name": "it", "kind": "linear", "out_features": 3})", "[5, 3]"),
      sequence_example(R"({"name": "it", "kind": "linear", "out_features": 3, "bias": false})", "[5, 3]"),
      sequence_example(R"({"name": "it", "kind": "batch_norm"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "layer_norm"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "rms_norm"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "relu"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "gelu"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "gelu", "tanh": true})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "silu"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "tanh"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "hardtanh", "min": -0.3, "max": 0.6})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "dropout", "probability": 0.4})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "add", "inputs": ["before", "before", "y"]})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "multiply", "inputs": ["before", "y", "before"]})",
                       "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "transpose", "axes": [1, 0]})", "[6, 5]"),
      sequence_example(R"({"name": "it", "kind": "select", "index": 3})", "[6]"),
      sequence_example(R"({"name": "it", "kind": "positional_encoding"})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "rotary", "heads": 2, "base": 100})", "[5, 8]", 8),
      sequence_example(R"({"name": "it", "kind": "attention", "heads": 2})", "[5, 4]", 12),
      sequence_example(R"({"name": "it", "kind": "attention", "heads": 2, "causal": true, "dropout": 0.3})",
                       "[5, 4]", 12),
      sequence_example(R"({"name": "short", "kind": "transpose", "inputs": ["before"], "axes": [1, 0]},
                  {"name": "few", "kind": "linear", "out_features": 3},
                  {"name": "keys", "kind": "transpose", "axes": [1, 0]},
                  {"name": "it", "kind": "attention", "heads": 3, "inputs": ["before", "keys", "keys"]})",
                       "[5, 6]"),
      sequence_example(
          R"({"name": "it", "kind": "attention", "heads": 1, "inputs": ["before", "before", "before"]})",
          "[5, 6]"),
      sequence_example(R"({"name": "keys", "kind": "linear", "inputs": ["x"], "out_features": 4},
                  {"name": "values", "kind": "linear", "inputs": ["x"], "out_features": 4},
                  {"name": "it", "kind": "attention", "heads": 6, "key_value_heads": 2, "causal": true, "dropout": 0.2,
                   "inputs": ["before", "keys", "values"]})",
                       "[5, 12]", 12),
      sequence_example(R"({"name": "it", "kind": "lstm", "hidden": 3})", "[5, 3]"),
      sequence_example(R"({"name": "it", "kind": "lstm", "hidden": 2, "layers": 3, "bidirectional": true})",
                       "[5, 4]"),
      sequence_example(R"({"name": "it", "kind": "lookahead", "context": 2})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "lookahead", "context": 7})", "[5, 6]"),
      sequence_example(R"({"name": "it", "kind": "cross_entropy", "weight": 0.3})", "[1]"),
      token_example(R"({"name": "it", "kind": "embedding", "inputs": ["t"], "entries": 5, "features": 3})"),
      token_example(
          R"({"name": "it", "kind": "embedding", "inputs": ["t"], "entries": 9, "features": 3, "scaled": true})"),
      token_example(
          R"({"name": "it", "kind": "position_embedding", "inputs": ["t"], "entries": 9, "features": 3})"),
      // The table of the word embedding also serves as the last matrix, and its result is read three times.
      {R"([{"name": "t", "shape": [4], "element": "token", "vocabulary": 5}])",
       R"([{"name": "words", "kind": "embedding", "entries": 5, "features": 6},
           {"name": "norm", "kind": "layer_norm"},
           {"name": "mix", "kind": "linear", "out_features": 18},
           {"name": "core", "kind": "attention", "heads": 2, "causal": true},
           {"name": "sum", "kind": "add", "inputs": ["words", "core"]},
           {"name": "gate", "kind": "multiply", "inputs": ["sum", "words"]},
           {"name": "head", "kind": "linear", "out_features": 5, "bias": false, "tied_to": "words.weight"},
           {"name": "loss", "kind": "cross_entropy"}])"}};
  return all;
}

/// Those of kinds that a CPU runs, and no GPU.
inline const std::vector<LayerExample>& cpu_layer_examples() {
  static const std::vector<LayerExample> all = {
      sequence_example(R"({"name": "scores", "kind": "linear", "inputs": ["x"], "out_features": 4},
                  {"name": "it", "kind": "experts", "experts": 4, "chosen": 2, "hidden": 3,
                   "inputs": ["before", "scores"]})",
                       "[5, 6]"),
      // Of 20 experts some are chosen by no position; the scores are read by another layer, too.
      sequence_example(R"({"name": "scores", "kind": "linear", "inputs": ["before"], "out_features": 20},
                  {"name": "mix", "kind": "experts", "experts": 20, "chosen": 1, "hidden": 5,
                   "inputs": ["before", "scores"]},
                  {"name": "other", "kind": "linear", "inputs": ["scores"], "out_features": 6},
                  {"name": "it", "kind": "add", "inputs": ["mix", "other", "before"]})",
                       "[5, 6]")};
  return all;
}

inline core::Model model_of(const LayerExample& example) {
  return core::read_model(core::Field::parse(
      fmt::format(R"({{"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 1,
                       "dtype": "float32", "input": {}, "layers": {}}})",
                  example.inputs, example.layers),
      "example"));
}

}  // namespace support
