// The three fidelities of the same run: formulas, rounds rank by rank, and messages as events.

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "planner/advise/make_plan.hpp"
#include "planner/run/all_workers.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timelines.hpp"

namespace planner {
namespace {

using sim::Time;
using support::Random;
using support::Scene;
using support::schedule_of;

/// A profile whose tensors are divisible by 16 workers, so that chunks are equal.
core::Profile divisible(Random& random) {
  core::Profile profile = support::random_profile(random, 5);
  for (core::ProfileLayer& layer : profile.layers)
    for (core::ProfileTensor& tensor : layer.tensors) tensor.elements = 64 * random.between(1, 500);
  return profile;
}

std::vector<std::string> schedules() {
  std::vector<std::string> out = {
      R"("s-sgd")",
      R"("wfbp")",
      R"("ddp")",
      R"("dear-no-fusion")",
      R"({"pipeline": "zero", "overlap_gather": false})",
      R"({"name": "grace", "compression": {"name": "x", "ratio": 0.5, "encode": {"startup_us": 2}}})"};
  for (const char* algorithm :
       {"binary_tree", "recursive_doubling", "halving_doubling", "double_binary_tree"})
    out.push_back(fmt::format(R"({{"pipeline": "wfbp", "collectives": {{"all_reduce": "{}"}}}})", algorithm));
  return out;
}

Run run_at(Fidelity fidelity, const core::Profile& profile, const core::Network& network,
           std::int64_t workers, Conditions conditions, const std::string& schedule) {
  conditions.fidelity = fidelity;
  const Schedule read = schedule_of(schedule);
  const Algorithm algorithm = read.all_reduce.value_or(Algorithm{});
  const Setting setting(profile, network, workers, algorithm, conditions);
  return run(setting, read);
}

TEST_CASE("fidelity: where links are alike and sizes divide, all three agree") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = divisible(random);
    const core::Network network = support::random_link(random);
    const std::int64_t workers = std::int64_t{1} << random.between(0, 4);
    const Conditions conditions = {.iterations = 3};
    for (const std::string& schedule : schedules()) {
      CAPTURE(schedule);
      // half of the bytes cross each port, so the closed form is only a bound
      if (workers == 2 && schedule.find("double_binary_tree") != std::string::npos) continue;
      const double closed =
          run_at(Fidelity::closed, profile, network, workers, conditions, schedule).metrics.iteration_us;
      for (const Fidelity fidelity : {Fidelity::steps, Fidelity::messages}) {
        const Run other = run_at(fidelity, profile, network, workers, conditions, schedule);
        CHECK(other.metrics.iteration_us == doctest::Approx(closed).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("fidelity: with other links, draws, stragglers and failures steps are messages to the picosecond") {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const core::Profile profile = support::random_profile(random, 5);
    const core::Network network = support::random_link(random);
    const std::int64_t workers = random.between(2, 9);
    Conditions conditions = {.iterations = random.between(1, 3)};
    conditions.jitter = {.sigma = 0.2, .seed = seed};
    conditions.links = {
        .sigma = random.one_in(2) ? 0.3 : 0, .seed = seed, .slow = {{.worker = 1, .slowdown = 1.7}}};
    if (random.one_in(2)) conditions.stragglers = {{.worker = 0, .slowdown = 1.3}};
    if (random.one_in(2)) conditions.failures = {{.worker = 1, .at_us = 3, .down_us = 40}};
    for (const std::string& schedule : schedules()) {
      CAPTURE(schedule);
      const Run steps = run_at(Fidelity::steps, profile, network, workers, conditions, schedule);
      const Run messages = run_at(Fidelity::messages, profile, network, workers, conditions, schedule);
      REQUIRE(steps.all_workers);
      REQUIRE(messages.all_workers);
      CHECK(steps.all_workers->marks == messages.all_workers->marks);
      CHECK(steps.all_workers->waited == messages.all_workers->waited);
      CHECK(steps.all_workers->channel_busy == messages.all_workers->channel_busy);
      CHECK(steps.timeline == messages.timeline);
    }
  }
}

TEST_CASE("fidelity: a slow link slows a ring down as much as its messages, in every round") {
  // 2 workers, 200 bytes: two rounds of 100 bytes at 1 + 100 x 0.1 = 11 us, with worker 1 three times as long
  const core::Profile profile = support::profile_of({{10, 20, {50}}});
  core::Network network = support::pair_of(1, 0);
  network.link = core::Link{.alpha_us = 1, .beta_us_per_byte = 0.1, .gamma_us_per_byte = 0};
  network.measured.clear();
  Conditions conditions = {.iterations = 2};
  CHECK(run_at(Fidelity::steps, profile, network, 2, conditions, R"("wfbp")").metrics.iteration_us == 52);
  conditions.links.slow = {{.worker = 1, .slowdown = 3}};
  CHECK(run_at(Fidelity::steps, profile, network, 2, conditions, R"("wfbp")").metrics.iteration_us == 96);
  CHECK(run_at(Fidelity::messages, profile, network, 2, conditions, R"("wfbp")").metrics.iteration_us == 96);
}

TEST_CASE("fidelity: on a topology, workers that share a NIC take longer, and those that do not as long") {
  const core::Profile profile = support::profile_of({{10, 20, {6400}}});
  core::Network network = support::pair_of(1, 0);
  network.link = core::Link{.alpha_us = 1, .beta_us_per_byte = 0.001, .gamma_us_per_byte = 0};
  network.measured.clear();
  cluster::TopologySpec spec;
  spec.kind = cluster::TopologyKind::flat;
  spec.startup_us = 1;
  spec.nic.us_per_byte = 0.001;
  const std::string halving = R"({"pipeline": "wfbp", "collectives": {"all_reduce": "halving_doubling"}})";
  const auto iteration = [&](const cluster::TopologySpec& topology) {
    const Conditions conditions = {.iterations = 2, .topology = topology};
    return run_at(Fidelity::messages, profile, network, 8, conditions, halving).metrics.iteration_us;
  };
  const double closed =
      run_at(Fidelity::closed, profile, network, 8, {.iterations = 2}, halving).metrics.iteration_us;
  CHECK(iteration(spec) == doctest::Approx(closed).epsilon(1e-6));
  // Two GPUs share one NIC: between nodes each has half of it. A half, a quarter and an eighth of 25,600
  // bytes go there and back: 12,800 bytes to the other GPU of the node, 1 + 12.8 us; 6,400 bytes over half a
  // NIC, 1 + 2 x 6.4 us; 3,200 bytes over half a NIC, 1 + 2 x 3.2 us. The sum is 35 us, twice, after 30 us of
  // compute.
  spec.gpus_per_node = 2;
  spec.inside.us_per_byte = 0.001;
  CHECK(iteration(spec) == 100);
  spec.nic_per_gpu = true;
  CHECK(iteration(spec) == doctest::Approx(closed).epsilon(1e-6));
}

TEST_CASE("fidelity: a plan is proven for closed costs alone") {
  Random random(3);
  const core::Profile profile = divisible(random);
  const core::Network network = support::random_link(random);
  for (const Fidelity fidelity : {Fidelity::closed, Fidelity::steps, Fidelity::messages}) {
    const Schedule schedule = schedule_of(R"("fusewise")");
    const Setting setting(profile, network, 4, {}, {.fidelity = fidelity});
    const PlanFile plan = make_plan(setting, schedule, run(setting, schedule));
    CHECK((plan.optimality == Optimality::exact) == (fidelity == Fidelity::closed));
    CHECK(plan.lower_bound_us <= plan.iteration_us);
  }
}

TEST_CASE("fidelity: messages are limited where they are simulated one by one") {
  // Rings of 130 tensors on 2,048 workers send 130 x 2 x 2,047 x 2,048 messages, which are 1.1 billion;
  // those of 2 tensors 17 million.
  const auto profile_of = [](std::size_t tensors) {
    return support::profile_of(std::vector<support::LayerSpec>(tensors, support::LayerSpec{10, 20, {2048}}));
  };
  core::Network network = support::pair_of(1, 0);
  network.link = core::Link{.alpha_us = 1, .beta_us_per_byte = 0.1, .gamma_us_per_byte = 0};
  network.measured.clear();
  const auto iteration = [&](Fidelity fidelity, std::size_t tensors, const Conditions& conditions,
                             const std::string& schedule) {
    return run_at(fidelity, profile_of(tensors), network, 2048, conditions, schedule).metrics.iteration_us;
  };
  const std::string rings = R"("wfbp")";
  const Conditions alike = {.iterations = 1};
  CHECK(iteration(Fidelity::messages, 2, alike, rings) == iteration(Fidelity::steps, 2, alike, rings));
  // A worker that is down joins later, so that rings meet: their messages are events.
  Conditions failing = alike;
  failing.failures = {{.worker = 1, .at_us = 3, .down_us = 40}};
  const std::string trees = R"({"pipeline": "wfbp", "collectives": {"all_reduce": "binary_tree"}})";
  CHECK(iteration(Fidelity::messages, 130, failing, trees) ==
        iteration(Fidelity::steps, 130, failing, trees));
  Conditions drawn = alike;
  drawn.links.sigma = 0.1;
  for (const Conditions& one_by_one : {failing, drawn}) {
    try {
      (void)iteration(Fidelity::messages, 130, one_by_one, rings);
      FAIL("no limit");
    } catch (const Unsupported& problem) {
      CHECK(problem.expected() == "at most 1e+09 messages, by fewer workers, groups or iterations");
      CHECK(problem.got() == "1.1e+09 on 2048 workers");
      CHECK(problem.pointer() == "/fidelity");
    }
  }
}

TEST_CASE("fidelity: a network that was only measured cannot go message by message") {
  const core::Profile profile = support::profile_of({{10, 20, {50}}});
  core::Network network = support::pair_of(1, 0);
  if (network.link) {
    core::Measured measured;
    measured.workers = 2;
    measured.curve = core::CostCurve::affine(5, 0.1);
    network.measured = {measured};
    network.link.reset();
  }
  CHECK_THROWS_AS(run_at(Fidelity::steps, profile, network, 2, {}, R"("wfbp")"), Unsupported);
}

}  // namespace
}  // namespace planner
