// A host that launches kernels beside the device: what layers take with it by hand, and the exact planner
// against every grouping on a host, a device and a channel that are written out step by step.

#include "core/host_stream.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/advise/what_if.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using core::Profile;
using support::Random;
using support::Scene;

/// Layers with `host_us` for each of their passes.
Profile with_host(Profile profile, const std::vector<std::pair<double, double>>& host_us, double rest_us,
                  bool synchronizes) {
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    profile.layers[i].forward_host_us = host_us[i].first;
    profile.layers[i].backward_host_us = host_us[i].second;
  }
  profile.iteration = core::ProfileIteration{.host_us = rest_us, .synchronizes = synchronizes};
  return profile;
}

// host    l1 0--30    l2 30--60   l2 60--70  l1 70--200
// device  l1 0--30 (10 of work)   l2 30--70 (40)   l2 70--90 (20)   l1 90--200 (20)
TEST_CASE("host stream: a host that waits in every iteration begins with the device") {
  const Profile profile = core::with_host_stream(
      with_host(support::profile_of({{10, 20, {100}}, {40, 20, {100}}}), {{30, 130}, {30, 10}}, 5, true));
  CHECK(profile.layers[0].forward_us == 30);
  CHECK(profile.layers[1].forward_us == 40);
  CHECK(profile.layers[1].backward_us == 20);
  CHECK(profile.layers[0].backward_us == 110);
  CHECK(profile.layers[0].backward_device_us == 20);
  CHECK(core::host_bound_us(profile, 1) == 0);
  CHECK(core::with_host_stream(profile) == profile);
  // A device that takes twice as long hides half of the first wait and most of the last.
  const Profile slower = core::scaled(profile, 2);
  CHECK(slower.layers[0].forward_us == 30);
  CHECK(slower.layers[1].forward_us == 80);
  CHECK(slower.layers[1].backward_us == 40);
  CHECK(slower.layers[0].backward_us == 50);
}

TEST_CASE("host stream: a host that runs ahead delays no layer but the iteration") {
  const Profile profile = core::with_host_stream(
      with_host(support::profile_of({{10, 20, {100}}, {40, 20, {100}}}), {{30, 130}, {30, 10}}, 5, false));
  CHECK(profile.layers[0].backward_us == 20);
  CHECK(core::host_bound_us(profile, 1) == 205);
  CHECK(core::host_bound_us(profile, 3) == 605);
  const Schedule schedule = support::schedule_of(R"("wfbp")");
  // device  forward 0--50, backward 50--90, channel from 70: 40 each, to 150
  const Scene scene(profile, support::pair_of(40, 0), 2);
  CHECK(scene.run(schedule).metrics.iteration_us == 205);
  CHECK(scene.run(schedule).metrics.exposed_communication_us == 60);
  const Scene slow(profile, support::pair_of(400, 0), 2);
  CHECK(slow.run(schedule).metrics.iteration_us == 870);
  const Scene in_time(core::without_launch_waits(profile), support::pair_of(40, 0), 2);
  CHECK(in_time.run(schedule).metrics.iteration_us == 150);
}

TEST_CASE("host stream: without launch gaps the host delays nothing") {
  const Profile profile = core::with_host_stream(
      with_host(support::profile_of({{10, 20, {100}}, {40, 20, {100}}}), {{30, 130}, {30, 10}}, 5, true));
  const Scene scene(profile, support::pair_of(40, 0), 2);
  const Schedule schedule = support::schedule_of(R"("wfbp")");
  const Run run = scene.run(schedule);
  CHECK(run.metrics.iteration_us == 240);  // forward 0--70, backward l2 to 90, l1 to 200, then its all-reduce
  const auto after = [&](const char* change) {
    return what_if(scene.setting, schedule, run, read_change(change, profile)).iteration_us;
  };
  CHECK(after("no-launch-gaps") == 150);  // forward 0--50, backward l2 to 70, two all-reduces of 40
  CHECK(after("compute=0.5") == 240);     // forward 0--110, backward l2 to 150, l1 to 200
}

TEST_CASE("host stream: only where there are other workers are slower ones waited for") {
  const Conditions conditions = {.waiting_us = 7};
  const Profile profile = support::profile_of({{10, 20, {100}}});
  const Schedule schedule = support::schedule_of(R"("wfbp")");
  CHECK(Scene(profile, support::pair_of(40, 0), 1, conditions).run(schedule).metrics.iteration_us == 30);
  const Scene two(profile, support::pair_of(40, 0), 2, conditions);
  const Run run = two.run(schedule);
  CHECK(run.metrics.iteration_us == 77);
  CHECK(what_if(two.setting, schedule, run, read_change("no-stragglers", profile)).iteration_us == 70);
}

