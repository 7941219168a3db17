// Per-group compression: every candidate of `consider` against all groupings with all transfers, by the
// contract's definitions; and heuristic results against their bounds.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "planner/advise/consider.hpp"
#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using doctest::Approx;
using support::PipelineCase;
using support::Random;
using support::Scene;

/// The shortest iteration over all groupings, with each group compressed or not if the candidate allows it.
double best_of_all_us(const Scene& scene, const PipelineCase& pipeline, const Candidate& candidate) {
  Compressor compressor = candidate.schedule.compressor;
  if (compressor.name == "gaussian-k") compressor.name = "topk-a";  // both send the same traffic
  std::vector<Transfer> transfers = {{.all_reduce = {.name = "ring"}, .compressor = compressor}};
  if (candidate.is_per_group) transfers.push_back({.all_reduce = {.name = "ring"}, .compressor = {}});
  const support::Reference reference(scene, pipeline.name, pipeline.overlap_gather, transfers);
  const double us = sim::to_us(std::get<sim::Time>(reference.best(support::any_grouping)));
  const Conditions& conditions = scene.setting.conditions;
  return conditions.read_is_overlapped ? std::max(us, conditions.read_us) : us;
}

/// A small job with its own compressor, and the result of `consider`.
struct Considered {
  std::unique_ptr<Scene> scene;
  PipelineCase pipeline;
  double factor = 1;  ///< factor on the compressor's iterations
  Consideration all;
};

template <typename Check>
void for_small_jobs(std::uint32_t seeds, ChoiceEffort effort, Check check) {
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Considered out = {.scene = small_scene(random, 5, support::NetworkKind{seed % 3}),
                      .pipeline = support::pipeline_cases()[seed % support::pipeline_cases().size()]};
    const Compressor x = support::random_compressor(random, "x", out.pipeline.halves);
    out.factor = random.one_in(2) ? 1 : 1 + static_cast<double>(random.below(8)) / 64;
    out.all =
        consider(out.scene->setting, support::schedule_of(fmt::format("{{{}}}", out.pipeline.keys())),
                 {.densities = {0.125}, .extra = {{"x", {}, out.factor}}, .offered = {x}, .effort = effort});
    check(out);
  }
}

/// The least weighed time over all groupings and candidates, whether they encode anything or nothing.
double min_weighed_us(const Considered& job) {
  double min = std::numeric_limits<double>::max();
  for (const Candidate& candidate : job.all.candidates)
    min = std::min(min, best_of_all_us(*job.scene, job.pipeline, candidate) * candidate.extra_iterations);
  return min;
}

constexpr double kRounding = 1e-9;

TEST_CASE("choices: every candidate of a small job is the best of all groupings and ways") {
  std::size_t mixed = 0;
  std::size_t choices = 0;
  for_small_jobs(60, {}, [&](const Considered& job) {
    for (const Candidate& candidate : job.all.candidates) {
      CAPTURE(candidate.compressor);
      CAPTURE(candidate.is_per_group);
      CHECK(candidate.optimality_gap_us == 0);
      CHECK(candidate.iteration_us ==
            Approx(best_of_all_us(*job.scene, job.pipeline, candidate)).epsilon(kRounding));
      if (!candidate.is_per_group) continue;
      ++choices;
      if (candidate.encoded_groups > 0 && candidate.encoded_groups < candidate.groups) ++mixed;
    }
    CHECK(job.all.candidates[job.all.best].weighed_us == Approx(min_weighed_us(job)).epsilon(2e-6));
  });
  CHECK(choices > 300);
  CHECK(mixed > 20);  // some groups compressed and others not
}

TEST_CASE("choices: where none is planned exactly, near bests are off by no more than they say") {
  std::size_t near = 0;
  std::size_t off = 0;
  for_small_jobs(60, {.some = 0, .max = 0}, [&](const Considered& job) {
    for (const Candidate& candidate : job.all.candidates) {
      if (!candidate.is_per_group) continue;
      CAPTURE(candidate.compressor);
      const double best_us = best_of_all_us(*job.scene, job.pipeline, candidate);
      CHECK(candidate.iteration_us >= best_us * (1 - kRounding));
      CHECK(candidate.iteration_us - candidate.optimality_gap_us <= best_us * (1 + kRounding));
      if (candidate.optimality_gap_us > 0) ++near;
      if (candidate.iteration_us > best_us * (1 + kRounding)) ++off;
    }
  });
  CHECK(near > 50);
  CHECK(off > 0);  // otherwise the heuristic would be exact
}

TEST_CASE("choices: where only those that may be the best are planned exactly, the best is the best") {
  std::size_t near = 0;
  for_small_jobs(60, {.some = 0}, [&](const Considered& job) {
    for (const Candidate& candidate : job.all.candidates)
      if (candidate.optimality_gap_us > 0) ++near;
    CHECK(job.all.candidates[job.all.best].weighed_us == Approx(min_weighed_us(job)).epsilon(2e-6));
  });
  CHECK(near > 50);
}

}  // namespace
}  // namespace planner
