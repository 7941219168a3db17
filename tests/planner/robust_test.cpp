// Random iterations against direct recomputation and the simulator; robust plans against every grouping on
// the same samples.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/choose/sampled.hpp"
#include "planner/choose/simulate_iteration.hpp"
#include "planner/graph/lowered.hpp"
#include "sim/draws.hpp"
#include "sim/simulate.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using sim::Time;
using support::gradients_of;
using support::pair_of;
using support::Random;
using support::Scene;
using support::shown;

constexpr double kRangeOfNormal = 1.349;

/// A request with the schedule that it refers to.
struct Asked {
  Schedule schedule;
  FusionRequest request;

  Asked(const Scene& scene, const std::string& json)
      : schedule(support::schedule_of(json)), request(request_of(scene.setting, schedule)) {}
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  Groups fuse() const { return found().groups; }
  const Proof& proof() const { return found().proof.value(); }
  const SampledProof& sampled() const { return proof().sampled.value(); }

 private:
  const Grouping& found() const {
    if (!found_) found_ = schedule.fusion.fuse(request);
    return *found_;
  }

  mutable std::optional<Grouping> found_;
};

std::string robust(const std::string& keys = "", const std::string& pipeline = "wfbp") {
  return fmt::format(R"({{"pipeline": "{}", "fusion": {{"kind": "robust"{}{}}}}})", pipeline,
                     keys.empty() ? "" : ", ", keys);
}

/// Sets the spreads that give these standard deviations of the logarithm.
void spread(core::ProfileLayer& layer, double forward_sigma, double backward_sigma) {
  layer.forward_spread_us = forward_sigma * kRangeOfNormal * layer.forward_us;
  layer.backward_spread_us = backward_sigma * kRangeOfNormal * layer.backward_us;
}

/// Gives most layers a random spread.
void spread(core::Profile& profile, Random& random) {
  for (core::ProfileLayer& layer : profile.layers)
    if (!random.one_in(4)) spread(layer, random.below(60) / 64.0, random.below(60) / 64.0);
}

std::vector<Groups> all_groupings(std::uint32_t gradients) {
  std::vector<Groups> out;
  for (std::uint32_t cuts = 0; cuts < 1U << (gradients - 1); ++cuts) {
    Groups groups = {{.begin = 0, .end = 1}};
    for (std::uint32_t i = 1; i < gradients; ++i)
      if (((cuts >> (i - 1)) & 1U) != 0)
        groups.push_back({.begin = i, .end = i + 1});
      else
        groups.back().end = i + 1;
    out.push_back(std::move(groups));
  }
  return out;
}

// ---- statistics

TEST_CASE("sampled: the 95th percentile is the value at that rank, the mean that of the sum") {
  for (std::uint32_t count = 1; count <= 200; ++count) {
    CAPTURE(count);
    Random random(count);
    std::vector<Time> values(count);
    for (Time& value : values) value = Time(random.between(0, 50) * 1'000'003);
    std::vector<Time> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    std::size_t rank = 0;  // the first rank at which 95 of 100 are reached
    while (100 * rank < 95 * count) ++rank;
    CHECK(of(Statistic::p95, values) == sorted[rank - 1]);
    CHECK(of(Statistic::mean, values) == std::accumulate(values.begin(), values.end(), Time{}) / count);
  }
}

TEST_CASE("sampled: the mean of times whose sum does not fit the clock") {
  const Time max = sim::from_us(sim::kMaxUs);
  CHECK(of(Statistic::mean, {max, max, max - Time(3)}) == max - Time(1));
}

// ---- what varies

