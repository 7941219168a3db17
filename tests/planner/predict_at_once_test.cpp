// Metrics without a simulation, against those of the simulation.

#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "planner/run/predict.hpp"
#include "tests/support/planning.hpp"

namespace planner {
namespace {

using support::Random;
using support::Scene;

std::vector<double> numbers(const Metrics& m) {
  return {static_cast<double>(m.workers),
          static_cast<double>(m.groups),
          m.iteration_us,
          m.forward_us,
          m.backward_us,
          m.encode_us,
          m.decode_us,
          m.update_us,
          m.read_us,
          m.communication_us,
          m.exposed_communication_us,
          m.bytes_sent_per_worker,
          m.throughput_samples_per_s,
          m.speedup,
          m.scaling_efficiency};
}

std::vector<std::string> texts(const std::vector<Warning>& warnings) {
  std::vector<std::string> out;
  for (const Warning& warning : warnings) out.push_back(warning.text);
  return out;
}

/// Returns whether there was a closed form.
bool check_alike(const Scene& scene, const std::string& json) {
  CAPTURE(json);
  const Schedule schedule = support::schedule_of(json);
  const std::optional<Prediction> at_once = predict_at_once(scene.setting, schedule);
  if (!at_once) return false;
  const Run run = scene.run(schedule);
  CHECK(numbers(at_once->metrics) == numbers(run.metrics));
  CHECK(texts(at_once->warnings) == texts(run.warnings));
  return true;
}

constexpr std::array kFusions = {R"("none")",
                                 R"("all")",
                                 R"("mg-wfbp")",
                                 R"("optimal")",
                                 R"("buckets")",
                                 R"("modules")",
                                 R"({"kind": "threshold", "cap_bytes": 9000, "cycle_us": 30})",
                                 R"({"kind": "groups", "count": 3})"};

std::string random_schedule(Random& random) {
  const char* fusion = kFusions[random.below(static_cast<std::uint32_t>(kFusions.size()))];
  constexpr std::array pipelines = {"wfbp", "after_backward", "dear", "zero", "priority", "sharded"};
  const char* pipeline = pipelines[random.below(random.one_in(9) ? 6 : 4)];
  std::string keys;
  if (std::string(pipeline) == "zero" && random.one_in(2)) keys = R"(, "overlap_gather": false)";
  if (std::string(pipeline) == "dear" && random.one_in(3)) keys = R"(, "prefetch": 1)";
  if (std::string(pipeline) == "priority") return R"({"pipeline": "priority"})";
  if (std::string(pipeline) == "sharded") return R"({"pipeline": "sharded", "fusion": "none"})";
  const bool in_halves = std::string(pipeline) == "dear" || std::string(pipeline) == "zero";
  if (random.one_in(3))
    keys += fmt::format(R"(, "compression": {})",
                        support::random_compressor(random, in_halves ? "all_reduce" : "all_gather"));
  else if (std::string(pipeline) == "zero" && random.one_in(3))
    keys += R"(, "all_reduce_gradients": true)";
  return fmt::format(R"({{"pipeline": "{}", "fusion": {}{}}})", pipeline, fusion, keys);
}

TEST_CASE("predict at once: to the last bit what the simulation gives, whatever the conditions") {
  std::uint32_t found = 0;
  constexpr std::uint32_t kSeeds = 4000;
  for (std::uint32_t seed = 0; seed < support::seeds(kSeeds); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Conditions conditions = support::random_conditions(random);
    conditions.iterations = random.between(1, 4);
    if (!random.one_in(8)) conditions.stragglers.clear();
    if (random.one_in(20)) conditions.overlap.compute_slowdown = 0.5;
    if (random.one_in(20)) conditions.jitter.sigma = 0.1;
    const Scene scene(support::random_profile(random, 9), support::random_link(random), random.between(1, 9),
                      conditions);
    found += check_alike(scene, random_schedule(random)) ? 1U : 0U;
  }
  CHECK(found > support::seeds(kSeeds) / 2);
}

TEST_CASE("predict at once: nothing where workers differ, rates change or the channel goes by layer") {
  const auto predicts = [](const std::string& json, const Conditions& conditions) {
    const Scene scene(support::profile_of({{1, 2, {100}}, {1, 2, {200}}}), support::link_of(1, 0.01), 4,
                      conditions);
    return predict_at_once(scene.setting, support::schedule_of(json)).has_value();
  };
  CHECK(predicts(R"("wfbp")", {}));
  CHECK(predicts(R"("dear-fb")", {}));
  CHECK_FALSE(predicts(R"("bytescheduler")", {}));
  CHECK(predicts(R"({"pipeline": "dear", "fusion": "none", "prefetch": 1})", {}));
  CHECK_FALSE(predicts(R"({"pipeline": "dear", "fusion": "none", "prefetch": 2})", {}));
  CHECK_FALSE(predicts(R"("wfbp")", {.jitter = {.sigma = 0.1}}));
  CHECK_FALSE(predicts(R"("wfbp")", {.stragglers = {{.worker = 1, .slowdown = 2}}}));
  CHECK_FALSE(predicts(R"("wfbp")", {.overlap = {.compute_slowdown = 0.2}}));
  CHECK_FALSE(predicts(R"("wfbp")", {.fidelity = Fidelity::steps}));
}

}  // namespace
}  // namespace planner
