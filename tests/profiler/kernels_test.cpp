// Every kind of layer against plain loops in double, and its gradients against finite differences of those.

#include "profiler/cpu/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "models/kinds.hpp"
#include "sim/draws.hpp"
#include "tests/profiler/plain_layers.hpp"

namespace {

using profiler::CpuExecutor;
using profiler::ModelWork;

struct Example {
  std::string inputs;
  std::string layers;
};

/// A layer on what a matrix or a convolution gives, times numbers of its own: so that it has an input with a
/// gradient, and a gradient to start from that differs from element to element.
Example image(const std::string& layer, const std::string& out, const std::string& in = "[4, 6, 7]") {
  return {
      fmt::format(R"([{{"name": "x", "shape": {}}}, {{"name": "y", "shape": {}}}])", in, out),
      fmt::format(R"([{{"name": "before", "kind": "conv2d", "inputs": ["x"], "out_channels": 4, "kernel": 1}},
                          {}, {{"name": "times", "kind": "multiply", "inputs": ["it", "y"]}}])",
                  layer)};
}

Example sequence(const std::string& layer, const std::string& out, int features = 6) {
  return {fmt::format(R"([{{"name": "x", "shape": [5, 4]}}, {{"name": "y", "shape": {}}}])", out),
          fmt::format(R"([{{"name": "before", "kind": "linear", "inputs": ["x"], "out_features": {}}},
                          {}, {{"name": "times", "kind": "multiply", "inputs": ["it", "y"]}}])",
                      features, layer)};
}