TEST_CASE("sampled: a layer varies as its spread or the jitter says, whichever is more") {
  core::Profile profile = support::profile_of({{10, 20, {1}}, {40, 0, {1}}, {5, 8, {1}}});
  profile.layers[0].forward_spread_us = kRangeOfNormal * 10 * 0.25;
  profile.layers[0].backward_spread_us = kRangeOfNormal * 20 * 0.0625;
  profile.layers[1].backward_spread_us = 7;    // of a layer that takes no time
  profile.layers[2].backward_spread_us = 1e6;  // measured, but beyond any lognormal
  Conditions conditions;
  conditions.jitter.sigma = 0.125;
  conditions.accumulation_steps = 3;
  const Scene scene(profile, pair_of(1, 1), 2, conditions);
  const Variation variation(scene.setting);
  CHECK(variation.forward[0] == doctest::Approx(0.25));
  CHECK(variation.forward[1] == 0.125);
  CHECK(variation.forward[2] == 0.125);
  CHECK(variation.backward[0] == 0.125);
  CHECK(variation.backward[1] == 0);
  CHECK(variation.backward[2] == 2);
  // of a pass: 0.25 of 10 in 55; 0.0625 of 20 and 2 of 8 in 28
  CHECK(variation.micro_batch_forward == 0.125);
  CHECK(variation.micro_batch_backward == doctest::Approx(std::sqrt(1.25 * 1.25 + 16 * 16) / 28));
  CHECK(variation.tasks == 6 + 4);
}

TEST_CASE("sampled: without spread and jitter nothing is drawn") {
  Conditions conditions;
  conditions.accumulation_steps = 4;
  const Scene scene(gradients_of({{10, 40}, {20, 8}}), pair_of(1, 1), 3, conditions);
  CHECK(Variation(scene.setting).tasks == 0);
}

TEST_CASE("sampled: factors have mean 1 and their sigma, and one for each sample, worker, pass and layer") {
  constexpr double kSigma = 0.3;
  constexpr int kCount = 20'000;
  double sum = 0;
  double sum_of_squares = 0;
  for (std::uint64_t sample = 0; sample < kCount; ++sample) {
    const double factor = sample_factor(7, sample, 3, SampledPass::forward, 2, kSigma);
    sum += factor;
    sum_of_squares += factor * factor;
  }
  const double variance = std::exp(kSigma * kSigma) - 1;
  CHECK(sum / kCount == doctest::Approx(1).epsilon(4 * std::sqrt(variance / kCount)));
  CHECK(sum_of_squares / kCount - 1 == doctest::Approx(variance).epsilon(0.06));
  const auto factor = [](std::uint64_t seed, std::uint64_t sample, std::int64_t worker, SampledPass pass,
                         std::uint32_t item) {
    return sample_factor(seed, sample, worker, pass, item, kSigma);
  };
  const double one = factor(1, 2, 3, SampledPass::forward, 4);
  CHECK(one == factor(1, 2, 3, SampledPass::forward, 4));
  CHECK(one != factor(2, 2, 3, SampledPass::forward, 4));
  CHECK(one != factor(1, 3, 3, SampledPass::forward, 4));
  CHECK(one != factor(1, 2, 4, SampledPass::forward, 4));
  CHECK(one != factor(1, 2, 3, SampledPass::backward, 4));
  CHECK(one != factor(1, 2, 3, SampledPass::forward, 5));
}

// ---- samples against direct recomputation

/// The time of a task of one worker in one sample, identified as in the simulator.
Time sampled_task(const Setting& setting, const TaskLabel& label, std::uint64_t seed, std::int64_t worker) {
  using Kind = TaskLabel::Kind;
  const Variation variation(setting);
  const core::Profile& profile = *setting.workload.profile;
  double us = 1;
  for (const Straggler& straggler : setting.conditions.stragglers)
    if (straggler.worker == worker) us = straggler.slowdown;
  const auto sampled = [&](double time_us, SampledPass pass, std::uint32_t item, double sigma) {
    return sim::from_us(time_us * us * sample_factor(seed, label.iteration, worker, pass, item, sigma));
  };
  if (label.kind == Kind::forward)
    return sampled(profile.layers[label.item].forward_us, SampledPass::forward, label.item,
                   variation.forward[label.item]);
  if (label.kind == Kind::micro_batch_forward)
    return sampled(core::forward_us(profile), SampledPass::micro_batch_forward, label.item - 1,
                   variation.micro_batch_forward);
  if (label.kind == Kind::micro_batch_backward)
    return sampled(core::backward_us(profile), SampledPass::micro_batch_backward, label.item,
                   variation.micro_batch_backward);
  const BackwardStep& step = setting.workload.backward[label.item];
  const core::ProfileLayer& layer = profile.layers[step.layer];
  const bool whole = step.tensor == BackwardStep::kWholeLayer;
  return sampled(whole ? layer.backward_us : *layer.tensors[step.tensor].backward_us, SampledPass::backward,
                 step.layer, variation.backward[step.layer]);
}

