// What must not change, or must change in proportion, when a random scenario is written or scaled
// differently; and what can only improve when its network or its layers become faster.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/job/registry.hpp"
#include "planner/run/predict.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"
#include "planner/sweep/sweep.hpp"
#include "planner/sweep/work_queue.hpp"
#include "tests/support/random_scenario.hpp"

namespace scenarios {
namespace {

using nlohmann::ordered_json;
using support::AnyScenario;
using support::ExactScenario;
using support::Random;

core::Field field_of(const ordered_json& scenario) { return core::Field::parse(scenario.dump(), "s.json"); }

Results results_of(const ordered_json& scenario) { return run(read_scenario(field_of(scenario), true)); }

/// What the program prints: the results as JSON, or the message of a refusal.
std::string outcome(const ordered_json& scenario) {
  try {
    return results_json(results_of(scenario));
  } catch (const core::InputError& error) {
    return error.what();
  }
}

template <typename Item>
void shuffle(Random& random, std::vector<Item>& items) {
  for (std::size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[random.below(static_cast<std::uint32_t>(i))]);
}

// ---- plans

/// The iteration time of a schedule, and by how much a better grouping may be faster.
struct Planned {
  double iteration_us = 0;
  double gap_us = 0;

  /// No grouping takes less.
  double least_us() const { return iteration_us - gap_us; }
};

Planned planned(const Scenario& scenario, std::int64_t workers, const planner::Schedule& schedule) {
  const planner::Setting setting(scenario.profile, scenario.network, workers, all_reduce(scenario, schedule),
                                 scenario.conditions);
  const planner::Run run = planner::run(setting, schedule);
  return {.iteration_us = run.metrics.iteration_us,
          .gap_us = run.proof ? sim::to_us(run.proof->optimality_gap) : 0};
}

Planned planned(const ordered_json& scenario, std::int64_t workers, const ordered_json& schedule) {
  const Scenario read = read_scenario(field_of(scenario));
  return planned(read, workers, planner::read_schedule(field_of(schedule)));
}

/// Every kind of optimal plan: exact ones, and heuristic ones with a bound.
const std::vector<std::string>& optimal_schedules() {
  static const std::vector<std::string> all = {
      R"({"pipeline": "wfbp", "fusion": "optimal"})",
      R"({"pipeline": "after_backward", "fusion": "optimal"})",
      R"({"pipeline": "dear", "fusion": "optimal"})",
      R"({"pipeline": "zero", "fusion": "optimal"})",
      R"({"pipeline": "zero", "overlap_gather": false, "fusion": "optimal"})",
      R"({"pipeline": "parameter_server", "servers": 2, "fusion": "optimal"})",
      R"({"pipeline": "dear", "prefetch": 1, "fusion": "optimal"})",
      R"({"pipeline": "sharded", "fusion": "optimal"})",
      R"({"pipeline": "wfbp", "collectives": {"all_reduce": "halving_doubling"}, "fusion": "optimal"})",
      R"({"name": "cupcake", "compression": {"name": "x", "ratio": 0.25, "collective": "all_gather",
          "encode": {"startup_us": 4, "us_per_byte": 0.0009765625}, "decode": {"floor_us": 8}}})",
      R"({"pipeline": "wfbp", "fusion": {"kind": "optimal", "choices": {"compression": ["none", "fp16"],
          "all_reduce": ["recursive_doubling"]}}})"};
  return all;
}

/// The scenario with a network or one layer faster: each of its times is less or the same.
ordered_json faster(ordered_json scenario, Random& random) {
  const double factor = support::one_of<double>(random, {0, 0.25, 0.5, 0.9, 0.999});
  ordered_json& link = scenario["network"]["link"];
  ordered_json& layers = scenario["profile"]["layers"];
  ordered_json& layer = layers[random.below(static_cast<std::uint32_t>(layers.size()))];
  const auto scale = [&](ordered_json& number) { number = number.get<double>() * factor; };
  switch (random.below(5)) {
    case 0: scale(link["beta_us_per_byte"]); break;
    case 1: scale(link["alpha_us"]); break;
    case 2: scale(layer["forward_us"]); break;
    case 3: scale(layer["backward_us"]); break;
    default:
      for (ordered_json& each : layers)
        for (const char* key : {"forward_us", "backward_us"}) each[key] = each[key].get<double>() * 0.75;
  }
  return scenario;
}