Example tokens(const std::string& layer) {
  return {
      R"([{"name": "t", "shape": [7], "element": "token", "vocabulary": 5}, {"name": "y", "shape": [7, 3]}])",
      fmt::format(R"([{}, {{"name": "times", "kind": "multiply", "inputs": ["it", "y"]}}])", layer)};
}

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      image(R"({"name": "it", "kind": "conv2d", "out_channels": 5, "kernel": 3, "padding": 1})", "[5, 6, 7]"),
      image(R"({"name": "it", "kind": "conv2d", "out_channels": 6, "kernel": [3, 2], "stride": [2, 1],
                "padding": [2, 1], "groups": 2, "bias": false})",
            "[6, 4, 8]"),
      image(
          R"({"name": "it", "kind": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2, "dilation": 2, "padding": 3,
                "groups": 4})",
          "[4, 4, 5]"),
      image(R"({"name": "it", "kind": "conv2d", "out_channels": 3, "kernel": 1})", "[3, 6, 7]"),
      image(R"({"name": "it", "kind": "conv2d", "out_channels": 3, "kernel": 1, "stride": 3})", "[3, 2, 3]"),
      image(R"({"name": "it", "kind": "max_pool", "kernel": 3, "stride": 2, "padding": 1})", "[4, 3, 4]"),
      image(R"({"name": "it", "kind": "max_pool", "kernel": 2, "ceil_mode": true})", "[4, 3, 4]"),
      image(
          R"({"name": "it", "kind": "avg_pool", "kernel": 3, "stride": 2, "padding": 1, "ceil_mode": true})",
          "[4, 4, 4]"),
      image(
          R"({"name": "it", "kind": "avg_pool", "kernel": 3, "stride": 1, "padding": 1, "count_padding": false})",
          "[4, 6, 7]"),
      image(R"({"name": "it", "kind": "adaptive_avg_pool", "output": [4, 3]})", "[4, 4, 3]"),
      image(R"({"name": "it", "kind": "batch_norm"})", "[4, 6, 7]"),
      image(R"({"name": "it", "kind": "lrn", "size": 3, "alpha": 0.5})", "[4, 6, 7]"),
      image(R"({"name": "it", "kind": "lrn", "size": 2, "alpha": 0.5, "k": 2})", "[4, 6, 7]"),
      image(R"({"name": "it", "kind": "transpose", "axes": [2, 0, 1]})", "[7, 4, 6]"),
      image(R"({"name": "flat", "kind": "flatten"}, {"name": "it", "kind": "relu"})", "[168]"),
      image(R"({"name": "it", "kind": "concat", "axis": 0, "inputs": ["before", "x", "before"]})",
            "[12, 6, 7]"),
      image(R"({"name": "it", "kind": "concat", "axis": 2, "inputs": ["x", "before"]})", "[4, 6, 14]"),
      sequence(R"({"name": "it", "kind": "linear", "out_features": 3})", "[5, 3]"),
      sequence(R"({"name": "it", "kind": "linear", "out_features": 3, "bias": false})", "[5, 3]"),
      sequence(R"({"name": "it", "kind": "batch_norm"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "layer_norm"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "rms_norm"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "relu"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "gelu"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "gelu", "tanh": true})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "silu"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "tanh"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "hardtanh", "least": -0.3, "most": 0.6})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "dropout", "probability": 0.4})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "add", "inputs": ["before", "before", "y"]})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "multiply", "inputs": ["before", "y", "before"]})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "transpose", "axes": [1, 0]})", "[6, 5]"),
      sequence(R"({"name": "it", "kind": "select", "index": 3})", "[6]"),
      sequence(R"({"name": "it", "kind": "positional_encoding"})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "rotary", "heads": 2, "base": 100})", "[5, 8]", 8),
      sequence(R"({"name": "it", "kind": "attention", "heads": 2})", "[5, 4]", 12),
      sequence(R"({"name": "it", "kind": "attention", "heads": 2, "causal": true, "dropout": 0.3})", "[5, 4]",
               12),
      sequence(R"({"name": "short", "kind": "transpose", "inputs": ["before"], "axes": [1, 0]},
                  {"name": "few", "kind": "linear", "out_features": 3},
                  {"name": "keys", "kind": "transpose", "axes": [1, 0]},
                  {"name": "it", "kind": "attention", "heads": 3, "inputs": ["before", "keys", "keys"]})",
               "[5, 6]"),
      sequence(R"({"name": "it", "kind": "attention", "heads": 1, "inputs": ["before", "before", "before"]})",
               "[5, 6]"),
      sequence(R"({"name": "it", "kind": "lstm", "hidden": 3})", "[5, 3]"),
      sequence(R"({"name": "it", "kind": "lstm", "hidden": 2, "layers": 3, "bidirectional": true})",
               "[5, 4]"),
      sequence(R"({"name": "it", "kind": "lookahead", "context": 2})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "lookahead", "context": 7})", "[5, 6]"),
      sequence(R"({"name": "it", "kind": "cross_entropy", "weight": 0.3})", "[1]"),
      tokens(R"({"name": "it", "kind": "embedding", "inputs": ["t"], "entries": 5, "features": 3})"),
      tokens(
          R"({"name": "it", "kind": "embedding", "inputs": ["t"], "entries": 9, "features": 3, "scaled": true})"),
      tokens(R"({"name": "it", "kind": "position_embedding", "inputs": ["t"], "entries": 9, "features": 3})"),
      // the word embedding's table serves as the last matrix as well, and what it gives is read three times
      {R"([{"name": "t", "shape": [4], "element": "token", "vocabulary": 5}])",
       R"([{"name": "words", "kind": "embedding", "entries": 5, "features": 6},
           {"name": "norm", "kind": "layer_norm"},
           {"name": "mix", "kind": "linear", "out_features": 18},
           {"name": "core", "kind": "attention", "heads": 2, "causal": true},
           {"name": "sum", "kind": "add", "inputs": ["words", "core"]},
           {"name": "gate", "kind": "multiply", "inputs": ["sum", "words"]},
           {"name": "head", "kind": "linear", "out_features": 5, "bias": false, "shares": "words.weight"},
           {"name": "loss", "kind": "cross_entropy"}])"}};
  return all;
}

models::Model model_of(const Example& example) {
  return models::read_model(models::Field::parse(
      fmt::format(R"({{"format": "fusewise.model", "version": 1, "name": "m", "about": "", "batch_size": 1,
                       "dtype": "float32", "input": {}, "layers": {}}})",
                  example.inputs, example.layers),
      "example"));
}

/// Everything forward, then everything backward.
void run(CpuExecutor& executor, const ModelWork& work) {
  for (std::size_t i = 0; i < work.layers.size(); ++i) executor.forward(i);
  for (std::size_t i = work.layers.size(); i-- > 0;) executor.backward(i);
}

double largest(const std::vector<double>& values) {
  double out = 0;
  for (const double each : values) out = std::max(out, std::abs(each));
  return out;
}