/// A scene with parts of layers, layers without tensors, spreads, sometimes jitter, a straggler and several
/// micro-batches.
Scene varied_scene(Random& random, std::int64_t workers, std::uint32_t max_layers = 6) {
  core::Profile profile = support::random_profile(random, max_layers);
  spread(profile, random);
  Conditions conditions;
  conditions.accumulation_steps = random.between(1, 3);
  if (random.one_in(2)) conditions.jitter.sigma = random.below(50) / 64.0;
  if (random.one_in(2)) conditions.stragglers = {{.worker = random.between(0, 3), .slowdown = 1.5}};
  return {std::move(profile), support::random_link(random), workers, conditions};
}

TEST_CASE("sampled: a sample is every worker by itself, and the last of them at each point") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = varied_scene(random, 3);
    const Workload& mean = scene.setting.workload;
    constexpr std::uint32_t kSample = 5;
    const Workload got = sampled_workload(scene.setting, Variation(scene.setting), seed, kSample);
    const auto layers = static_cast<std::uint32_t>(mean.forward.size());
    const auto batches = static_cast<std::uint32_t>(scene.setting.conditions.accumulation_steps);

    std::vector<Time> forward_from(layers);
    std::vector<Time> ready(mean.gradients.size());
    Time backward_end{};
    for (std::int64_t worker = 0; worker < 3; ++worker) {
      const auto task = [&](TaskLabel::Kind kind, std::uint32_t item) {
        return sampled_task(scene.setting, {.kind = kind, .iteration = kSample, .item = item}, seed, worker);
      };
      Time at{};
      for (std::uint32_t layer = layers; layer-- > 0;) {
        at += task(TaskLabel::Kind::forward, layer);
        forward_from[layer] = std::max(forward_from[layer], at);
      }
      for (std::uint32_t batch = 1; batch < batches; ++batch)
        at += task(TaskLabel::Kind::micro_batch_backward, batch - 1) +
              task(TaskLabel::Kind::micro_batch_forward, batch);
      for (std::uint32_t step = 0; step < mean.backward.size(); ++step) {
        at += task(TaskLabel::Kind::backward, step);
        for (std::size_t i = 0; i < ready.size(); ++i)
          if (mean.gradients[i].backward_step == step) ready[i] = std::max(ready[i], at);
      }
      backward_end = std::max(backward_end, at);
    }

    CHECK(got.forward_total == forward_from[0]);
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      CHECK(std::accumulate(got.forward.begin() + layer, got.forward.end(), Time{}) == forward_from[layer]);
    for (std::size_t i = 0; i < ready.size(); ++i)
      CHECK(got.forward_total + got.gradients[i].ready == ready[i]);
    CHECK(got.forward_total + got.backward_total == backward_end);
    Time at{};
    for (const BackwardStep& step : got.backward) {
      CHECK(step.duration >= Time::zero());
      at += step.duration;
      const auto index = static_cast<std::uint32_t>(&step - got.backward.data());
      for (const Gradient& gradient : got.gradients)
        if (gradient.backward_step == index) CHECK(gradient.ready == at);
    }
    CHECK(at == got.backward_total);
    CHECK(got.bytes_before == mean.bytes_before);
  }
}

TEST_CASE("sampled: a straggler that is always last is the workload of the slowest") {
  Conditions conditions;
  conditions.stragglers = {{.worker = 1, .slowdown = 3}};
  const Scene scene(gradients_of({{10, 40}, {20, 8}}), pair_of(1, 1), 2, conditions);
  const Workload got = sampled_workload(scene.setting, Variation(scene.setting), 1, 0);
  CHECK(got.gradients[0].ready == sim::from_us(30));
  CHECK(got.gradients[1].ready == sim::from_us(90));
}

// ---- samples against the simulator