TEST_CASE("metamorphic: a faster network or faster layers never make the optimal plan slower") {
  int exact = 0;
  int strictly = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    ExactScenario scenario(seed);
    ordered_json slow = scenario.make();
    const bool slows = scenario.random().one_in(3);
    if (slows)
      slow["overlap"] = {{"compute_slowdown", scenario.random().below(16) / 4.0},
                         {"communication_slowdown", scenario.random().below(16) / 4.0}};
    const ordered_json fast = faster(slow, scenario.random());
    const std::int64_t workers = slow["workers"][0];
    for (const std::string& schedule : optimal_schedules()) {
      CAPTURE(schedule);
      const Planned before = planned(slow, workers, ordered_json::parse(schedule));
      const Planned after = planned(fast, workers, ordered_json::parse(schedule));
      CHECK(after.least_us() <= before.iteration_us * (1 + (slows ? 1e-9 : 0)));
      if (before.gap_us > 0 || after.gap_us > 0) continue;
      ++exact;
      strictly += after.iteration_us < before.iteration_us ? 1 : 0;
    }
  }
  CHECK(exact > 3 * static_cast<int>(support::seeds(200)));
  CHECK(strictly > static_cast<int>(support::seeds(200)));
}

/// An optimal schedule like a preset in everything but its fusion.
std::string like(std::string_view preset, const std::string& compression, bool is_optimal) {
  return fmt::format(R"({{"name": "{}"{}{}}})", preset,
                     compression.empty() ? "" : R"(, "compression": )" + compression,
                     is_optimal ? R"(, "fusion": "optimal")" : "");
}

TEST_CASE("metamorphic: the exact plan is never behind a named schedule of its pipeline") {
  const std::string gathered =
      R"({"name": "x", "ratio": 0.25, "collective": "all_gather", "encode": {"startup_us": 3}, "decode": {}})";
  std::map<std::string, int> compared;
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    ExactScenario random(seed);
    ordered_json scenario = random.make();
    // with slow-down each change of a rate is rounded
    const bool slows = random.random().one_in(4);
    if (slows) scenario["overlap"] = {{"compute_slowdown", 0.5}, {"communication_slowdown", 0.25}};
    const std::int64_t workers = scenario["workers"][0];
    for (const planner::Preset& preset : planner::presets()) {
      const planner::Schedule named = planner::read_schedule(
          field_of(ordered_json::parse(like(preset.name, preset.needs_compressor ? gathered : "", false))));
      if (named.fusion.kind == "partitions") continue;  // nothing to choose
      CAPTURE(named.name);
      const std::string compression = preset.needs_compressor ? gathered : "";
      const Planned best =
          planned(scenario, workers, ordered_json::parse(like(preset.name, compression, true)));
      const Planned rival =
          planned(scenario, workers, ordered_json::parse(like(preset.name, compression, false)));
      CHECK(best.least_us() <= rival.iteration_us * (1 + (slows ? 1e-9 : 0)));
      ++compared[std::string(preset.name)];
    }
  }
  CHECK(compared.size() > 12);
}

// ---- what is written differently

/// The same JSON with the keys of every object in another order.
ordered_json shuffled(const ordered_json& value, Random& random) {
  if (value.is_array()) {
    ordered_json out = ordered_json::array();
    for (const ordered_json& item : value) out.push_back(shuffled(item, random));
    return out;
  }
  if (!value.is_object()) return value;
  std::vector<std::string> keys;
  for (const auto& [key, item] : value.items()) keys.push_back(key);
  shuffle(random, keys);
  ordered_json out = ordered_json::object();
  for (const std::string& key : keys) out[key] = shuffled(value.at(key), random);
  return out;
}

