// Schedules: presets match the contract's table, objects override them, and invalid ones are rejected.

#include "planner/schedule/schedule.hpp"
#include "planner/cost/compressor.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "tests/support/listed.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/job/registry.hpp"
#include "tests/support/groups.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;
using support::schedule_of;

std::string names_of_presets() { return fmt::format("{}", fmt::join(names(presets()), ", ")); }

Groups fuse(const Schedule& schedule, const Scene& scene) {
  const FusionRequest request = request_of(scene.setting, schedule);
  return schedule.fusion.fuse(request).groups;
}

TEST_CASE("schedule: presets are the rows of the contract's table") {
  struct Row {
    std::string name;
    std::string pipeline;
    std::string fusion;  ///< as a user writes it
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
      {"zero", "zero", R"("none")"},
      {"bytescheduler", "priority", R"("partitions")"},
      {"fusewise", "wfbp", R"("optimal")"},
      {"fusewise-dear", "dear", R"("optimal")"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const Schedule schedule = preset_schedule(row.name);
    const Fusion fusion = read_fusion(core::Field::parse(row.fusion, "row"));
    CHECK(schedule.name == row.name);
    CHECK(schedule.pipeline->name == row.pipeline);
    CHECK(schedule.fusion.kind == fusion.kind);
    CHECK(schedule.all_reduce == std::nullopt);
    CHECK(schedule.options == PipelineOptions{});
    CHECK(schedule.compressor.is_none());
    CHECK_FALSE(schedule.selective);
    // tensors and times large enough for caps and cycles to have an effect
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
                           "dear-no-fusion", "fusewise", "bytescheduler"})
    CHECK(std::ranges::count(all, name) == 1);
  for (const char* alias : {"dense", "dense-overlap"}) CHECK(std::ranges::count(all, alias) == 0);
  for (const char* elsewhere : {"fsdp", "parameter-server"}) CHECK(std::ranges::count(all, elsewhere) == 0);
  for (const char* lossy : {"grace", "hipress", "cupcake"}) CHECK(std::ranges::count(all, lossy) == 0);
  for (const Schedule& schedule : lossless_schedules()) CHECK(schedule.compressor.is_none());
}

TEST_CASE(
    "schedule: presets about a compressor are the rows of the contract's table, with the one that is given") {
  struct Row {
    std::string name;
    std::string fusion;
    bool selective;
  };
  for (const Row& row :
       {Row{"grace", "none", false}, Row{"hipress", "none", true}, Row{"cupcake", "optimal", false}}) {
    CAPTURE(row.name);
    const auto with = [&](const std::string& compressor) {
      return schedule_of(fmt::format(R"({{"name": "{}", "compression": {}}})", row.name, compressor));
    };
    const Schedule dgc = with(R"("dgc")");
    CHECK(dgc.name == row.name + " dgc");
    CHECK(dgc.pipeline->name == "wfbp");
    CHECK(dgc.fusion.kind == row.fusion);
    CHECK(dgc.selective == row.selective);
    CHECK(dgc.compressor == built_in_compressor("dgc"));
    CHECK(with(R"({"name": "mine", "ratio": 0.5})").compressor ==
          Compressor{.name = "mine", .ratio = 0.5, .collective = core::CollectiveKind::all_gather});
  }
  CHECK_FALSE(schedule_of(R"({"name": "hipress", "compression": "dgc", "selective": false})").selective);
}

