#include "training/train.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <doctest/doctest.h>

namespace {

using training::Iteration;
using training::Job;
using training::Method;
using training::Result;
using training::Selected;
using training::Vector;

/// Training to the end takes an optimised Eigen: a build without one trains a little and compares no losses.
#ifdef NDEBUG
constexpr bool kOptimised = true;
#else
constexpr bool kOptimised = false;
#endif
constexpr std::uint64_t kSeeds = kOptimised ? 5 : 1;

Job whole_job(std::uint64_t seed) {
  Job job = {.seed = seed};
  if (!kOptimised) job.iterations = 40;
  return job;
}

double final_loss(Job job, std::string_view method, bool error_feedback) {
  job.method = method;
  job.aggregate.error_feedback = error_feedback;
  return training::train(job).final_loss;
}

/// Of all methods that travel like this, for five seeds: with error feedback within 2 % of dense training's
/// loss, without it 10 % or more above.
void check_feedback_matters(std::string_view how) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Job job = whole_job(seed);
    const double dense = final_loss(job, "dense", true);
    for (const Method& method : training::methods()) {
      if (method.how != how) continue;
      CAPTURE(seed);
      CAPTURE(method.name);
      const double with = final_loss(job, method.name, true);
      const double without = final_loss(job, method.name, false);
      if (!kOptimised) continue;
      CHECK(std::abs(with / dense - 1) <= 0.02);
      CHECK(without / dense >= 1.10);
    }
  }
}

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// How far numbers selected are from k, as parts of k, where thresholds are reused, in the second half of a
/// training run.
struct Deviations {
  std::vector<double> local;  ///< of each rank and iteration
  std::vector<double> global;
};

std::size_t kept(const Job& job, const Result& result) {
  return compression::kept_elements(static_cast<std::size_t>(result.parameters[0].size()),
                                    job.aggregate.density);
}

Deviations deviations(const Job& job, const Result& result) {
  const auto k = static_cast<double>(kept(job, result));
  Deviations out;
  for (std::uint64_t i = job.iterations / 2; i < job.iterations; ++i) {
    if (i % job.aggregate.recompute_every == 0) continue;
    const std::vector<Selected>& selected = result.iterations[i].selected;
    for (const Selected& each : selected) out.local.push_back(static_cast<double>(each.local) / k - 1);
    out.global.push_back(static_cast<double>(selected[0].global) / k - 1);
  }
  return out;
}

double mean_magnitude(std::vector<double> x) {
  for (double& each : x) each = std::abs(each);
  return mean_of(x);
}

/// The most that any rank selected in the iteration, or all together.
std::size_t max_selected(const Iteration& iteration) {
  std::size_t max = 0;
  for (const Selected& each : iteration.selected) max = std::max({max, each.local, each.global});
  return max;
}

}  // namespace

TEST_CASE("train: two steps with momentum and a falling rate by hand") {
  const Job job = {.data = {.dimensions = 4, .classes = 3},
                   .hidden = {5},
                   .workers = 1,
                   .samples = 6,
                   .iterations = 2,
                   .learning_rate = 0.5,
                   .last_learning_rate = 0.25,
                   .momentum = 0.5};
  const Result result = training::train(job);
  const training::Shape shape = {4, 5, 3};
  Vector<float> parameters = training::initial_parameters(shape, 1);
  const training::Matrix<float> centres = training::centres(job.data);
  std::vector<Vector<float>> gradients(2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto batch = training::draw_batch(job.data, centres, {.iteration = i, .samples = 6});
    CHECK(result.iterations[i].loss == training::loss(shape, parameters, batch, &gradients[i]));
    if (i == 0) parameters -= 0.5F * gradients[0];
  }
  parameters -= 0.25F * (0.5F * gradients[0] + gradients[1]);
  CHECK((result.parameters[0] - parameters).norm() < 1e-6F);
  CHECK(result.words_per_iteration() == 0);
}

TEST_CASE("train: dense training on four workers is training on all their samples") {
  const Job job = {.data = {.dimensions = 4, .classes = 3}, .hidden = {5}, .iterations = 1};
  Vector<float> sum;
  const training::Shape shape = {4, 5, 3};
  const Vector<float> start = training::initial_parameters(shape, 1);
  for (std::uint32_t worker = 0; worker < 4; ++worker) {
    Vector<float> gradient;
    training::loss(shape, start,
                   training::draw_batch(job.data, training::centres(job.data),
                                        {.worker = worker, .workers = 4, .samples = 8}),
                   &gradient);
    if (worker == 0)
      sum = gradient;
    else
      sum += gradient;
  }
  const Vector<float> expected = start - 0.05F * sum / 4;
  CHECK((training::train(job).parameters[3] - expected).norm() < 1e-6F);
}