TEST_CASE("metamorphic: the order of keys changes nothing, in results or refusals") {
  std::uint32_t refused = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const ordered_json scenario = AnyScenario(seed).make();
    const std::string expected = outcome(scenario);
    CHECK(outcome(shuffled(scenario, random)) == expected);
    refused += expected.starts_with("s.json") ? 1U : 0U;
  }
  CHECK(refused > 0);
  CHECK(refused < support::seeds(200));
}

/// The entries of results, in an order of their own.
std::vector<std::string> sorted_entries(const Results& results) {
  std::vector<std::string> out = results.warnings;
  const ordered_json file = ordered_json::parse(results_json(results));
  for (const ordered_json& entry : file.at("results")) out.push_back(entry.dump());
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<Results> results_if_any(const ordered_json& scenario) {
  try {
    return results_of(scenario);
  } catch (const core::InputError&) {
    return {};
  }
}

TEST_CASE(
    "metamorphic: the order of schedules and of numbers of workers changes nothing but the order of "
    "results") {
  std::uint32_t simulated = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    ordered_json scenario = AnyScenario(seed).make();
    const std::optional<Results> forwards = results_if_any(scenario);
    for (const char* key : {"workers", "schedules"}) std::reverse(scenario[key].begin(), scenario[key].end());
    const std::optional<Results> backwards = results_if_any(scenario);
    REQUIRE(forwards.has_value() == backwards.has_value());
    if (!forwards) continue;
    CHECK(sorted_entries(*forwards) == sorted_entries(*backwards));
    ++simulated;
  }
  CHECK(simulated > support::seeds(200) / 4);
}

std::vector<std::string> rows(const sweep::Sweep& sweep, int threads) {
  std::vector<std::string> out(sweep.points);
  std::vector<std::size_t> points(sweep.points);
  for (std::size_t i = 0; i < points.size(); ++i) points[i] = i;
  sweep::WorkQueue queue(points, [&](const std::vector<sweep::Finished>& finished) {
    for (const sweep::Finished& each : finished) out[each.point] = each.record.row;
  });
  sweep::compute(sweep, sweep::Rows::json_lines, queue, threads);
  queue.rethrow();
  return out;
}

TEST_CASE("metamorphic: the number of threads changes nothing") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    ExactScenario random(seed);
    ordered_json scenario = random.make();
    scenario["schedules"] = {"wfbp", "fusewise", "dear"};
    scenario["jitter"] = {{"sigma", 0.1}, {"seed", seed}};
    scenario["sweep"] = {{"bandwidth_factor", {0.5, 1, 3}}, {"seed", {1, 2}}};
    const sweep::Sweep sweep = sweep::read_sweep(field_of(scenario));
    const std::vector<std::string> alone = rows(sweep, 1);
    for (const int threads : {2, 5}) CHECK(rows(sweep, threads) == alone);
  }
}

// ---- what is scaled

/// Multiplies every time of a scenario, by the unit in its key.
void scale_times(ordered_json& value, double factor) {
  if (value.is_array())
    for (ordered_json& item : value) scale_times(item, factor);
  if (!value.is_object()) return;
  for (auto& [key, item] : value.items())
    if (item.is_number() && (key.ends_with("_us") || key.ends_with("us_per_byte")))
      item = item.get<double>() * factor;
    else
      scale_times(item, factor);
}

/// Multiplies the times of results, and divides their rates.
void scale_results(ordered_json& value, double factor) {
  if (value.is_array())
    for (ordered_json& item : value) scale_results(item, factor);
  if (!value.is_object()) return;
  for (auto& [key, item] : value.items())
    if (key.ends_with("_us") || key == "us")
      item = item.get<double>() * factor;
    else if (key == "throughput_samples_per_s")
      item = item.get<double>() / factor;
    else if (item.is_number())
      item = item.get<double>();
    else
      scale_results(item, factor);
}