const std::vector<std::string> kBarrierPipelines = {R"({"pipeline": "wfbp"})",
                                                    R"({"pipeline": "after_backward"})"};

/// Simulates again with each worker's sampled compute times, and the update time of the slowest.
sim::Timeline with_draws(const Setting& setting, const Lowered& lowered, std::uint64_t seed) {
  using Kind = TaskLabel::Kind;
  sim::TaskGraphBuilder builder;
  for (const std::string& stream : lowered.graph.streams()) builder.add_stream(stream);
  const auto tasks = lowered.graph.tasks();
  for (sim::Task task : tasks) {
    const TaskLabel label = TaskLabel::unpack(task.label);
    if (label.kind == Kind::forward || label.kind == Kind::backward ||
        label.kind == Kind::micro_batch_forward || label.kind == Kind::micro_batch_backward)
      task.duration =
          sampled_task(setting, label, seed, static_cast<std::int64_t>(Lowered::worker_of(task.stream)));
    if (label.kind == Kind::update) task.duration = setting.extras.update;
    builder.add_task(task);
  }
  for (std::uint32_t task = 0; task < tasks.size(); ++task)
    for (const sim::TaskId next : lowered.graph.successors(sim::TaskId{task}))
      builder.add_dependency(sim::TaskId{task}, next);
  return sim::simulate(std::move(builder).build());
}

TEST_CASE("sampled: three workers simulated with the same draws take as long, iteration by iteration") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    core::Profile profile = support::random_profile(random, 5);
    // If backward ends in a layer with tensors, no worker is ahead of the others in the next iteration.
    if (profile.layers.front().tensors.empty())
      profile.layers.front().tensors = {{.name = "first", .elements = 10}};
    if (profile.layers.front().tensors.front().backward_us) {
      const core::ProfileLayer& layer = profile.layers.front();
      profile.layers.front().tensors = {{.name = "first", .elements = 10, .backward_us = layer.backward_us}};
    }
    spread(profile, random);
    Conditions conditions;
    conditions.iterations = 5;
    conditions.accumulation_steps = random.between(1, 3);
    conditions.jitter.sigma = 1.0 / 16;  // forces the simulation of every worker
    conditions.stragglers = {{.worker = 2, .slowdown = 1.25}};
    conditions.optimizer_us = random.below(9);
    conditions.read_us = random.below(9);
    conditions.read_is_overlapped = random.one_in(2);
    const Scene scene(std::move(profile), support::random_link(random), 3, conditions);
    for (const std::string& json : kBarrierPipelines) {
      CAPTURE(json);
      const Asked asked(scene, json);
      const Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
      const Lowered lowered = lower_every_worker(
          scene.setting, simulate_groups(scene.setting, asked.schedule, groups, asked.request.transfers));
      const Samples samples(asked.request, {.samples = conditions.iterations, .seed = seed});
      const std::vector<Time> values = samples.values(groups);
      const sim::Timeline timeline = with_draws(scene.setting, lowered, seed);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Time length = at_mark(lowered.marks[i + 1], timeline) - at_mark(lowered.marks[i], timeline);
        CHECK(values[i] == length);
      }
    }
  }
}

TEST_CASE("sampled: simulated as the workload of one worker, a sample takes what its model says") {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = varied_scene(random, 3);
    for (const std::string pipeline : {"wfbp", "after_backward", "dear", "zero"}) {
      CAPTURE(pipeline);
      const Asked asked(scene, fmt::format(R"({{"pipeline": "{}"}})", pipeline));
      const Samples samples(asked.request, {.samples = 4, .seed = seed, .communication_sigma = 0.25});
      const Groups groups = support::random_groups(random, scene.setting.workload.gradient_count());
      const std::vector<Time> values = samples.values(groups);
      for (std::size_t i = 0; i < samples.count(); ++i)
        CHECK(values[i] == simulate_iteration(samples.request(i), groups));
    }
  }
}

