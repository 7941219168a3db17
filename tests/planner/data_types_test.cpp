// Element types of collectives: their bytes and times by hand, and equivalence with scaled networks.

#include "planner/job/data_types.hpp"

#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/advise/make_plan.hpp"
#include "planner/plan/plan_file.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::Dtype;
using support::check_run;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

constexpr DataTypes kMixed = {.reduce = Dtype::float32, .gather = Dtype::bfloat16};

// Forward 2 and 3 us, backward 5 and 4 us; 20 and 40 bytes of bfloat16. A phase of an all-reduce of M bytes
// takes 1 + 0.05 M us.
core::Profile two_layers() {
  core::Profile profile = profile_of({{2, 5, {10}}, {3, 4, {20}}});
  profile.dtype = Dtype::bfloat16;
  return profile;
}

TEST_CASE("data types: sharded gathers in one type and scatters in another") {
  // 10 and 20 elements: gathers of 20 and 40 bytes take 2 and 3 us, reduce-scatters of 40 and 80 bytes 3 and
  // 5
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .data_types = kMixed});
  check_run(R"({"pipeline": "sharded"})", scene,
            {"F1 2-4, F2 5-8, B2 8-12, B1 12-17", "G2 0-2, G1 2-5, g2 8-10, S1 12-17, S2 17-20", 20});
  // half of 60 bytes in forward, of 20 in backward, of 120 in float32
  CHECK(scene.run(schedule_of(R"({"pipeline": "sharded"})")).metrics.bytes_sent_per_worker == 30 + 10 + 60);
}

TEST_CASE("data types: zero gathers parameters, dear gathers gradients") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .data_types = kMixed});
  check_run(
      R"({"pipeline": "zero"})", scene,
      {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 19-21, F2 22-25", "S1 9-14, S2 14-17, G2 17-19, G1 19-22", 20});
  check_run(
      R"({"pipeline": "dear"})", scene,
      {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, F1 20-22, F2 25-28", "S1 9-14, S2 14-17, G2 17-20, G1 20-25", 23});
  CHECK(scene.run(schedule_of(R"({"pipeline": "wfbp"})")).metrics.bytes_sent_per_worker == 120);
}

TEST_CASE("data types: every pipeline and fusion runs as on a network that is faster or slower per byte") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    core::Profile narrow = support::random_profile(random, 3);
    narrow.dtype = Dtype::bfloat16;
    const core::Network network = pair_of(static_cast<double>(random.below(400)), 0.01);
    const core::Network slower = pair_of(2 * network.link->alpha_us, 0.02);  // pair_of() halves the startup
    const DataTypes wide = {.reduce = Dtype::float32, .gather = Dtype::float32};
    const Scene scene(narrow, network, 2, {.data_types = wide});
    const Scene like(narrow, slower, 2);
    for (const char* pipeline : {"wfbp", "dear", "zero", "sharded", "after_backward"})
      for (const char* fusion : {"none", "all", "optimal", "mg-wfbp"}) {
        CAPTURE(pipeline);
        CAPTURE(fusion);
        const Schedule schedule =
            schedule_of(std::string(R"({"pipeline": ")") + pipeline + R"(", "fusion": ")" + fusion + R"("})");
        const Run run = scene.run(schedule);
        const Run other = like.run(schedule);
        CHECK(run.groups == other.groups);
        CHECK(run.metrics.iteration_us == other.metrics.iteration_us);
        CHECK(run.metrics.bytes_sent_per_worker == 2 * other.metrics.bytes_sent_per_worker);
      }
  }
}

TEST_CASE("data types: the profile's own change nothing, not even with a compressor") {
  const Scene plain(two_layers(), pair_of(2, 0.1), 2);
  const DataTypes own = {.reduce = Dtype::bfloat16, .gather = Dtype::float16};  // of two bytes, too
  const Scene typed(two_layers(), pair_of(2, 0.1), 2, {.data_types = own});
  for (const char* schedule : {R"("zero")", R"("fsdp")", R"({"name": "wfbp", "compression": "efsignsgd"})"})
    CHECK(plain.run(schedule_of(schedule)).metrics.iteration_us ==
          typed.run(schedule_of(schedule)).metrics.iteration_us);
  const Scene mixed(two_layers(), pair_of(2, 0.1), 2, {.data_types = kMixed});
  CHECK_THROWS_AS(mixed.run(schedule_of(R"({"name": "wfbp", "compression": "efsignsgd"})")), Unsupported);
}

TEST_CASE("data types: a plan records them, and is read again") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.data_types = kMixed});
  const Schedule schedule = schedule_of(R"("fsdp")");
  const PlanFile plan = make_plan(scene.setting, schedule, scene.run(schedule));
  CHECK(plan.data_types == kMixed);
  const std::string text = plan_text(plan);
  CHECK(text.find(R"("data_types": {"reduce": "float32", "gather": "bfloat16"})") != std::string::npos);
  CHECK(read_plan_file(core::Field::parse(text, "p.json")).data_types == kMixed);
  CHECK_THROWS_WITH_AS(read_data_types(core::Field::parse(R"({"reduce": "int8"})", "s.json")),
                       R"(s.json: /reduce: expected one of float32, float16, bfloat16, got "int8")",
                       core::InputError);
}

}  // namespace
}  // namespace planner