/// Schedules without times of their own but those in them.
ordered_json scaled_schedules(bool updates) {
  ordered_json out = ordered_json::array();
  for (const char* json :
       {R"("wfbp")", R"("s-sgd")", R"("sync-easgd")", R"("mg-wfbp")", R"("ddp")", R"("fusewise")",
        R"({"pipeline": "after_backward", "fusion": "optimal"})",
        R"({"pipeline": "wfbp", "fusion": {"kind": "threshold", "cap_bytes": 200000, "cycle_us": 20}})",
        R"({"pipeline": "wfbp", "fusion": "all", "collectives": {"all_reduce": "halving_doubling"}})",
        R"({"pipeline": "wfbp", "fusion": "groups", "collectives": {"all_reduce": "double_binary_tree"}})"})
    out.push_back(ordered_json::parse(json));
  if (updates) return out;  // the next ones divide an update by bytes, which is rounded
  for (const char* json :
       {R"("dear")", R"("dear-nl")", R"("dear-no-fusion")", R"("fusewise-dear")",
        R"({"pipeline": "dear", "prefetch": 1, "fusion": "groups"})",
        R"({"pipeline": "zero", "fusion": "optimal"})", R"({"pipeline": "zero", "overlap_gather": false})",
        R"({"pipeline": "sharded", "fusion": "optimal"})"})
    out.push_back(ordered_json::parse(json));
  return out;
}

/// With all times multiplied by a power of two, its results are, too.
void check_scaled(const ordered_json& scenario) {
  const ordered_json once = ordered_json::parse(results_json(results_of(scenario)));
  for (const double factor : {2.0, 4096.0, 0.5}) {
    CAPTURE(factor);
    ordered_json scaled = scenario;
    scale_times(scaled, factor);
    ordered_json expected = once;
    scale_results(expected, factor);
    ordered_json got = ordered_json::parse(results_json(results_of(scaled)));
    scale_results(got, 1);
    for (std::size_t i = 0; i < expected["results"].size(); ++i) {
      CAPTURE(got["results"][i]["schedule"].dump());
      got["results"][i].erase("schedule");  // it names the cycle of the fusion buffer
      expected["results"][i].erase("schedule");
      CHECK(got["results"][i].dump() == expected["results"][i].dump());
    }
  }
}

TEST_CASE("metamorphic: scaling all times by a power of two scales the results, bit by bit") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    ExactScenario random(seed);
    ordered_json scenario = random.make();
    scenario["schedules"] = scaled_schedules(scenario.contains("update"));
    scenario["fidelity"] = support::one_of<std::string>(random.random(), {"closed", "steps", "messages"});
    if (scenario["fidelity"] == "closed")
      for (const char* json : {R"({"pipeline": "priority", "partition_bytes": 65536, "credit_bytes": 131072,
                                   "negotiation_us": 4})"})
        if (!scenario.contains("update")) scenario["schedules"].push_back(ordered_json::parse(json));
    check_scaled(scenario);
  }
}

/// At most one picosecond for each task that may follow another, and as much for what it was scaled from.
double rounding_us(const ordered_json& scenario, double factor) {
  constexpr double kPicosecondUs = 1e-6;
  double tasks = 4;
  for (const ordered_json& layer : scenario["profile"]["layers"])
    tasks += 2 + 2 * static_cast<double>(layer["tensors"].size());
  return tasks * scenario.value("accumulation_steps", 1.0) * (1 + factor) * kPicosecondUs;
}