TEST_CASE("sampled: the mean is that of long simulations with jitter, within four standard errors") {
  constexpr std::int64_t kSamples = 1000;
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions;
    conditions.jitter = {.sigma = 0.3, .seed = 11};
    conditions.iterations = 3001;
    const Scene scene(gradients_of({{50, 40}, {70, 80}, {20, 400}, {90, 40}}), pair_of(20, 0.125),
                      2 + static_cast<std::int64_t>(seed), conditions);
    const Asked asked(scene, R"("wfbp")");
    const Samples samples(asked.request, {.samples = kSamples, .seed = seed});
    const std::vector<Time> values = samples.values(asked.fuse());
    double sum = 0;
    double squares = 0;
    for (const Time value : values) {
      sum += sim::to_us(value);
      squares += sim::to_us(value) * sim::to_us(value);
    }
    const double mean = sum / kSamples;
    const double error = std::sqrt((squares / kSamples - mean * mean) * (1.0 / kSamples + 1.0 / 3000));
    CHECK(std::abs(run(scene.setting, asked.schedule).metrics.iteration_us - mean) < 4 * error);
    CHECK(error < 1.5);
  }
}

// ---- communication

TEST_CASE("sampled: every collective of a sample takes one factor longer, and compute none") {
  core::Network network = support::link_of(10, 0.5, 0.25);
  Conditions conditions;
  conditions.lars_us = 8;
  conditions.parallel_tensor_operator = true;
  const Scene scene(gradients_of({{0, 40}, {20, 80}}), network, 4, conditions);
  const Asked asked(scene, R"({"pipeline": "wfbp", "fusion": "all"})");
  const Samples samples(asked.request, {.samples = 300, .seed = 3, .communication_sigma = 0.5});
  REQUIRE(samples.count() == 300);
  const Groups groups = asked.fuse();
  // all-reduce: 6 alpha + (1.5 beta + 0.75 gamma) 120; all-gather of 2 layers: 3 alpha + 0.75 beta 8
  const double whole = 6 * 10 + (1.5 * 0.5 + 0.75 * 0.25) * 120;
  const double gather = 3 * 10 + 0.75 * 0.5 * 8;
  double sum = 0;
  for (std::size_t i = 0; i < samples.count(); ++i) {
    const FusionRequest& request = samples.request(i);
    const double factor = sim::to_us(request.costs.of(core::CollectiveKind::all_reduce).time(120)) / whole;
    CHECK(sim::to_us(evaluate(request, groups)) ==
          doctest::Approx(20 + 2 + factor * (whole + gather)).epsilon(1e-6));
    CHECK(request.workload.backward_total == sim::from_us(20));
    sum += factor;
  }
  CHECK(sum / 300 == doctest::Approx(1).epsilon(0.15));
}

TEST_CASE("sampled: where nothing varies one sample stands for all") {
  const Scene pair(gradients_of({{0, 40}, {20, 80}}), pair_of(1, 1), 2);
  const Asked of_pair(pair, R"("wfbp")");
  CHECK(Samples(of_pair.request, {.samples = 9}).count() == 1);
  CHECK(Samples(of_pair.request, {.samples = 9, .communication_sigma = 0.1}).count() == 9);
  const Scene alone(gradients_of({{0, 40}, {20, 80}}), pair_of(1, 1), 1);
  const Asked of_alone(alone, R"("wfbp")");
  CHECK(Samples(of_alone.request, {.samples = 9, .communication_sigma = 0.1}).count() == 1);
}

TEST_CASE("sampled: draws that do not fit the clock are refused") {
  core::Profile profile = gradients_of({{1e12, 40}});
  profile.layers[0].backward_spread_us = 1e13;
  Conditions conditions;
  conditions.iterations = 1;
  const Scene scene(profile, pair_of(1, 1), 2, conditions);
  const Asked asked(scene, robust(R"("samples": 1000)"));
  CHECK_THROWS_AS(asked.fuse(), Unsupported);
}

// ---- robust plans

// Two layers on two workers; an all-reduce takes 15 us and 0.125 us a byte. Only the layer at the input
// varies, so much that the second gradient may be ready before the first has been sent:
//
//   mean     B2 ---10--- B1 -------20-------
//            A2          ----16----          A1 --19--     49, against 50 for both in one
//
// and if B1 takes g times 20, where g is the maximum of two workers' random factors:
//   apart    10 + max(16, 20 g) + 19
//   in one   10 + 20 g + 20
core::Profile two_layers() {
  core::Profile profile = gradients_of({{10, 8}, {20, 32}});
  spread(profile.layers[0], 0, 1);
  return profile;
}

