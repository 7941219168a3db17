// What-ifs: the same groups on another network, on faster workers, or without disturbances.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "planner/advise/what_if.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/program.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;
using support::schedule_of;

double changed_us(const Scene& scene, const Schedule& schedule, const std::string& change) {
  return what_if(scene.setting, schedule, scene.run(schedule), read_change(change, scene.profile))
      .iteration_us;
}

// compute  forward 0--40  backward l2 40--80  backward l1 80--120      (twice as slow as the profile says)
// channel                                     l2 80--124  l1 124--168  (4 + 400 x 0.1 each)
TEST_CASE("what-if: each change alone, and two at once") {
  const Conditions conditions = {.iterations = 1, .stragglers = {{.worker = 1, .slowdown = 2}}};
  const Scene scene(support::profile_of({{10, 20, {100}}, {10, 20, {100}}}), support::pair_of(4, 0.1), 2,
                    conditions);
  const Schedule schedule = schedule_of(R"("wfbp")");
  REQUIRE(scene.run(schedule).metrics.iteration_us == 168);
  const std::vector<std::pair<std::string, double>> expected = {
      {"no-stragglers", 128},            // ready at 40 and 60, 44 each
      {"network=2", 142},                // 80 to 102, 120 to 142
      {"bandwidth=2", 144},              // 24 each
      {"startup=2", 164},                // 42 each, the second after the first
      {"compute=2", 128},                //
      {"layer=l2", 108},                 // 20 to 64, then the second
      {"network=2,no-stragglers", 84}};  // 40 to 62, then the second
  for (const auto& [change, us] : expected) {
    const auto& the_change = change;  // clang 14 cannot capture a structured binding
    CAPTURE(the_change);
    CHECK(changed_us(scene, schedule, change) == us);
  }
  CHECK_THROWS_AS(changed_us(scene, schedule, "layer=l1,layer=l2"), const Unsupported&);
}

TEST_CASE("what-if: is the changed job, run anew with the same groups") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = support::random_conditions(random);
    conditions.jitter = {.sigma = random.one_in(2) ? 0.2 : 0.0, .seed = seed};
    if (random.one_in(3)) conditions.fidelity = random.one_in(2) ? Fidelity::steps : Fidelity::messages;
    if (random.one_in(3)) conditions.failures = {{.worker = 0, .at_us = 50, .down_us = 70}};
    conditions.links.slow = {{.worker = 1, .slowdown = 3}};
    const std::int64_t workers = random.between(1, 5);
    const Scene before(support::random_profile(random, 4), support::random_link(random), workers, conditions);

    core::Profile profile = before.profile;
    for (core::ProfileLayer& layer : profile.layers) {
      layer.forward_us /= 4;
      layer.backward_us /= 4;
      for (core::ProfileTensor& tensor : layer.tensors)
        if (tensor.backward_us) *tensor.backward_us /= 4;
    }
    core::Network network = before.network;
    network.link->alpha_us /= 8;
    network.link->beta_us_per_byte /= 2;
    conditions.stragglers = {};
    conditions.links.slow = {};
    conditions.failures = {};
    conditions.jitter = {};
    conditions.optimizer_us /= 4;
    conditions.lars_us /= 4;
    const Scene after(profile, network, workers, conditions);

    for (const char* json : {R"("wfbp")", R"("s-sgd")", R"("dear-no-fusion")", R"({"fusion": "all"})",
                             R"({"name": "grace", "compression": {"name": "x", "ratio": 0.5}})"}) {
      CAPTURE(json);
      const Schedule schedule = schedule_of(json);
      CHECK(changed_us(before, schedule,
                       "compute=4,startup=8,bandwidth=2,no-stragglers,no-jitter,no-failures") ==
            after.run(schedule).metrics.iteration_us);
      CHECK(changed_us(before, schedule, "network=1") == before.run(schedule).metrics.iteration_us);
    }
  }
}

TEST_CASE("what-if: without launch gaps layers take what their kernels take") {
  core::Profile profile = support::profile_of({{10, 20, {100}}});
  Scene plain(profile, support::pair_of(4, 0.1));
  CHECK_THROWS_WITH_AS(read_change("no-launch-gaps", plain.profile),
                       "--what-if: expected a profile that says how long the device waits for launches "
                       "(forward_device_us), got 'no-launch-gaps'",
                       core::InputError);
  profile.layers[0].forward_device_us = 4;
  profile.layers[0].backward_device_us = 15;
  const Scene scene(profile, support::pair_of(4, 0.1));
  const Schedule schedule = schedule_of(R"("wfbp")");
  CHECK(changed_us(scene, schedule, "no-launch-gaps") == scene.run(schedule).metrics.iteration_us - 6 - 5);
}

TEST_CASE("what-if: shared links of a topology become faster, too") {
  Conditions conditions = {.iterations = 1, .fidelity = Fidelity::messages};
  conditions.topology = cluster::TopologySpec{
      .startup_us = 8,
      .nic = {.latency_us = 2, .us_per_byte = 0.25}};  // 12 + 200 x 0.25 per message, two rounds
  const Scene scene(support::profile_of({{10, 20, {100}}}), support::pair_of(4, 0.1), 2, conditions);
  const Schedule schedule = schedule_of(R"("wfbp")");
  REQUIRE(scene.run(schedule).metrics.iteration_us == 30 + 2 * 62);
  CHECK(changed_us(scene, schedule, "network=2") == 30 + 62);
  CHECK(changed_us(scene, schedule, "startup=4") == 30 + 2 * 53);
}

TEST_CASE("what-if: what is no change is refused in one line") {
  const Scene scene(support::profile_of({{10, 20, {100}}}), support::pair_of(4, 0.1));
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"no-straglers", "did you mean 'no-stragglers'?"},
      {"", "expected one of network="},
      {"network=2,", "expected one of network="},
      {"network=0", "a factor from 1e-06 to 1000000"},
      {"network=nan", "a factor"},
      {"compute=2x", "a factor"},
      {"layer=l11", "did you mean 'l1'?"},
      {"layer=", "a layer of the profile"}};
  for (const auto& [change, message] : expected) {
    const auto& the_change = change;  // clang 14 cannot capture a structured binding
    CAPTURE(the_change);
    try {
      read_change(change, scene.profile);
      FAIL_CHECK("was taken");
    } catch (const core::InputError& error) {
      const std::string text = error.what();
      CAPTURE(text);
      CHECK(text.find(message) != std::string::npos);
      CHECK(text.starts_with("--what-if: "));
      CHECK(text.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("what-if: asked on the command line, answered beside the results") {
  const std::string scenario = (support::source_dir() / "scenarios/resnet50-v100-cluster.json").string();
  const support::Outcome table =
      support::run_program({"simulate", scenario, "--what-if", "network=2", "--what-if", "no-stragglers"});
  CHECK(table.exit_code == 0);
  CHECK(table.out.find("network=2") != std::string::npos);
  const support::Outcome refused = support::run_program({"simulate", scenario, "--what-if", "network=x"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
}

}  // namespace
}  // namespace planner