TEST_CASE("metamorphic: with random factors results scale within a picosecond for each task") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    ExactScenario random(seed);
    ordered_json scenario = random.make();
    scenario["schedules"] = {"wfbp", "ddp", "dear-no-fusion", "dear-nl"};  // they look at no time
    scenario["jitter"] = {{"sigma", 0.3}, {"seed", seed}};
    const double factor = 1024;
    ordered_json scaled = scenario;
    scale_times(scaled, factor);
    const Results once = results_of(scenario);
    const Results more = results_of(scaled);
    for (std::size_t i = 0; i < once.entries.size(); ++i) {
      CAPTURE(once.entries[i].schedule);
      const double off = more.entries[i].metrics.iteration_us - factor * once.entries[i].metrics.iteration_us;
      CHECK(std::abs(off) <= 2 * rounding_us(scenario, factor));
    }
  }
}

// ---- pipeline stages

/// The scenario on stages, without what they refuse.
ordered_json with_stages(ordered_json scenario, Random& random, std::int64_t stages) {
  for (const char* key : {"stragglers", "update", "accumulation_steps", "input"}) scenario.erase(key);
  const bool is_interleaved = stages > 1 && scenario["profile"]["layers"].size() >= 4 && random.one_in(2);
  // zb-h1 halves times, which may not be whole numbers of picoseconds then
  const std::string order_of_one_part = support::one_of<std::string>(random, {"1f1b", "gpipe"});
  std::vector<std::string> overlaps = {"first_stage", "all_stages"};
  if (stages > 1) overlaps.emplace_back("none");
  ordered_json order = {{"schedule", is_interleaved ? "interleaved" : order_of_one_part},
                        {"micro_batches", stages * random.between(1, 3)},
                        {"p2p_us", static_cast<double>(random.below(50)) / 2},
                        {"overlap", support::one_of(random, overlaps)}};
  if (is_interleaved) order["virtual_stages"] = 2;
  const std::int64_t tensor = random.one_in(2) ? 1 : 2;
  scenario["workers"] = {stages * tensor * (std::int64_t{2} << random.below(3))};
  scenario["parallel"] = {{"tensor", tensor}, {"pipeline", stages}, {"stages", std::move(order)}};
  scenario["schedules"] = ordered_json::array();
  for (const char* json :
       {R"("wfbp")", R"("s-sgd")", R"("ddp")", R"("fusewise")",
        R"({"pipeline": "after_backward", "fusion": "optimal"})", R"("dear-no-fusion")", R"("fusewise-dear")",
        R"({"pipeline": "zero", "fusion": "optimal"})", R"({"pipeline": "zero", "overlap_gather": false})"})
    scenario["schedules"].push_back(ordered_json::parse(json));
  return scenario;
}

TEST_CASE("metamorphic: on stages, too, results scale with all times, bit by bit") {
  for (std::uint32_t seed = 0; seed < support::seeds(100); ++seed) {
    CAPTURE(seed);
    ExactScenario random(seed);
    const ordered_json scenario = random.make();
    check_scaled(with_stages(scenario, random.random(), random.random().one_in(3) ? 1 : 2));
  }
}

TEST_CASE("metamorphic: a single stage with one micro-batch is the job without stages") {
  for (std::uint32_t seed = 0; seed < support::seeds(100); ++seed) {
    CAPTURE(seed);
    ExactScenario random(seed);
    ordered_json scenario = random.make();
    scenario["iterations"] = 1;
    scenario = with_stages(scenario, random.random(), 1);
    ordered_json& parallel = scenario["parallel"];
    scenario["workers"] = {scenario["workers"][0].get<std::int64_t>() /
                           parallel["tensor"].get<std::int64_t>()};
    parallel["tensor"] = 1;
    parallel["stages"]["micro_batches"] = 1;
    const Results staged = results_of(scenario);
    scenario.erase("parallel");
    const Results plain = results_of(scenario);
    REQUIRE(staged.entries.size() == plain.entries.size());
    for (std::size_t i = 0; i < plain.entries.size(); ++i) {
      CAPTURE(plain.entries[i].schedule);
      CHECK(staged.entries[i].metrics.iteration_us == plain.entries[i].metrics.iteration_us);
      CHECK(staged.entries[i].metrics.communication_us == plain.entries[i].metrics.communication_us);
    }
  }
}

}  // namespace
}  // namespace scenarios