TEST_CASE("schedule: any pipeline and fusion takes a compressor that it can carry") {
  for (const char* pipeline : {"wfbp", "after_backward", "dear", "zero"}) {
    CAPTURE(pipeline);
    const auto with = [&](const char* compressor) {
      return schedule_of(fmt::format(R"({{"pipeline": "{}", "compression": "{}", "selective": true}})",
                                     pipeline, compressor));
    };
    const Schedule fp16 = with("fp16");
    CHECK(fp16.compressor == built_in_compressor("fp16"));
    CHECK(fp16.selective);
    CHECK(with("none").compressor.is_none());
    if (fp16.pipeline->name == "wfbp" || fp16.pipeline->name == "after_backward")
      CHECK(with("onebit").compressor == built_in_compressor("onebit"));
  }
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
      {R"({"compression": "dgc"})", "wfbp", "none", "dgc"},
      {R"({"name": "cupcake", "pipeline": "dear", "compression": "fp16"})", "dear", "optimal",
       "cupcake dear fp16"},
      {R"({"name": "hipress", "fusion": "all", "compression": "onebit", "selective": false})", "wfbp", "all",
       "hipress all onebit not-selective"},
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

TEST_CASE("schedule: a description tells compressors of one name apart") {
  const auto named = [](const char* ratio) {
    return schedule_of(fmt::format(R"({{"compression": {{"name": "top-k", "ratio": {}}}}})", ratio)).name;
  };
  CHECK(named("0.01") != named("0.02"));
  CHECK(named("0.01").find("top-k") != std::string::npos);
}

TEST_CASE("schedule: a preset about a compressor is refused without one") {
  for (const char* name : {"grace", "hipress", "cupcake"}) {
    CAPTURE(name);
    const auto check = [](const std::string& text, const std::string& message) {
      CHECK_THROWS_WITH_AS(schedule_of(text), message.c_str(), core::InputError);
    };
    check(fmt::format(R"("{}")", name),
          fmt::format(
              R"(s.json: /: expected a compressor with it: {{"name": "{0}", "compression": ...}}, got "{0}")",
              name));
    check(fmt::format(R"({{"name": "{}"}})", name), "s.json: /compression: expected a value, got nothing");
    check(fmt::format(R"({{"name": "{}", "compression": "none"}})", name),
          R"(s.json: /compression: expected a compressor, as this schedule is about one, got "none")");
  }
}

TEST_CASE("schedule: what halves of an all-reduce cannot carry is refused, by itself or among choices") {
  const auto message = [](const char* pipeline, const char* got) {
    return fmt::format("expected a compressor whose collective is all_reduce, as pipeline {} needs, got {}",
                       pipeline, got);
  };
  struct Case {
    std::string text;
    std::string message;
  };
  const std::vector<Case> cases = {
      {R"({"pipeline": "dear", "compression": "dgc"})", "/compression: " + message("dear", R"("dgc")")},
      {R"({"name": "dear-nl", "compression": "onebit", "selective": true})",
       "/compression: " + message("dear", R"("onebit")")},
      {R"({"pipeline": "zero", "compression": "random-k"})",
       "/compression: " + message("zero", R"("random-k")")},
      {R"({"pipeline": "zero", "overlap_gather": false, "compression": {"name": "x", "ratio": 0.1}})",
       "/compression: " + message("zero", "an object with 2 keys")},
      {R"({"pipeline": "zero", "all_reduce_gradients": true, "compression": "fp16"})",
       R"(/compression: expected no compressor with all_reduce_gradients, got "fp16")"},
      {R"({"name": "cupcake", "pipeline": "zero", "compression": "dgc"})",
       "/compression: " + message("zero", R"("dgc")")},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK_THROWS_WITH_AS(schedule_of(each.text), ("s.json: " + each.message).c_str(), core::InputError);
  }
  CHECK_THROWS_AS(
      schedule_of(
          R"({"pipeline": "dear", "fusion": {"kind": "optimal", "choices": {"compression": ["fp16", "dgc"]}}})"),
      core::InputError);
  CHECK_NOTHROW(schedule_of(
      R"({"pipeline": "dear", "fusion": {"kind": "optimal", "choices": {"compression": ["fp16", "none"]}}})"));
}

TEST_CASE("schedule: collectives and the pipeline's own keys are read") {
  const Schedule tree = schedule_of(
      R"({"name": "ddp", "collectives": {"all_reduce": {"algorithm": "double_binary_tree", "bandwidth_factor": 1}}})");
  CHECK(tree.all_reduce == Algorithm{.name = "double_binary_tree", .bandwidth_factor = 1});
  CHECK(schedule_of(R"({"collectives": {}})").all_reduce == Algorithm{.name = "ring"});
  CHECK(schedule_of(R"({"pipeline": "zero"})").options.overlap_gather);
  CHECK_FALSE(schedule_of(R"({"pipeline": "zero", "overlap_gather": false})").options.overlap_gather);
}

TEST_CASE("schedule: a label is its name in results, and changes nothing else") {
  const Schedule labelled = schedule_of(R"({"label": "old defaults", "name": "ddp", "fusion": "all"})");
  const Schedule plain = schedule_of(R"({"name": "ddp", "fusion": "all"})");
  CHECK(plain.name == "ddp all");
  CHECK(labelled.name == "old defaults");
  CHECK(labelled.pipeline == plain.pipeline);
  CHECK(labelled.fusion.kind == plain.fusion.kind);
  CHECK_THROWS_WITH_AS(schedule_of(R"({"label": "", "name": "ddp"})"),
                       doctest::Contains("/label: expected a non-empty string"), core::InputError);
}

TEST_CASE("schedule: what is not a schedule is refused, with the nearest name") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string keys = "name, label, pipeline, fusion, compression, collectives, selective";
  const std::vector<Case> cases = {
      {R"("wfpb")",
       "s.json: /: expected one of " + names_of_presets() + R"(, got "wfpb", did you mean 'wfbp'?)"},
      {"7", "s.json: /: expected one of " + names_of_presets() + ", got 7"},
      {R"({"name": "DDP!"})",
       "s.json: /name: expected one of " + names_of_presets() + R"(, got "DDP!", did you mean 'ddp'?)"},
      {R"({"pipeline": "deer"})", "s.json: /pipeline: expected one of " +
                                      support::listed(planner::pipelines()) +
                                      R"(, got "deer", did you mean 'dear'?)"},
      {R"({"fusions": "all"})",
       "s.json: /fusions: expected a key among " + keys + ", got 'fusions', did you mean 'fusion'?"},
      {R"({"overlap_gather": false})",
       "s.json: /overlap_gather: expected a key among " + keys + ", got 'overlap_gather'"},
      {R"({"name": "zero", "pipeline": "dear", "overlap_gather": false})",
       "s.json: /overlap_gather: expected a key among " + keys + ", prefetch, got 'overlap_gather'"},
      {R"({"pipeline": "zero", "overlap_gather": 1})",
       "s.json: /overlap_gather: expected true or false, got 1"},
      {R"({"pipeline": "zero", "overlap": false})",
       "s.json: /overlap: expected a key among " + keys +
           ", overlap_gather, stage, all_reduce_gradients, got 'overlap', did you mean 'overlap_gather'?"},
      {R"({"compression": "zip"})", "s.json: /compression: expected one of none, " +
                                        support::listed(planner::built_in_compressors()) + R"(, got "zip")"},
      {R"({"compression": {"name": "x", "ratio": 0.5, "encode": {"start_us": 1}}})",
       "s.json: /compression/encode/start_us: expected a key among startup_us, us_per_byte, floor_us, got "
       "'start_us', did you mean 'startup_us'?"},
      {R"({"compression": "fp16", "selective": "large"})",
       R"(s.json: /selective: expected true or false, got "large")"},
      {R"({"fusion": {"kind": "layers", "count": 0}})",
       "s.json: /fusion/count: expected an integer from 1 to 1000000000000, got 0"},
      {R"({"collectives": {"all_gather": "ring"}})",
       "s.json: /collectives/all_gather: expected a key among all_reduce, got 'all_gather'"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK_THROWS_WITH_AS(schedule_of(each.text), each.message.c_str(), core::InputError);
  }
}

}  // namespace
}  // namespace planner