TEST_CASE("host stream: a profile has the host's times of all layers, or none") {
  const Profile whole = with_host(support::profile_of({{10, 20, {100}}}), {{30, 40}}, 5, false);
  const auto read = [](const Profile& profile) {
    return core::read_profile(core::Field::parse(core::profile_text(profile), "p.json"));
  };
  CHECK(read(whole) == whole);
  Profile part = whole;
  part.layers[0].backward_host_us.reset();
  CHECK_THROWS_WITH_AS(read(part), doctest::Contains("/layers/0/backward_host_us"), core::InputError);
  part = whole;
  part.iteration.reset();
  CHECK_THROWS_WITH_AS(read(part), doctest::Contains("/layers/0/forward_host_us"), core::InputError);
}

/// The period of a job after many iterations; us. Host, device and channel go on from iteration to iteration;
/// a kernel starts when it has been launched and the device is free, and a collective when it has been
/// launched, its gradients are ready and the channel is free.
double period_us(const Profile& profile, const Scene& scene, const Groups& groups) {
  constexpr int kSettled = 200;
  constexpr int kIterations = 400;
  double host = 0;
  double device = 0;
  double channel = 0;
  std::vector<double> ends;
  const core::ProfileIteration& rest = *profile.iteration;
  const auto run = [&](double host_us, double device_us) {
    device = std::max(device, host) + device_us;  // the first kernel is launched at once, the last at the end
    host += host_us;
    device = std::max(device, host);
  };
  for (int i = 0; i < kIterations; ++i) {
    if (rest.synchronizes)
      host = device = std::max(host, device) + rest.other_us;
    else
      host += *rest.host_us;
    for (const core::ProfileLayer& layer : profile.layers) run(*layer.forward_host_us, layer.forward_us);
    std::size_t group = 0;
    std::uint32_t gradient = 0;
    for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer) {
      run(*layer->backward_host_us, layer->backward_us);
      for (std::size_t tensor = 0; tensor < layer->tensors.size(); ++tensor)
        if (++gradient == groups[group].end) {
          const std::int64_t bytes = bytes_of(scene.setting.workload, groups[group]);
          const double cost =
              sim::to_us(scene.setting.costs.of(core::CollectiveKind::all_reduce).time(bytes));
          channel = std::max({channel, device, host}) + cost;
          ++group;
        }
    }
    device = std::max(device, channel) + rest.optimizer_us;
    ends.push_back(device);
  }
  return (ends.back() - ends[kSettled - 1]) / (kIterations - kSettled);
}

Profile random_host_profile(Random& random) {
  std::vector<support::LayerSpec> layers(1 + random.below(5));
  std::vector<std::pair<double, double>> host;
  for (support::LayerSpec& layer : layers) {
    layer.forward_us = random.below(100);
    layer.backward_us = 1 + random.below(200);
    for (std::uint32_t tensors = random.below(3); tensors-- > 0;)
      layer.elements.push_back(random.between(1, 4000));
    host.emplace_back(random.below(150), random.below(300));
  }
  layers.front().elements.push_back(7);
  Profile out = with_host(support::profile_of(layers), host, random.below(200), random.one_in(2));
  out.iteration->optimizer_us = random.below(50);
  if (out.iteration->synchronizes) out.iteration->other_us = random.below(50);
  return out;
}

TEST_CASE("host stream: the exact plan is the best grouping of a host, a device and a channel") {
  int bound_by_host = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Profile profile = random_host_profile(random);
    const Conditions conditions = {.read_us = profile.iteration->other_us,
                                   .read_is_overlapped = false,
                                   .optimizer_us = profile.iteration->optimizer_us};
    const Scene scene(core::with_host_stream(profile), support::random_link(random), random.between(2, 5),
                      conditions);
    const Schedule optimal = support::schedule_of(R"({"pipeline": "wfbp", "fusion": "optimal"})");
    const Run run = scene.run(optimal);
    double best = 1e300;
    support::for_each_grouping(
        scene.setting.workload.gradient_count(), 1, support::any_grouping,
        [&](const Groups& groups) { best = std::min(best, period_us(profile, scene, groups)); });
    CHECK(run.metrics.iteration_us == doctest::Approx(best).epsilon(1e-6));
    CHECK(period_us(profile, scene, run.groups) == doctest::Approx(best).epsilon(1e-6));
    bound_by_host += run.metrics.iteration_us == core::host_bound_us(profile, 1) ? 1 : 0;
  }
  CHECK(bound_by_host >= static_cast<int>(support::seeds(300)) / 30);
}

}  // namespace
}  // namespace planner