double later_draw(std::uint64_t sample) {
  return std::max(sample_factor(1, sample, 0, SampledPass::backward, 0, 1),
                  sample_factor(1, sample, 1, SampledPass::backward, 0, 1));
}

TEST_CASE("robust: two gradients that are better apart on average may be better in one over samples") {
  const Scene scene(two_layers(), pair_of(15, 0.125), 2);
  CHECK(support::fused(R"("optimal")", scene) == "1 1");
  const Asked asked(scene, robust());
  CHECK(shown(asked.fuse()) == "2");
  double apart = 0;
  double in_one = 0;
  double best = 0;
  for (std::uint64_t sample = 0; sample < 64; ++sample) {
    const double b1 = 20 * later_draw(sample);
    apart += (29 + std::max(16.0, b1)) / 64;
    in_one += (30 + b1) / 64;
    best += std::min(29 + std::max(16.0, b1), 30 + b1) / 64;
  }
  CHECK(asked.sampled().objective == "mean");
  CHECK(asked.sampled().samples == 64);
  CHECK(sim::to_us(asked.sampled().value) == doctest::Approx(in_one));
  CHECK(sim::to_us(asked.sampled().of_exact_plan) == doctest::Approx(apart));
  CHECK(sim::to_us(asked.sampled().bound) == doctest::Approx(best));
  CHECK(asked.proof().optimality_gap == asked.sampled().value - asked.sampled().bound);
  CHECK(apart - in_one > 0.5);
}

TEST_CASE("robust: what is better on average need not be so in bad iterations") {
  // In the slow iterations of the previous scene B1 is slow, and then separate groups are better in both.
  const Scene scene(two_layers(), pair_of(15, 0.125), 2);
  const Asked asked(scene, robust(R"("objective": "p95")"));
  CHECK(shown(asked.fuse()) == "1 1");
  std::vector<double> draws;
  for (std::uint64_t sample = 0; sample < 64; ++sample) draws.push_back(later_draw(sample));
  std::sort(draws.begin(), draws.end());
  CHECK(asked.sampled().objective == "p95");
  CHECK(sim::to_us(asked.sampled().value) == doctest::Approx(29 + 20 * draws[60]));  // rank 61 of 64
  CHECK(asked.sampled().value == asked.sampled().of_exact_plan);
  CHECK(asked.sampled().value == asked.sampled().bound);
  CHECK(asked.proof().optimality_gap == Time::zero());
}

/// Evaluated exhaustively.
struct Tried {
  Time best = Time::max();
  Time bound{};
};

Tried try_all(const FusionRequest& request, const Sampling& sampling, Statistic statistic) {
  const Samples samples(request, sampling);
  std::vector<Time> own(samples.count(), Time::max());
  Tried out;
  for (const Groups& groups : all_groupings(request.workload.gradient_count())) {
    const std::vector<Time> values = samples.values(groups);
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = std::min(own[i], values[i]);
    out.best = std::min(out.best, of(statistic, values));
  }
  out.bound = of(statistic, own);
  return out;
}

/// Up to 9 gradients of random layers; every other scene has 9 that vary strongly, with significant startups.
Scene small_scene(Random& random) {
  core::Profile profile;
  Conditions conditions;
  conditions.optimizer_us = random.below(30);
  if (random.one_in(2)) {
    std::vector<std::pair<double, std::int64_t>> gradients;
    for (int i = 0; i < 9; ++i) gradients.emplace_back(1 + random.below(100), 4 * random.between(1, 400));
    profile = gradients_of(gradients);
    for (core::ProfileLayer& layer : profile.layers) layer.forward_us = random.below(60);
    conditions.jitter.sigma = 0.2 + random.below(50) / 64.0;
    return {std::move(profile), pair_of(5 + random.below(80), random.below(16) / 64.0), 2, conditions};
  }
  do {
    profile = support::random_profile(random, 6);
  } while (core::tensor_count(profile) > 9);
  spread(profile, random);
  if (random.one_in(2)) conditions.jitter.sigma = random.below(40) / 64.0;
  if (random.one_in(4)) conditions.accumulation_steps = 2;
  if (random.one_in(4)) conditions.stragglers = {{.worker = 1, .slowdown = 1.25}};
  return {std::move(profile), support::random_link(random), 2 + random.below(4), conditions};
}