TEST_CASE("train: replicas stay the same to the last bit, and a seed gives the same losses again") {
  Job job = {.hidden = {24, 24}, .iterations = 20, .momentum = 0.5, .seed = 3};
  for (const Method& method : training::methods())
    for (const bool error_feedback : {true, false}) {
      CAPTURE(method.name);
      CAPTURE(error_feedback);
      job.method = method.name;
      job.aggregate.error_feedback = error_feedback;
      const Result first = training::train(job);
      const Result again = training::train(job);
      for (const Vector<float>& replica : first.parameters) REQUIRE(replica == first.parameters[0]);
      REQUIRE(first.loss_by_iteration() == again.loss_by_iteration());
      REQUIRE(first.final_loss == again.final_loss);
      REQUIRE(first.parameters[0] == again.parameters[0]);
    }
  job.seed = 4;
  CHECK(training::train(job).final_loss != training::train({.iterations = 20, .seed = 3}).final_loss);
}

TEST_CASE("train: compressors that are gathered need error feedback") {
  check_feedback_matters("all-gather");
}

TEST_CASE("train: sparse collectives need error feedback") { check_feedback_matters("sparse collective"); }

TEST_CASE("train: fp16 and bf16 lose nothing to speak of either way") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Job job = whole_job(seed);
    const double dense = final_loss(job, "dense", true);
    for (const char* method : {"fp16", "bf16"})
      for (const bool error_feedback : {true, false}) {
        CAPTURE(seed);
        CAPTURE(method);
        CHECK(std::abs(final_loss(job, method, error_feedback) / dense - 1) <= 0.02);
      }
  }
}

TEST_CASE("train: dense training learns") {
  const Result result = training::train(whole_job(1));
  CHECK(result.final_loss < result.first_loss * (kOptimised ? 0.5 : 0.95));
}

// The paper's 11 % are of models of which it selects 10^5 elements and more. What deviates here is the norm
// of small batches' gradients and the number of few elements: with 1306 of 13062 elements and 96 samples a
// worker it is 6 to 10 %; with the 313 of 10422 and 8 samples of docs/convergence.md 14 to 18 %, of which at
// most 7 % remain in the mean.
TEST_CASE("train: Ok-Topk selects within 11 % of k where it reuses thresholds") {
  for (std::uint64_t seed = 1; seed <= (kOptimised ? 3 : 1); ++seed) {
    CAPTURE(seed);
    Job job = {
        .hidden = {96, 96}, .samples = 96, .iterations = 800, .last_learning_rate = 0.05, .seed = seed};
    if (!kOptimised) job.iterations = 40;
    job.method = "ok-topk";
    job.aggregate.density = 0.1;
    const Deviations found = deviations(job, training::train(job));
    if (!kOptimised) continue;
    CHECK(mean_magnitude(found.local) <= 0.11);
    CHECK(mean_magnitude(found.global) <= 0.11);
  }
}

TEST_CASE("train: Ok-Topk selects k in the mean even where k and batches are small") {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    Job job = whole_job(seed);
    job.method = "ok-topk";
    const Deviations found = deviations(job, training::train(job));
    if (!kOptimised) continue;
    CHECK(std::abs(mean_of(found.local)) <= 0.11);
    CHECK(std::abs(mean_of(found.global)) <= 0.11);
    CHECK(mean_magnitude(found.local) <= 0.25);
    CHECK(mean_magnitude(found.global) <= 0.25);
  }
}

// The bound presupposes regions that balance. Those made of the very first gradients fit those that follow
// less well the more workers there are (with eight and a density of 2 % one iteration was 8 % over it), so
// eight are counted from the second partition on.
TEST_CASE("train: Ok-Topk receives at most 6k'(P-1)/P words where it reuses thresholds") {
  for (const std::uint32_t workers : {2U, 4U, 8U}) {
    CAPTURE(workers);
    Job job = whole_job(2);
    job.workers = workers;
    job.iterations = std::min<std::uint64_t>(job.iterations, 600);
    job.method = "ok-topk";
    const Result result = training::train(job);
    for (std::uint64_t i = 0; i < job.iterations; ++i) {
      if (i % job.aggregate.recompute_every == 0) continue;
      if (workers == 8 && i < job.aggregate.repartition_every) continue;
      const Iteration& iteration = result.iterations[i];
      CAPTURE(i);
      const auto bound = static_cast<std::int64_t>(6 * max_selected(iteration) * (workers - 1) / workers);
      for (const std::int64_t words : iteration.words_received)
        REQUIRE(words <= bound + workers - 1);  // a control word of each other rank
    }
  }
}

TEST_CASE("train: a method that does not exist and a job without workers or samples are errors") {
  CHECK_THROWS_WITH_AS(training::train({.method = "sgd"}), "train: no method \"sgd\"", std::invalid_argument);
  CHECK_THROWS_AS(training::train({.workers = 0}), std::invalid_argument);
  CHECK_THROWS_AS(training::train({.samples = 0}), std::invalid_argument);
}
