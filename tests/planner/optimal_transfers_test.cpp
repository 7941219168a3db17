// The exact planner with a choice of all-reduce and compressor for each group: against all groupings with all
// transfers.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/brute_force.hpp"

namespace planner {
namespace {

using support::fuse;
using support::gradients_of;
using support::NetworkKind;
using support::Offer;
using support::pipeline_cases;
using support::PipelineCase;
using support::Random;
using support::Scene;
using support::schedule_of;

Offer algorithms(Random& /*random*/, const PipelineCase& /*pipeline*/) {
  return {.compressor = {}, .algorithms = {"ring", "binary_tree", "recursive_doubling"}};
}

Offer compressors(Random& random, const PipelineCase& pipeline) {
  Offer out = {.compressor = {},
               .compressors = {Compressor{}, built_in_compressor("fp16"),
                               support::random_compressor(random, "x", pipeline.halves)}};
  if (random.one_in(2)) out.compressor = support::random_compressor(random, "own", pipeline.halves);
  out.selective = random.one_in(4);
  return out;
}

Offer both(Random& random, const PipelineCase& pipeline) {
  Offer out = compressors(random, pipeline);
  out.algorithms = {random.one_in(2) ? "binary_tree" : "recursive_doubling"};
  return out;
}

void check_all_optimal(std::uint32_t first_seed, std::uint32_t seeds, std::uint32_t max_tensors,
                       Offer (*offer)(Random&, const PipelineCase&)) {
  for (std::uint32_t seed = first_seed; seed < first_seed + support::seeds(seeds); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = small_scene(random, max_tensors, NetworkKind{seed % support::kNetworkKinds});
    for (const PipelineCase& pipeline : pipeline_cases())
      support::check_optimal(*scene, pipeline, offer(random, pipeline), support::any_grouping);
  }
}

TEST_CASE("ways: each group's all-reduce is the best of all groupings with all choices") {
  check_all_optimal(0, 600, 7, algorithms);
}

TEST_CASE("ways: each group's compressor is the best of all groupings with all choices") {
  check_all_optimal(1000, 300, 7, compressors);
}

TEST_CASE("ways: all-reduce and compressor are chosen together") { check_all_optimal(2000, 150, 5, both); }

/// Formats "1 recursive_doubling none, 2 ring x".
std::string shown_with_transfers(const std::string& json, const Scene& scene) {
  const Schedule schedule = schedule_of(json);
  const Run run = scene.run(schedule);
  std::string out;
  for (const Group& group : run.groups) {
    const Transfer& transfer = run.transfers[group.transfer].transfer();
    out += fmt::format("{}{} {} {}", out.empty() ? "" : ", ", group.end - group.begin,
                       transfer.all_reduce.name, transfer.compressor.name);
  }
  return out;
}

TEST_CASE("ways: what is small goes by recursive doubling and what is large by the ring") {
  // on 4 workers a ring takes 6 + 1.5 M and recursive doubling 2 + 2 M:
  //   backward   4 bytes at 1          40 bytes at 101
  //   channel    1-11 (12 by ring)     101-167 (82 by recursive doubling), one group of 44 to 173
  const Scene scene(gradients_of({{1, 4}, {100, 40}}), support::link_of(1, 1), 4);
  const std::string json =
      R"({"fusion": {"kind": "optimal", "choices": {"all_reduce": ["recursive_doubling", "ring"]}}})";
  CHECK(shown_with_transfers(json, scene) == "1 ring none, 1 ring none");  // 1-13 is hidden, too
  CHECK(scene.run(schedule_of(json)).metrics.iteration_us == 167);
  const Scene at_once(gradients_of({{101, 4}, {0, 40}}), support::link_of(1, 1), 4);
  CHECK(shown_with_transfers(json, at_once) == "2 ring none");  // 173, against 177 for separate groups
  const Scene small_last(gradients_of({{1, 40}, {100, 4}}), support::link_of(1, 1), 4);
  CHECK(shown_with_transfers(json, small_last) == "1 ring none, 1 recursive_doubling none");
  CHECK(scene.run(schedule_of(R"("fusewise")")).metrics.iteration_us == 167);
  CHECK(small_last.run(schedule_of(json)).metrics.iteration_us == 111);
}

TEST_CASE("ways: only what is exposed is compressed, as encoding delays backward") {
  // M us on the channel; encoding takes 5 and leaves an eighth:
  //   compute  B2 0-10  B1 10-60  E1 60-65
  //   channel           A2 10-50                A1 65-70; 100 uncompressed
  const Scene scene(gradients_of({{10, 40}, {50, 40}}), support::pair_of(0, 1));
  const std::string json = R"({"fusion": {"kind": "optimal", "choices": {"compression":
      [{"name": "x", "ratio": 0.125, "encode": {"startup_us": 5}, "collective": "all_reduce"}]}}})";
  CHECK(shown_with_transfers(json, scene) == "1 ring none, 1 ring x");
  CHECK(scene.run(schedule_of(json)).metrics.iteration_us == 70);
}

}  // namespace
}  // namespace planner