constexpr const char* kTopK =
    R"(, "compression": {"name": "c", "ratio": 0.25, "encode": {"startup_us": 2, "us_per_byte": 0.001})"
    R"(, "decode": {"us_per_byte": 0.001}, "collective": "all_reduce"})";

TEST_CASE(
    "robust: nearly always the best of all groupings, and never worse than the exact plan of the mean") {
  int asked_for = 0;
  int best = 0;
  int proven = 0;
  int bettered = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(400); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = small_scene(random);
    const std::string pipeline = std::vector<std::string>{"wfbp", "dear", "zero", "after_backward"}[seed % 4];
    const std::string compression = random.one_in(4) ? kTopK : "";
    const double communication_sigma = random.one_in(2) ? 0.25 : 0;
    for (const Statistic statistic : {Statistic::mean, Statistic::p95}) {
      const Asked asked(
          scene, fmt::format(R"({{"pipeline": "{}"{}, "fusion": {{"kind": "robust", "objective": "{}",)"
                             R"( "samples": 24, "seed": {}, "communication_sigma": {}}}}})",
                             pipeline, compression, name(statistic), seed, communication_sigma));
      const Sampling sampling = {.samples = 24, .seed = seed, .communication_sigma = communication_sigma};
      const Groups groups = asked.fuse();
      const SampledProof proof = asked.sampled();
      CHECK(support::covers(groups, scene.setting.workload));
      const Samples samples(asked.request, sampling);
      CHECK(proof.value == of(statistic, samples.values(groups)));
      CHECK(proof.of_exact_plan == of(statistic, samples.values(asked.request.model().optimal({}).groups)));
      CHECK(proof.value <= proof.of_exact_plan);
      const Tried tried = try_all(asked.request, sampling, statistic);
      CHECK(proof.bound == tried.bound);
      CHECK(proof.value >= tried.best);
      ++asked_for;
      best += proof.value == tried.best ? 1 : 0;
      proven += proof.value == proof.bound ? 1 : 0;
      bettered += proof.value < proof.of_exact_plan ? 1 : 0;
    }
  }
  MESSAGE("the best of all groupings in " << best << " of " << asked_for << ", proven so in " << proven
                                          << ", better than the exact plan of the mean in " << bettered);
  CHECK(best >= asked_for * 98 / 100);
  CHECK(bettered > asked_for / 4);
}

TEST_CASE("robust: the exact plan where nothing varies, or one worker is alone") {
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t workers = 1 + random.below(3);
    Conditions conditions = support::random_conditions(random);
    if (workers == 1) conditions.jitter.sigma = 0.5;
    core::Profile profile = support::random_profile(random, 9);
    const Scene scene(std::move(profile), support::random_link(random), workers, conditions);
    for (const std::string pipeline : {"wfbp", "after_backward", "dear", "zero"}) {
      CAPTURE(pipeline);
      const Asked asked(scene, robust(random.one_in(2) ? R"("objective": "p95")" : "", pipeline));
      const OptimalGroups exact = asked.request.model().optimal({});
      CHECK(asked.fuse() == exact.groups);
      CHECK(asked.proof().optimality_gap == Time::zero());
      CHECK(asked.sampled().value == asked.sampled().of_exact_plan);
      if (workers > 1) {
        const std::int64_t further = conditions.accumulation_steps - 1;
        const double rest = sim::to_us(asked.sampled().value - exact.value) -
                            static_cast<double>(further) * sim::to_us(scene.setting.workload.forward_total +
                                                                      scene.setting.workload.backward_total);
        CHECK(std::abs(rest) < 1e-3);  // a micro-batch is rounded as a whole
      }
    }
  }
}

