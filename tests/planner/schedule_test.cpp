// Schedules: the presets are the contract's rows, objects override them, and what is refused.

#include "planner/schedule.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/errors.hpp"
#include "planner/entries.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;
using support::schedule_of;

std::string names_of_presets() { return fmt::format("{}", fmt::join(names(presets()), ", ")); }

Groups fuse(const Schedule& schedule, const Scene& scene) {
  const FusionRequest request(scene.setting, schedule);
  return schedule.fusion.fuse(request);
}

TEST_CASE("schedule: presets are the rows of the contract's table") {
  struct Row {
    std::string name;
    std::string pipeline;
    std::string fusion;  ///< as a user would spell it
  };
  const std::string ddp = R"({"kind": "buckets", "cap_bytes": 26214400, "first_cap_bytes": 1048576})";
  const std::vector<Row> rows = {
      {"s-sgd", "after_backward", R"("none")"},
      {"sync-easgd", "after_backward", R"("all")"},
      {"dense", "after_backward", R"("all")"},
      {"wfbp", "wfbp", R"("none")"},
      {"mg-wfbp", "wfbp", R"("mg-wfbp")"},
      {"ddp", "wfbp", ddp},
      {"dense-overlap", "wfbp", ddp},
      {"horovod", "wfbp", R"({"kind": "threshold", "cap_bytes": 134217728, "cycle_us": 1000})"},
      {"dear-nl", "dear", R"({"kind": "layers", "count": 4})"},
      {"dear-fb", "dear", R"({"kind": "modules", "cap_bytes": 5242880})"},
      {"dear-no-fusion", "dear", R"("none")"},
      {"fusewise", "wfbp", R"("optimal")"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Schedule schedule = preset_schedule(row.name);
    const Fusion fusion = read_fusion(models::Field::parse(row.fusion, "row"));
    CHECK(schedule.name == row.name);
    CHECK(schedule.pipeline->name == row.pipeline);
    CHECK(schedule.fusion.kind == fusion.kind);
    CHECK(schedule.all_reduce == std::nullopt);
    CHECK(schedule.options == PipelineOptions{});
    // large tensors and times, so that caps and cycles bite
    for (std::uint32_t seed = 0; seed < 30; ++seed) {
      CAPTURE(seed);
      Random random(seed);
      std::vector<support::LayerSpec> layers(8 + random.below(30));
      for (support::LayerSpec& layer : layers)
        layer = {1,
                 static_cast<double>(random.below(900)),
                 {random.between(1, 3'000'000), random.between(1, 1000)}};
      const Scene scene(support::profile_of(layers), support::pair_of(random.below(900), 1e-3));
      CHECK(fuse(schedule, scene) == support::fuse(row.fusion, scene, row.pipeline.c_str()));
    }
  }
}

TEST_CASE("schedule: every preset is read by its name, and by an object that says no more") {
  for (const Preset& preset : presets()) {
    CAPTURE(preset.name);
    if (preset.needs_compressor) continue;
    const std::string quoted = '"' + std::string(preset.name) + '"';
    const std::vector<Schedule> all = {schedule_of(quoted), schedule_of(R"({"name": )" + quoted + "}"),
                                       preset_schedule(preset.name)};
    for (const Schedule& schedule : all) {
      CHECK(schedule.name == preset.name);
      CHECK(schedule.pipeline == all.front().pipeline);
      CHECK(schedule.fusion.kind == all.front().fusion.kind);
      CHECK(schedule.options == all.front().options);
    }
    CHECK_FALSE(preset.summary.empty());
  }
}

TEST_CASE("schedule: where none is named all that lose no information are taken, aliases once") {
  std::vector<std::string> all;
  for (const Schedule& schedule : lossless_schedules()) all.push_back(schedule.name);
  for (const char* name : {"s-sgd", "sync-easgd", "wfbp", "mg-wfbp", "ddp", "horovod", "dear-nl", "dear-fb",
                           "dear-no-fusion", "fusewise"})
    CHECK(std::count(all.begin(), all.end(), name) == 1);
  for (const char* alias : {"dense", "dense-overlap"}) CHECK(std::count(all.begin(), all.end(), alias) == 0);
}

TEST_CASE("schedule: an object starts from its preset, or from wfbp without fusion, and its own keys count") {
  struct Case {
    std::string json;
    std::string pipeline;
    std::string fusion;
    std::string name;
  };
  const std::vector<Case> cases = {
      {"{}", "wfbp", "none", "wfbp"},
      {R"({"fusion": "all"})", "wfbp", "all", "all"},
      {R"({"pipeline": "dear"})", "dear", "none", "dear"},
      {R"({"name": "ddp"})", "wfbp", "buckets", "ddp"},
      {R"({"name": "ddp", "pipeline": "dear"})", "dear", "buckets", "ddp dear"},
      {R"({"name": "dear-nl", "fusion": "none"})", "dear", "none", "dear-nl none"},
      {R"({"name": "s-sgd", "pipeline": "wfbp", "fusion": "optimal", "compression": "none"})", "wfbp",
       "optimal", "s-sgd wfbp optimal"},
      {R"({"name": "dear-nl", "pipeline": "zero", "overlap_gather": false})", "zero", "layers",
       "dear-nl zero no-overlap"},
      {R"({"collectives": {"all_reduce": "binary_tree"}})", "wfbp", "none", "binary_tree"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.json);
    const Schedule schedule = schedule_of(each.json);
    CHECK(schedule.pipeline->name == each.pipeline);
    CHECK(schedule.fusion.kind == each.fusion);
    CHECK(schedule.name == each.name);
  }
}

TEST_CASE("schedule: a description tells fusions of different numbers apart") {
  const std::string small = schedule_of(R"({"fusion": {"kind": "buckets", "cap_bytes": 100}})").name;
  const std::string large = schedule_of(R"({"fusion": {"kind": "buckets", "cap_bytes": 1000}})").name;
  CHECK(small != large);
  CHECK(small.find("buckets") != std::string::npos);
  CHECK(small.find("100") != std::string::npos);
  CHECK(schedule_of(R"({"fusion": {"kind": "plan", "file": )" +
                    support::plan_json(
                        Scene(support::profile_of({{1, 1, {1}}}), support::pair_of(1, 1)).setting.workload,
                        {{.begin = 0, .end = 1}})
                        .dump() +
                    "}}")
            .name.find('\n') == std::string::npos);
}

TEST_CASE("schedule: collectives and the pipeline's own keys are read") {
  const Schedule tree = schedule_of(
      R"({"name": "ddp", "collectives": {"all_reduce": {"algorithm": "double_binary_tree", "bandwidth_factor": 1}}})");
  CHECK(tree.all_reduce == Algorithm{.name = "double_binary_tree", .bandwidth_factor = 1});
  CHECK(schedule_of(R"({"collectives": {}})").all_reduce == Algorithm{.name = "ring"});
  CHECK(schedule_of(R"({"pipeline": "zero"})").options.overlap_gather);
  CHECK_FALSE(schedule_of(R"({"pipeline": "zero", "overlap_gather": false})").options.overlap_gather);
}

TEST_CASE("schedule: what is not a schedule is refused, with the nearest name") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string keys = "name, pipeline, fusion, compression, collectives, selective";
  const std::vector<Case> cases = {
      {R"("wfpb")",
       "s.json: /: expected one of " + names_of_presets() + R"(, got "wfpb", did you mean 'wfbp'?)"},
      {"7", "s.json: /: expected one of " + names_of_presets() + ", got 7"},
      {R"({"name": "DDP!"})", "s.json: /name: expected one of " + names_of_presets() + R"(, got "DDP!")"},
      {R"({"pipeline": "deer"})",
       R"(s.json: /pipeline: expected one of after_backward, wfbp, dear, zero, got "deer", did you mean 'dear'?)"},
      {R"({"fusions": "all"})",
       "s.json: /fusions: expected a key among " + keys + ", got 'fusions', did you mean 'fusion'?"},
      {R"({"overlap_gather": false})",
       "s.json: /overlap_gather: expected a key among " + keys + ", got 'overlap_gather'"},
      {R"({"name": "zero", "pipeline": "dear", "overlap_gather": false})",
       "s.json: /overlap_gather: expected a key among " + keys + ", got 'overlap_gather'"},
      {R"({"pipeline": "zero", "overlap_gather": 1})",
       "s.json: /overlap_gather: expected true or false, got 1"},
      {R"({"pipeline": "zero", "overlap": false})",
       "s.json: /overlap: expected a key among " + keys + ", overlap_gather, got 'overlap'"},
      {R"({"compression": "zip"})",
       R"(s.json: /compression: expected one of none, dgc, random-k, efsignsgd, onebit, mstopk, fp16, bf16, got "zip")"},
      {R"({"fusion": {"kind": "layers", "count": 0}})",
       "s.json: /fusion/count: expected an integer from 1 to 1000000000000, got 0"},
      {R"({"collectives": {"all_gather": "ring"}})",
       "s.json: /collectives/all_gather: expected a key among all_reduce, got 'all_gather'"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK_THROWS_WITH_AS(schedule_of(each.text), each.message.c_str(), models::InputError);
  }
}

}  // namespace
}  // namespace planner