/// Within 1e-5 of the largest.
void check_results(const ModelWork& work, CpuExecutor& executor, const plain::State& state) {
  constexpr double kTolerance = 1e-5;
  for (const profiler::LayerWork& each : work.layers) {
    if (!each.runs()) continue;
    CAPTURE(each.layer->name);
    const std::vector<double>& wanted = state.results[each.index];
    const auto result = executor.result(each.index);
    REQUIRE(result.size() == wanted.size());
    double off = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      off = std::max(off, std::abs(static_cast<double>(result[i]) - wanted[i]));
    CHECK(off <= kTolerance * std::max(1.0, largest(wanted)));
  }
}

constexpr double kStep = 1e-5;
/// Of a gradient: 2e-4 of its tensor's largest element, and 1e-5 of the whole loss's scale.
constexpr double kTolerance = 2e-4;
constexpr double kLeast = 1e-5;

/// Up to 8 elements of a gradient against finite differences of the loss.
template <typename LossAt>
void check_gradient(std::span<const float> gradient, std::uint64_t seed, const LossAt& loss_at) {
  double most = 0;
  for (const float each : gradient) most = std::max(most, std::abs(static_cast<double>(each)));
  constexpr std::size_t kChecked = 8;
  for (std::size_t i = 0; i < std::min(kChecked, gradient.size()); ++i) {
    const std::size_t at =
        gradient.size() <= kChecked ? i : static_cast<std::size_t>(sim::hash(seed, i) % gradient.size());
    CAPTURE(at);
    const double slope = (loss_at(at, kStep) - loss_at(at, -kStep)) / (2 * kStep);
    CAPTURE(slope);
    CAPTURE(gradient[at]);
    CHECK(std::abs(static_cast<double>(gradient[at]) - slope) <= kTolerance * most + kLeast);
  }
}

void check_gradients(const ModelWork& work, CpuExecutor& executor, plain::State& state) {
  for (const profiler::LayerWork& each : work.layers) {
    CAPTURE(each.layer->name);
    if (each.runs() && !each.is_end) {
      check_gradient(executor.result_gradient(each.index), each.index, [&](std::size_t at, double by) {
        return plain::loss(work, state, plain::Nudge{.layer = each.index, .element = at, .by = by});
      });
    }
    for (std::size_t i = 0; i < each.layer->tensors.size(); ++i) {
      CAPTURE(i);
      double* const weights = state.weights[each.index][i].data();
      check_gradient(executor.weight_gradient({each.index, i}), each.index, [&](std::size_t at, double by) {
        const double before = weights[at];
        weights[at] += by;
        const double out = plain::loss(work, state);
        weights[at] = before;
        return out;
      });
    }
  }
}

void check(const Example& example, const profiler::InstructionSet& set, int threads, bool with_gradients) {
  CAPTURE(example.layers);
  CAPTURE(set.name);
  CAPTURE(threads);
  constexpr std::int64_t kBatch = 3;
  const models::Model model = model_of(example);
  const ModelWork work = profiler::make_work(model);
  CpuExecutor executor(work, kBatch, threads, set);
  run(executor, work);
  run(executor, work);  // what the first left behind changes nothing
  plain::State state = plain::state_of(work, executor, kBatch);
  const double loss = plain::loss(work, state);
  CHECK(executor.loss() == doctest::Approx(loss).epsilon(1e-4));
  check_results(work, executor, state);
  if (with_gradients) check_gradients(work, executor, state);
}

TEST_CASE(
    "cpu kernels: every kind computes what plain loops do, and its gradients are those of the results") {
  const auto set = profiler::instruction_sets().front();
  for (const Example& example : examples()) check(example, set, 1, true);
}

TEST_CASE("cpu kernels: the same on every instruction set and on two threads") {
  for (const profiler::InstructionSet& set : profiler::instruction_sets())
    for (const Example& example : examples()) check(example, set, 2, set.name == "baseline");
}

TEST_CASE("cpu kernels: every kind that may stand in a file has one, and an example here") {
  std::vector<models::LayerKind> seen;
  for (const Example& example : examples()) {
    const models::Model model = model_of(example);
    for (const models::Layer& layer : model.layers) seen.push_back(layer.kind);
  }
  for (const models::Kind& kind : models::kinds()) {
    CAPTURE(kind.name);
    CHECK(std::find(seen.begin(), seen.end(), kind.kind) != seen.end());
    if (kind.kind != models::LayerKind::flatten) CHECK_NOTHROW((void)profiler::kernel(kind.kind));
  }
}

}  // namespace
