// Compares every kind of layer with plain loops in double, and its gradients with finite differences of
// those.

#include "profiler/layers/cpu/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/model/kinds.hpp"
#include "sim/draws.hpp"
#include "tests/profiler/instruction_sets.hpp"
#include "tests/profiler/layer_examples.hpp"
#include "tests/profiler/plain_layers.hpp"
#include "tests/support/needs.hpp"

namespace {

using profiler::CpuExecutor;
using profiler::ModelWork;
using support::LayerExample;
using support::model_of;

/// Runs everything forward, then everything backward.
void run(CpuExecutor& executor, const ModelWork& work) {
  for (std::size_t i = 0; i < work.layers.size(); ++i) executor.forward(i);
  for (std::size_t i = work.layers.size(); i-- > 0;) executor.backward(i);
}

double largest(const std::vector<double>& values) {
  double out = 0;
  for (const double each : values) out = std::max(out, std::abs(each));
  return out;
}

/// Checks results within 1e-5 of the largest.
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
/// Tolerance of a gradient: 2e-4 of its tensor's largest element, and 1e-5 of the scale of the whole loss.
constexpr double kTolerance = 2e-4;
constexpr double kMin = 1e-5;

/// Compares up to 8 elements of a gradient with finite differences of the loss.
template <typename LossAt>
void check_gradient(std::span<const float> gradient, std::uint64_t seed, const LossAt& loss_at) {
  double max = 0;
  for (const float each : gradient) max = std::max(max, std::abs(static_cast<double>(each)));
  constexpr std::size_t kChecked = 8;
  for (std::size_t i = 0; i < std::min(kChecked, gradient.size()); ++i) {
    const std::size_t at =
        gradient.size() <= kChecked ? i : static_cast<std::size_t>(sim::hash(seed, i) % gradient.size());
    CAPTURE(at);
    const double slope = (loss_at(at, kStep) - loss_at(at, -kStep)) / (2 * kStep);
    CAPTURE(slope);
    CAPTURE(gradient[at]);
    CHECK(std::abs(static_cast<double>(gradient[at]) - slope) <= kTolerance * max + kMin);
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

void check(const LayerExample& example, const profiler::InstructionSet& set, int threads,
           bool with_gradients) {
  CAPTURE(example.layers);
  CAPTURE(set.name);
  CAPTURE(threads);
  constexpr std::int64_t kBatch = 3;
  const core::Model model = model_of(example);
  const ModelWork work = profiler::make_work(model);
  CpuExecutor executor(work, kBatch, threads, set);
  run(executor, work);
  run(executor, work);  // the remains of the first run change nothing
  plain::State state = plain::state_of(work, executor, kBatch);
  const double loss = plain::loss(work, state);
  CHECK(executor.loss() == doctest::Approx(loss).epsilon(1e-4));
  check_results(work, executor, state);
  if (with_gradients) check_gradients(work, executor, state);
}

std::vector<LayerExample> examples() {
  std::vector<LayerExample> out = support::layer_examples();
  out.insert(out.end(), support::cpu_layer_examples().begin(), support::cpu_layer_examples().end());
  return out;
}

TEST_CASE(
    "cpu kernels: every kind computes what plain loops do, and its gradients are those of the results") {
  const auto set = profiler::instruction_sets().front();
  for (const LayerExample& example : examples()) check(example, set, 1, true);
}

void check_on_two_threads(std::string_view name) {
  const profiler::InstructionSet set = support::instruction_set(name);
  for (const LayerExample& example : examples()) check(example, set, 2, name == "baseline");
}

TEST_CASE("cpu kernels: the same on two threads") { check_on_two_threads("baseline"); }
TEST_CASE("cpu kernels: the same on two threads with AVX2" * support::needs(support::no_avx2)) {
  check_on_two_threads("avx2");
}
TEST_CASE("cpu kernels: the same on two threads with AVX-512" * support::needs(support::no_avx512)) {
  check_on_two_threads("avx512");
}

TEST_CASE("cpu kernels: every kind that may stand in a file has one, and an example here") {
  std::vector<core::LayerKind> seen;
  for (const LayerExample& example : examples()) {
    const core::Model model = model_of(example);
    for (const core::Layer& layer : model.layers) seen.push_back(layer.kind);
  }
  for (const core::Kind& kind : core::kinds()) {
    CAPTURE(kind.name);
    CHECK(std::find(seen.begin(), seen.end(), kind.kind) != seen.end());
    if (kind.kind != core::LayerKind::flatten) CHECK_NOTHROW((void)profiler::kernel(kind.kind));
  }
}

}  // namespace