TEST_CASE("robust: slow-down that is simulated is searched too, with a bound that holds") {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    core::Profile profile;
    do {
      profile = support::random_profile(random, 5);
    } while (core::tensor_count(profile) > 6);
    spread(profile, random);
    Conditions conditions;
    conditions.overlap = {.compute_slowdown = 0.5, .communication_slowdown = 0.25};
    conditions.jitter.sigma = 0.25;
    const Scene scene(std::move(profile), support::random_link(random), 2, conditions);
    for (const std::string pipeline : {"wfbp", "dear"}) {
      CAPTURE(pipeline);
      const Asked asked(scene, robust(R"("samples": 8)", pipeline));
      asked.fuse();
      const Tried tried = try_all(asked.request, {.samples = 8}, Statistic::mean);
      CHECK(asked.sampled().bound <= tried.bound);
      CHECK(asked.sampled().value >= tried.best);
      CHECK(asked.sampled().value <= asked.sampled().of_exact_plan);
    }
  }
}

TEST_CASE("robust: constraints hold") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene = small_scene(random);
    const std::uint32_t count = 1 + random.below(scene.setting.workload.gradient_count());
    const Asked asked(scene, robust(fmt::format(R"("constraints": {{"groups": {}}})", count)));
    CHECK(asked.fuse().size() == count);
    CHECK(asked.sampled().value <= asked.sampled().of_exact_plan);
  }
}

TEST_CASE("robust: the same seed gives the same plan, another one other samples") {
  Random random(4);
  const Scene scene = varied_scene(random, 4, 9);
  const Asked one(scene, robust(R"("seed": 7)"));
  const Asked same(scene, robust(R"("seed": 7)"));
  const Asked other(scene, robust(R"("seed": 8)"));
  CHECK(one.fuse() == same.fuse());
  CHECK(one.sampled().value == same.sampled().value);
  other.fuse();
  CHECK(one.sampled().of_exact_plan != other.sampled().of_exact_plan);
}

// ---- files

TEST_CASE("robust: keys that are wrong are named") {
  const Scene scene(two_layers(), pair_of(1, 1), 2);
  const auto refused = [&](const std::string& keys, const std::string& message) {
    CAPTURE(keys);
    CHECK_THROWS_WITH_AS(support::schedule_of(robust(keys)), message.c_str(), core::InputError);
  };
  refused(R"("objective": "median")",
          R"(s.json: /fusion/objective: expected one of mean, p95, got "median", did you mean 'mean'?)");
  refused(R"("samples": 0)", "s.json: /fusion/samples: expected an integer from 1 to 1000, got 0");
  refused(R"("samples": 1001)", "s.json: /fusion/samples: expected an integer from 1 to 1000, got 1001");
  refused(R"("communication_sigma": 3)",
          "s.json: /fusion/communication_sigma: expected a number from 0 to 2, got 3");
  refused(R"("sample": 3)",
          "s.json: /fusion/sample: expected a key among kind, objective, samples, seed, communication_sigma, "
          "constraints, got 'sample', did you mean 'samples'?");
}

TEST_CASE("robust: more draws than there is time for are refused, naming what would do") {
  core::Profile profile = gradients_of(std::vector<std::pair<double, std::int64_t>>(1000, {1.0, 40}));
  Conditions conditions;
  conditions.jitter.sigma = 0.1;
  const Scene many(profile, pair_of(1, 1), 50'000, conditions);
  const auto refused = [](const Asked& asked, const std::string& message) {
    CHECK_THROWS_WITH_AS(asked.fuse(), message.c_str(), core::InputError);
  };
  refused(
      Asked(many, robust(R"("samples": 30)")),
      "s.json: /fusion/samples: expected at most 10 samples of 50000 workers that compute 2000 tasks each, "
      "got 30");
  refused(
      Asked(many, R"({"fusion": "robust"})"),
      "s.json: /fusion: expected at most 10 samples of 50000 workers that compute 2000 tasks each, got 64");
  conditions.accumulation_steps = 501;
  const Scene more(profile, pair_of(1, 1), 1'000'000, conditions);
  refused(Asked(more, robust()),
          "s.json: /fusion: expected at most 333333 workers that compute 3000 tasks each, got 1000000");
}

}  // namespace
}  // namespace planner
