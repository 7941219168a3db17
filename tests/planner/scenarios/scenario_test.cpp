// Scenarios: reading, defaults, every error message verbatim, and the order of results.

#include "planner/scenarios/scenario.hpp"
#include "planner/advise/what_if.hpp"
#include "planner/cost/collectives.hpp"
#include "tests/support/listed.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/scenarios/results_text.hpp"
#include "planner/scenarios/run.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace scenarios {
namespace {

using core::Field;
using nlohmann::ordered_json;

constexpr const char* kProfile =
    R"({"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 8,
  "dtype": "float32", "device": "d", "origin": {"kind": "measured", "source": "s"},
  "layers": [{"name": "l1", "kind": "k", "forward_us": 2, "backward_us": 5, "tensors": [{"name": "t1", "elements": 10}]},
             {"name": "l2", "kind": "k", "forward_us": 3, "backward_us": 4, "tensors": [{"name": "t2", "elements": 20}]}]})";
constexpr const char* kNetwork = R"({"format": "fusewise.network", "version": 1, "name": "n",
  "origin": {"kind": "measured", "source": "s"}, "link": {"alpha_us": 1, "beta_us_per_byte": 0.1}})";

/// A valid scenario with all keys, changed by a merge patch (RFC 7386).
ordered_json changed(const std::string& patch) {
  ordered_json out = {{"format", "fusewise.scenario"},
                      {"version", 1},
                      {"profile", ordered_json::parse(kProfile)},
                      {"network", ordered_json::parse(kNetwork)},
                      {"workers", {2, 4}},
                      {"schedules", {"wfbp"}}};
  out.merge_patch(ordered_json::parse(patch));
  return out;
}

Scenario read(const std::string& patch) {
  return read_scenario(Field::parse(changed(patch).dump(), "s.json"));
}
Results results(const std::string& patch) { return run(read(patch)); }

struct Refusal {
  std::string patch;
  std::string message;
};

void check_all(const std::vector<Refusal>& refusals) {
  for (const Refusal& each : refusals) {
    CAPTURE(each.patch);
    CHECK_THROWS_WITH_AS(results(each.patch), each.message.c_str(), core::InputError);
  }
}

TEST_CASE("scenario: what is not said has the contract's defaults") {
  const Scenario scenario = read(R"({"schedules": null})");
  CHECK(scenario.name.empty());
  CHECK(scenario.workers == std::vector<std::int64_t>{2, 4});
  CHECK(scenario.all_reduce == planner::Algorithm{.name = "ring"});
  CHECK(scenario.conditions.iterations == 3);
  CHECK(scenario.conditions.accumulation_steps == 1);
  CHECK(scenario.conditions.read_us == 0);
  CHECK(scenario.conditions.read_is_overlapped);
  CHECK(scenario.conditions.optimizer_us == 0);
  CHECK(scenario.conditions.lars_us == 0);
  CHECK_FALSE(scenario.conditions.parallel_tensor_operator);
  CHECK(scenario.conditions.stragglers.empty());
  CHECK(scenario.conditions.overlap == planner::Overlap{});
  CHECK_FALSE(scenario.conditions.overlap.slows());
  CHECK(scenario.conditions.jitter == planner::Jitter{.sigma = 0, .seed = 1});
  CHECK(scenario.warnings.empty());
  CHECK(scenario.schedules.size() == planner::lossless_schedules().size());
}

TEST_CASE("scenario: every value is read, and the contract's defaults may be spelled out") {
  const Scenario scenario =
      read(R"({"name": "a name", "workers": 3, "collectives": {"all_reduce": "binary_tree"},
    "iterations": 5, "accumulation_steps": 2, "overlap": {"compute_slowdown": 0.0, "communication_slowdown": 0},
    "jitter": {"distribution": "lognormal", "sigma": 0.0, "seed": 7}, "stragglers": [{"worker": 1, "slowdown": 1.5}],
    "input": {"read_us": 4, "overlapped": false},
    "update": {"optimizer_us": 1, "lars_us": 2, "parallel_tensor_operator": true},
    "schedules": ["ddp", {"pipeline": "dear", "collectives": {"all_reduce": "ring"}}]})");
  CHECK(scenario.name == "a name");
  CHECK(scenario.workers == std::vector<std::int64_t>{3});
  CHECK(scenario.conditions.iterations == 5);
  CHECK(scenario.conditions.accumulation_steps == 2);
  CHECK(scenario.conditions.read_us == 4);
  CHECK_FALSE(scenario.conditions.read_is_overlapped);
  CHECK(scenario.conditions.optimizer_us == 1);
  CHECK(scenario.conditions.lars_us == 2);
  CHECK(scenario.conditions.parallel_tensor_operator);
  REQUIRE(scenario.conditions.stragglers.size() == 1);
  CHECK(scenario.conditions.stragglers[0].worker == 1);
  CHECK(scenario.conditions.stragglers[0].slowdown == 1.5);
  CHECK(scenario.conditions.overlap == planner::Overlap{});
  CHECK(scenario.conditions.jitter == planner::Jitter{.sigma = 0, .seed = 7});
  REQUIRE(scenario.schedules.size() == 2);
  CHECK(all_reduce(scenario, scenario.schedules[0]).name == "binary_tree");
  CHECK(all_reduce(scenario, scenario.schedules[1]).name == "ring");
}

TEST_CASE("scenario: what the memory of megatron-do lacks to be that of Megatron-LM is warned of") {
  const auto warnings = [](const std::string& members) {
    return read(R"({"profile": {"dtype": "bfloat16"}, "schedules": ["megatron-do"], )" + members + "}")
        .warnings;
  };
  using Texts = std::vector<std::string>;
  const std::string buffers = R"("memory": {"optimizer": "adam", "gradients_in_buffers": true})";
  CHECK(
      warnings(R"("memory": {"optimizer": "adam"}, "data_types": {"reduce": "float32"})") ==
      Texts{
          R"(memory: that of megatron-do is Megatron-LM's only with "gradients_in_buffers": true in memory, )"
          R"(and with the same type for gradients as for reduce in data_types, and with "master": )"
          R"("float32" in data_types)"});
  CHECK(warnings(buffers) ==
        Texts{R"(memory: that of megatron-do is Megatron-LM's only with "master": "float32" in data_types)"});
  CHECK(warnings(buffers +
                 R"(, "data_types": {"reduce": "float32", "gradients": "float32", "master": "float32"})")
            .empty());
  CHECK(warnings(buffers + R"(, "data_types": {"parameters": "float32"})").empty());
  CHECK(warnings(R"("iterations": 3)").empty());
  CHECK(read(R"({"memory": {"optimizer": "adam"}, "schedules": ["zero1"]})").warnings.empty());
}

TEST_CASE("scenario: what is probably meant in another unit, and schedules of one name, are warned of") {
  const auto warnings = [](const std::string& members) { return read("{" + members + "}").warnings; };
  using Texts = std::vector<std::string>;
  CHECK(warnings(R"("schedules": ["ddp", "wfbp", {"name": "ddp"}])") ==
        Texts{"/schedules: several are called 'ddp', of which --schedule takes the first"});
  CHECK(warnings(R"("schedules": [{"label": "x", "fusion": "all"}, {"label": "x", "name": "ddp"}])") ==
        Texts{"/schedules: several are called 'x', of which --schedule takes the first"});
  CHECK(warnings(R"("schedules": ["ddp", {"label": "DDP", "name": "ddp"}])").empty());
  CHECK(warnings(R"("workers": [4, 2, 4, 4])") == Texts{"/workers: 4 is there several times"});
  CHECK(warnings(R"("schedules": [{"fusion": {"kind": "buckets", "cap_bytes": 25}}])") ==
        Texts{"schedule 'buckets 25': cap_bytes 25 is a number of bytes (25 MiB would be 26214400)"});
  CHECK(warnings(R"("schedules": [{"fusion": {"kind": "buckets", "cap_bytes": 1024}}])").empty());
  const auto network = [&](const std::string& beta) {
    return warnings(R"("network": {"line_rate_gbps": 10, "link": {"alpha_us": 1, "beta_us_per_byte": )" +
                    beta + "}}");
  };
  CHECK(network("8e-4").empty());
  CHECK(network("1e-2").empty());  // a slow one
  CHECK(network("8e-2") ==
        Texts{"network 'n': beta_us_per_byte 0.08 is a rate of 0.1 Gb/s, 100 times below its line_rate_gbps "
              "10; one of them is probably wrong"});
}

TEST_CASE("scenario: slow-down and jitter are read, and what of them is not said has its default") {
  const Scenario scenario = read(R"({"overlap": {"compute_slowdown": 0.5, "communication_slowdown": 0.25},
    "jitter": {"distribution": "lognormal", "sigma": 0.2, "seed": 9223372036854775807}})");
  CHECK(scenario.conditions.overlap ==
        planner::Overlap{.compute_slowdown = 0.5, .communication_slowdown = 0.25});
  CHECK(scenario.conditions.jitter == planner::Jitter{.sigma = 0.2, .seed = INT64_MAX});
  const Scenario half = read(R"({"overlap": {"communication_slowdown": 3}, "jitter": {"sigma": 2}})");
  CHECK(half.conditions.overlap == planner::Overlap{.communication_slowdown = 3});
  CHECK(half.conditions.jitter == planner::Jitter{.sigma = 2, .seed = 1});
}

TEST_CASE("scenario: the profile's slow-down counts where the scenario has none and can have one") {
  const std::string measured =
      R"("profile": {"overlap": {"compute_slowdown": 0.5, "communication_slowdown": 0.25}})";
  const planner::Overlap all = {.compute_slowdown = 0.5, .communication_slowdown = 0.25};
  const Scenario taken = read("{" + measured + "}");
  CHECK(taken.conditions.overlap == all);
  CHECK(taken.warnings.empty());
  const std::string given = R"({"overlap": {"compute_slowdown": 0.5, "communication_slowdown": 0.25}})";
  CHECK(results_json(results("{" + measured + "}")) == results_json(results(given)));
  CHECK(results_json(results("{" + measured + "}")) != results_json(results("{}")));
  const Scenario own = read("{" + measured + R"(, "overlap": {}})");
  CHECK(own.conditions.overlap == planner::Overlap{});
  CHECK(own.warnings.empty());
  const Scenario steps = read("{" + measured + R"(, "fidelity": "steps"})");
  CHECK(steps.conditions.overlap == planner::Overlap{});
  CHECK(steps.warnings ==
        std::vector<std::string>{"the profile's overlap slow-down is left out: it goes with fidelity closed, "
                                 "without failures, with lognormal jitter alone"});
}

TEST_CASE("scenario: profile and network inside it or in files are the same") {
  const support::TemporaryFolder folder;
  folder.put("traces/p.json", kProfile);
  folder.put("traces/n.json", kNetwork);
  const std::string text =
      changed(R"({"profile": "../traces/p.json", "network": "../traces/n.json"})").dump();
  const Scenario from_files = read_scenario(Field::load(folder.put("scenarios/s.json", text)));
  const Scenario inside = read("{}");
  CHECK(from_files.profile == inside.profile);
  CHECK(from_files.network == inside.network);
}

TEST_CASE("scenario: a profile may be estimated from a model's shapes") {
  ordered_json file = changed(R"({"workers": [1]})");
  file["profile"] = {{"estimate", (support::source_dir() / "models/resnet18.json").string()},
                     {"device", "v100"},
                     {"batch_size", 32},
                     {"compute_us", 60'000},
                     {"forward_share", 0.25}};
  const Scenario scenario = read_scenario(Field::parse(file.dump(), "s.json"));
  CHECK(scenario.profile.origin.kind == core::OriginKind::estimated);
  const planner::Metrics alone = run(scenario).entries.front().metrics;
  CHECK(alone.forward_us == 15'000);
  CHECK(alone.backward_us == 45'000);

  file["profile"]["forward_share"] = "third";
  CHECK_THROWS_WITH_AS((void)read_scenario(Field::parse(file.dump(), "s.json")),
                       R"(s.json: /profile/forward_share: expected a number from 0 to 1, got "third")",
                       core::InputError);
}

TEST_CASE("scenario: a wrong value is refused with its place") {
  const std::string algorithms = support::listed(planner::algorithms());
  check_all({
      {R"({"format": "fusewise.plan"})",
       R"(s.json: /format: expected one of fusewise.scenario, got "fusewise.plan")"},
      {R"({"worker": 2})",
       "s.json: /worker: expected a key among format, version, name, profile, network, workers, schedules, "
       "collectives, iterations, accumulation_steps, overlap, jitter, stragglers, failures, fidelity, links, "
       "topology, channels, input, update, job, sweep, between, data_types, memory, parallel, recompute, "
       "worker_spread, got 'worker', did you mean 'workers'?"},
      {R"({"profile": null})", "s.json: /profile: expected a value, got nothing"},
      {R"({"workers": null})", "s.json: /workers: expected a value, got nothing"},
      {R"({"name": 3})", "s.json: /name: expected a string, got 3"},
      {R"({"workers": 0})", "s.json: /workers: expected an integer from 1 to 1000000, got 0"},
      {R"({"workers": [4, 0]})", "s.json: /workers/1: expected an integer from 1 to 1000000, got 0"},
      {R"({"workers": [1000001]})", "s.json: /workers/0: expected an integer from 1 to 1000000, got 1000001"},
      {R"({"workers": []})",
       "s.json: /workers: expected an array of at least 1 item, got an array of 0 items"},
      {R"({"workers": "all"})", R"(s.json: /workers: expected an integer from 1 to 1000000, got "all")"},
      {R"({"schedules": []})",
       "s.json: /schedules: expected an array of at least 1 item, got an array of 0 items"},
      {R"({"schedules": "wfbp"})", R"(s.json: /schedules: expected an array of at least 1 item, got "wfbp")"},
      {R"({"iterations": 0})", "s.json: /iterations: expected an integer from 1 to 10000, got 0"},
      {R"({"accumulation_steps": 10001})",
       "s.json: /accumulation_steps: expected an integer from 1 to 10000, got 10001"},
      {R"({"collectives": {"all_reduce": "rong"}})", "s.json: /collectives/all_reduce: expected one of " +
                                                         algorithms +
                                                         R"(, got "rong", did you mean 'ring'?)"},
      {R"({"input": {"read_us": -1}})",
       "s.json: /input/read_us: expected a number from 0 to 1000000000000, got -1"},
      {R"({"input": {"overlap": true}})",
       "s.json: /input/overlap: expected a key among read_us, overlapped, got 'overlap', did you mean "
       "'overlapped'?"},
      {R"({"input": 3})", "s.json: /input: expected an object, got 3"},
      {R"({"update": {"lars_us": "slow"}})",
       R"(s.json: /update/lars_us: expected a number from 0 to 1000000000000, got "slow")"},
      {R"({"update": {"lars_us": 1, "lamb_us": 2}})",
       "s.json: /update/lamb_us: expected either lars_us or lamb_us, got both"},
      {R"({"update": {"lambs_us": 2}})",
       "s.json: /update/lambs_us: expected a key among optimizer_us, lars_us, lamb_us, "
       "parallel_tensor_operator, got 'lambs_us', did you mean 'lamb_us'?"},
      {R"({"update": {"parallel_tensor_operator": 1}})",
       "s.json: /update/parallel_tensor_operator: expected true or false, got 1"},
  });
}

TEST_CASE("scenario: what a profile says of the iteration holds where the scenario has no keys for it") {
  const std::string profile = R"("profile": {"iteration": {"optimizer_us": 20, "other_us": 30}})";
  const double plain = results("{}").entries.front().metrics.iteration_us;
  CHECK(results("{" + profile + "}").entries.front().metrics.iteration_us == plain + 50);
  CHECK(results("{" + profile + R"(, "update": {"optimizer_us": 1}})").entries.front().metrics.iteration_us ==
        plain + 31);
  CHECK(results("{" + profile + R"(, "update": {"optimizer_us": 1}, "input": {}})")
            .entries.front()
            .metrics.iteration_us == plain + 1);
}

TEST_CASE("scenario: LAMB costs what LARS does, shared out by the parallel tensor operator or not") {
  for (const char* pto : {"false", "true"}) {
    CAPTURE(pto);
    const auto iteration_us = [&](const std::string& rates) {
      const Scenario scenario =
          read(R"({"update": {"optimizer_us": 5, )" + rates + R"("parallel_tensor_operator": )" + pto + "}}");
      return scenarios::run(scenario).entries.front().metrics.iteration_us;
    };
    CHECK(iteration_us(R"("lamb_us": 800, )") == iteration_us(R"("lars_us": 800, )"));
    CHECK(iteration_us(R"("lamb_us": 800, )") > iteration_us(""));
  }
}

TEST_CASE("scenario: an unknown schedule is refused, and the nearest named") {
  std::string known;
  for (const planner::Preset& preset : planner::presets())
    known += (known.empty() ? "" : ", ") + std::string(preset.name);
  check_all({{R"({"schedules": ["wfbp", "hovorod"]})", "s.json: /schedules/1: expected one of " + known +
                                                           R"(, got "hovorod", did you mean 'horovod'?)"}});
}

TEST_CASE("scenario: faults of profile and network are named where they are") {
  const std::string layer = R"("kind": "k", "forward_us": 1, "backward_us": 1, "tensors")";
  check_all({
      {R"({"profile": {"layers": []}})",
       "s.json: /profile/layers: expected an array of at least 1 item, got an array of 0 items"},
      {R"({"profile": {"layers": [{"name": "l", )" + layer + R"(: [{"name": "t", "elements": 0}]}]}})",
       "s.json: /profile/layers/0/tensors/0/elements: expected an integer from 1 to 1000000000000, got 0"},
      {R"({"profile": {"layers": [{"name": "l", )" + layer +
           R"(: [{"name": "t", "elements": 1000000000001}]}]}})",
       "s.json: /profile/layers/0/tensors/0/elements: expected an integer from 1 to 1000000000000, got "
       "1000000000001"},
      {R"({"profile": {"layers": [{"name": "l", "kind": "k", "forward_us": -2, "backward_us": 1, "tensors": []}]}})",
       "s.json: /profile/layers/0/forward_us: expected a number from 0 to 1000000000000, got -2"},
      {R"({"network": {"link": {"alpha_us": -1}}})",
       "s.json: /network/link/alpha_us: expected a number from 0 to 1000000000000, got -1"},
      {R"({"network": {"link": null}})",
       "s.json: /network: expected at least one of link, levels, measured, got none of them"},
      {R"({"profile": "none.json"})",
       R"(s.json: /profile: expected the path of a file that can be read, got "none.json": No such file or directory)"},
      {R"({"profile": 5})", "s.json: /profile: expected an object or the path of a file, got 5"},
  });
}

TEST_CASE("scenario: slow-down and jitter within what can be simulated") {
  check_all({
      {R"({"overlap": 0.5})", "s.json: /overlap: expected an object, got 0.5"},
      {R"({"overlap": {"slowdown": 0.5}})",
       "s.json: /overlap/slowdown: expected a key among compute_slowdown, communication_slowdown, got "
       "'slowdown'"},
      {R"({"jitter": {"sigmas": 0.5}})",
       "s.json: /jitter/sigmas: expected a key among distribution, sigma, seed, got 'sigmas', did you mean "
       "'sigma'?"},
      {R"({"jitter": {"sigma": -0.1}})", "s.json: /jitter/sigma: expected a number from 0 to 2, got -0.1"},
      {R"({"jitter": {"seed": 1.5}})",
       "s.json: /jitter/seed: expected an integer from 0 to 9223372036854775807, got 1.5"},
      {R"({"overlap": {"compute_slowdown": -0.5}})",
       "s.json: /overlap/compute_slowdown: expected a number from 0 to 1000000, got -0.5"},
      {R"({"overlap": {"communication_slowdown": "much"}})",
       "s.json: /overlap/communication_slowdown: expected a number from 0 to 1000000, got \"much\""},
      {R"({"jitter": {"sigma": 2.5}})", "s.json: /jitter/sigma: expected a number from 0 to 2, got 2.5"},
      {R"({"jitter": {"distribution": "gamma"}})",
       R"(s.json: /jitter/distribution: expected one of lognormal, normal, measured, got "gamma")"},
      {R"({"jitter": {"distribution": "normal", "sigma": 0.5}})",
       "s.json: /jitter/sigma: expected a number from 0 to 0.3, got 0.5"},
      {R"({"jitter": {"distribution": "measured"}})",
       R"(s.json: /jitter/distribution: expected a profile with forward_spread_us or backward_spread_us, got "measured")"},
      {R"({"jitter": {"distribution": "normal"}, "overlap": {"compute_slowdown": 1}})",
       R"(s.json: /jitter/distribution: expected lognormal where compute and channel slow each other, got "normal")"},
      {R"({"failures": [{"worker": 0, "at_us": 5}], "overlap": {"compute_slowdown": 1}})",
       "s.json: /failures: expected none where compute and channel slow each other, got an array of 1 item"},
      {R"({"failures": [{"worker": 0}]})", "s.json: /failures/0/at_us: expected a value, got nothing"},
      {R"({"failures": [{"worker": -1, "at_us": 5}]})",
       "s.json: /failures/0/worker: expected an integer from 0 to 999999, got -1"},
      {R"({"jitter": {"seed": -1}})",
       "s.json: /jitter/seed: expected an integer from 0 to 9223372036854775807, got -1"},
  });
}

TEST_CASE("scenario: what goes by layer is left out where it cannot be simulated, and refused where named") {
  const std::vector<std::string> conditions = {R"("fidelity": "steps")", R"("fidelity": "messages")",
                                               R"("failures": [{"worker": 0, "at_us": 5, "down_us": 1}])",
                                               R"("jitter": {"distribution": "normal", "sigma": 0.1})"};
  for (const std::string& condition : conditions) {
    CAPTURE(condition);
    const Scenario usual = read("{" + condition + R"(, "schedules": null})");
    CHECK(usual.schedules.size() == planner::lossless_schedules().size() - 1);
    CHECK(run(usual).warnings ==
          std::vector<std::string>{"schedule 'bytescheduler' is left out: with failures, other jitter than "
                                   "lognormal or other fidelity than closed a channel cannot go by layer"});
    const std::string message =
        "s.json: /schedules/1: expected a pipeline whose channel runs in order, with "
        "failures, other jitter than lognormal or other fidelity than closed, got "
        "priority, which goes by layer";
    for (const char* named : {R"("bytescheduler")", R"({"pipeline": "priority", "partition_bytes": 40})"})
      CHECK_THROWS_WITH_AS(read("{" + condition + R"(, "schedules": ["wfbp", )" + named + "]}"),
                           message.c_str(), core::InputError);
    CHECK(read("{" + condition + "}").warnings.empty());
  }
  const Scenario lognormal = read(R"({"schedules": null, "jitter": {"sigma": 0.1}})");
  CHECK(lognormal.schedules.size() == planner::lossless_schedules().size());
  CHECK(lognormal.warnings.empty());
}

TEST_CASE("scenario: stragglers are workers once each, with a factor above 0") {
  check_all({
      {R"({"stragglers": [{"worker": 1, "slowdown": 0}]})",
       "s.json: /stragglers/0/slowdown: expected a factor above 0, got 0"},
      {R"({"stragglers": [{"worker": 1, "slowdown": 2}, {"worker": 1, "slowdown": 3}]})",
       "s.json: /stragglers/1/worker: expected a worker that is listed once, got 1"},
      {R"({"stragglers": [{"worker": -1, "slowdown": 2}]})",
       "s.json: /stragglers/0/worker: expected an integer from 0 to 999999, got -1"},
      {R"({"stragglers": [{"slowdown": 2}]})", "s.json: /stragglers/0/worker: expected a value, got nothing"},
  });
  CHECK(results(R"({"stragglers": [{"worker": 4, "slowdown": 2}, {"worker": 3, "slowdown": 2}]})").warnings ==
        std::vector<std::string>{"straggler 4 is none of the workers 0 to 3, it slows nothing down"});
}

TEST_CASE("scenario: slow links are workers once each, as stragglers are") {
  const auto slow = [](const std::string& list) {
    return R"({"fidelity": "steps", "links": {"slow": [)" + list + "]}}";
  };
  check_all({
      {slow(R"({"worker": 1, "slowdown": 0})"),
       "s.json: /links/slow/0/slowdown: expected a factor above 0, got 0"},
      {slow(R"({"worker": 1, "slowdown": 2}, {"worker": 1, "slowdown": 3})"),
       "s.json: /links/slow/1/worker: expected a worker that is listed once, got 1"},
      {slow(R"({"worker": 1000000, "slowdown": 2})"),
       "s.json: /links/slow/0/worker: expected an integer from 0 to 999999, got 1000000"},
  });
  CHECK(read(slow(R"({"worker": 1, "slowdown": 2}, {"worker": 0, "slowdown": 0.5})"))
            .conditions.links.slow.size() == 2);
}

TEST_CASE("scenario: failures and slow links of workers that are not there are warned about") {
  CHECK(
      results(
          R"({"fidelity": "steps", "links": {"slow": [{"worker": 3, "slowdown": 2}, {"worker": 4, "slowdown": 2}]},
    "failures": [{"worker": 5, "at_us": 1}, {"worker": 3, "at_us": 1, "down_us": 1}]})")
          .warnings ==
      std::vector<std::string>{"failing worker 5 is none of the workers 0 to 3, it stops nothing",
                               "slow sender 4 is none of the workers 0 to 3, it slows nothing down"});
}

TEST_CASE("scenario: a plan of other tensors is refused, with the place in the plan") {
  const std::string plan =
      R"({"schedules": [{"fusion": {"kind": "plan", "file": {"format": "fusewise.plan", "version": 1,
    "model": "m", "workers": 2, "pipeline": "wfbp", "collectives": {}, "compression": "none", "optimality": "exact",
    "groups": [{"tensors": ["t2"], "bytes": 80}, {"tensors": ["other"], "bytes": 40}]}}}]})";
  check_all(
      {{plan,
        "s.json: /schedules/0/fusion/file/groups/1/tensors/0: expected \"t1\", the profile's next tensor "
        "in backward order, got \"other\""}});
}

TEST_CASE("scenario: numbers of workers that the network has no cost for are refused where they stand") {
  const std::string levels = R"("network": {"link": null, "levels": [
    {"name": "a", "size": 4, "link": {"alpha_us": 1, "beta_us_per_byte": 1}},
    {"name": "b", "link": {"alpha_us": 1, "beta_us_per_byte": 1}}]})";
  const std::string measured = R"("network": {"link": null, "measured": [
    {"collective": "all_reduce", "workers": 4, "curve": [[1, 5]]}]})";
  check_all({
      {R"({"workers": [4, 8, 6], "collectives": {"all_reduce": "two_level"}, )" + levels + "}",
       "s.json: /workers/2: expected for two_level a multiple of the 4 workers in a node, got 6 (schedule "
       "'wfbp')"},
      {R"({"collectives": {"all_reduce": "two_level"}})",
       "s.json: /network: expected a network with levels, as two_level needs, got network 'n' without "
       "(schedule 'wfbp')"},
      {R"({"workers": [4, 8], )" + measured + "}",
       "s.json: /workers/1: expected a number of workers for which network 'n' has a cost of ring all_reduce "
       "(measured on 4), got 8 (schedule 'wfbp')"},
      {R"({"workers": 8, )" + measured + "}",
       "s.json: /workers: expected a number of workers for which network 'n' has a cost of ring all_reduce "
       "(measured on 4), got 8 (schedule 'wfbp')"},
      {R"({"workers": [4], "schedules": ["dear-nl"], )" + measured + "}",
       "s.json: /workers/0: expected a number of workers for which network 'n' has a cost of ring "
       "reduce_scatter (none is measured, and it has no link), got 4 (schedule 'dear-nl')"},
  });
  CHECK(results(R"({"workers": [1, 4], )" + measured + "}").entries.size() == 2);
}

TEST_CASE("scenario: times too long for the clock are refused") {
  check_all({
      {R"({"iterations": 10000, "update": {"optimizer_us": 1e12}})",
       "s.json: /workers/0: expected times that add up to at most 9000000000000 us over all iterations, got "
       "1.0001e+16 (schedule 'wfbp')"},
      {R"({"network": {"link": {"alpha_us": 1e12, "beta_us_per_byte": 0}}})",
       "s.json: /workers/0: expected collectives that take at most 2250000000000 us in all, however tensors "
       "are grouped, got up to 4e+12 (schedule 'wfbp')"},
      {R"({"iterations": 100, "schedules": [{"fusion": {"kind": "threshold", "cycle_us": 1e12}}]})",
       "s.json: /workers/0: expected times that add up to at most 9000000000000 us over all iterations, got "
       "1.01e+14 (schedule 'threshold 1000000000000.0')"},
      {R"({"iterations": 100, "update": {"parallel_tensor_operator": true},
           "network": {"measured": [{"collective": "all_gather", "workers": 2, "curve": [[1, 1e12]]}]}})",
       "s.json: /workers/0: expected times that add up to at most 9000000000000 us over all iterations, got "
       "1.01e+14 (schedule 'wfbp')"},
  });
  // just within the limit
  CHECK_NOTHROW(
      results(R"({"iterations": 1, "network": {"link": {"alpha_us": 9e10, "beta_us_per_byte": 0}}})"));
  CHECK_NOTHROW(results(R"({"iterations": 1, "update": {"optimizer_us": 1e12}})"));
}

TEST_CASE("scenario: where collectives end at a time of its own on each worker, memory limits the workers") {
  ordered_json scenario = changed(R"({"fidelity": "steps", "iterations": 1})");
  ordered_json& tensors = scenario["profile"]["layers"][0]["tensors"];
  for (int i = 0; i < 254; ++i) tensors.push_back({{"name", "more" + std::to_string(i)}, {"elements", 1}});
  const auto with_workers = [&](const ordered_json& workers) {
    scenario["workers"] = workers;
    return Field::parse(scenario.dump(), "s.json");
  };
  CHECK_NOTHROW(read_scenario(with_workers({8, 524288})));  // 2^27 times for 256 tensors
  CHECK_THROWS_WITH_AS(read_scenario(with_workers({8, 524289})),
                       "s.json: /workers/1: expected at most 524288 workers each by itself with a profile of "
                       "this size, got 524289",
                       core::InputError);
  scenario.erase("fidelity");
  CHECK_NOTHROW(read_scenario(with_workers({8, 524289})));
}

TEST_CASE("scenario: more tasks than memory holds are refused") {
  ordered_json scenario = changed(R"({"iterations": 10000})");
  ordered_json tensors = ordered_json::array();
  for (int i = 0; i < 4000; ++i) tensors.push_back({{"name", fmt::format("t{}", i)}, {"elements", 1}});
  scenario["profile"]["layers"] = {
      {{"name", "l"}, {"kind", "k"}, {"forward_us", 1}, {"backward_us", 1}, {"tensors", tensors}}};
  CHECK_THROWS_WITH_AS(
      read_scenario(Field::parse(scenario.dump(), "s.json")),
      "s.json: /iterations: expected at most 2499 iterations of a profile of this size, got 10000",
      core::InputError);
}

TEST_CASE(
    "scenario: more tasks than memory holds with every worker by itself are refused, with what is possible") {
  // 2 layers, 2 tensors and 1 micro-batch count as 12 tasks; the limit is 3 * 10^7
  check_all({
      {R"({"overlap": {"compute_slowdown": 1}, "jitter": {"sigma": 0.1}, "iterations": 10000, "workers": [2, 1000]})",
       "s.json: /iterations: expected at most 2500 iterations of a profile of this size with 1000 workers "
       "each by itself, got 10000"},
      {R"({"overlap": {"compute_slowdown": 1}, "jitter": {"sigma": 0.1}, "iterations": 3, "workers": 1000000})",
       "s.json: /iterations: expected at most 2 iterations of a profile of this size with 1000000 workers "
       "each by itself, got 3"},
      // if each task has a time for each worker, the limit is 10^10 times
      {R"({"jitter": {"sigma": 0.1}, "iterations": 834, "workers": 1000000})",
       "s.json: /iterations: expected at most 833 iterations of a profile of this size with 1000000 workers "
       "each by itself, got 834"},
      {R"({"failures": [{"worker": 0, "at_us": 1, "down_us": 1}], "iterations": 834, "workers": 1000000})",
       "s.json: /iterations: expected at most 833 iterations of a profile of this size with 1000000 workers "
       "each by itself, got 834"},
      // what is said of the workers needs each of them, also with stragglers alone
      {R"({"stragglers": [{"worker": 0, "slowdown": 2}], "iterations": 834, "workers": [2, 1000000]})",
       "s.json: /iterations: expected at most 833 iterations of a profile of this size with 1000000 workers "
       "each by itself, got 834"},
      {R"({"stragglers": [{"worker": 0, "slowdown": 2}], "accumulation_steps": 10000, "workers": 200000})",
       "s.json: /stragglers: expected at most 2 iterations of a profile of this size with 200000 workers "
       "each by itself, got 3, the default"},
      // with more micro-batches, 20,010 tasks per worker
      {R"({"jitter": {"sigma": 0.1}, "accumulation_steps": 10000, "iterations": 2, "workers": [4, 499700]})",
       "s.json: /iterations: expected at most 1 iteration of a profile of this size with 499700 workers each "
       "by itself, got 2"},
      {R"({"jitter": {"sigma": 0.1}, "accumulation_steps": 10000, "workers": [4, 200000]})",
       "s.json: /jitter: expected at most 2 iterations of a profile of this size with 200000 workers each by "
       "itself, got 3, the default"},
      {R"({"jitter": {"sigma": 0.1}, "accumulation_steps": 10000, "iterations": 1, "workers": [4, 499749, 499900]})",
       "s.json: /workers/2: expected at most 499750 workers each by itself with a profile of this size, got "
       "499900"},
      {R"({"jitter": {"sigma": 0.1}, "accumulation_steps": 10000, "iterations": 1, "workers": 800000})",
       "s.json: /workers: expected at most 499750 workers each by itself with a profile of this size, got "
       "800000"},
  });
  CHECK_NOTHROW(read(R"({"jitter": {"sigma": 0.1}, "iterations": 833, "workers": [2, 1000000]})"));
  CHECK_NOTHROW(
      read(R"({"jitter": {"sigma": 0.1}, "accumulation_steps": 10000, "iterations": 1, "workers": 499750})"));
  CHECK_NOTHROW(
      read(R"({"stragglers": [{"worker": 0, "slowdown": 2}], "iterations": 833, "workers": 1000000})"));
  // if compute and channel slow each other down, nothing is said of the workers
  CHECK_NOTHROW(read(
      R"({"overlap": {"compute_slowdown": 1}, "stragglers": [{"worker": 0, "slowdown": 2}], "iterations": 834, "workers": 1000000})"));
  // without jitter one worker represents all
  CHECK_NOTHROW(read(R"({"jitter": {"sigma": 0}, "iterations": 10000, "workers": 1000000})"));
}

TEST_CASE("scenario: times that slow-down or jitter may make too long for the clock are refused") {
  check_all({
      {R"({"overlap": {"compute_slowdown": 1e6}, "update": {"optimizer_us": 1e7}})",
       "s.json: /workers/0: expected times that add up to at most 9000000000000 us over all iterations, got "
       "4.00002e+13 (schedule 'wfbp')"},
  });
  // the greatest random factor is 2.2 million
  CHECK_THROWS_AS(results(R"({"jitter": {"sigma": 2}, "update": {"optimizer_us": 2e6}})"), core::InputError);
  CHECK_NOTHROW(results(R"({"jitter": {"sigma": 2}, "update": {"optimizer_us": 1e6}})"));
}

TEST_CASE("scenario: compressors that do not go with a pipeline are refused where they stand") {
  const std::string halves = "expected a compressor whose collective is all_reduce, as pipeline ";
  check_all({
      {R"({"schedules": ["wfbp", {"name": "dear-nl", "compression": "dgc"}]})",
       "s.json: /schedules/1/compression: " + halves + R"(dear needs, got "dgc")"},
      {R"({"schedules": ["grace"]})",
       R"(s.json: /schedules/0: expected a compressor with it: {"name": "grace", "compression": ...}, got "grace")"},
  });
}

// ---- results

TEST_CASE("scenario: results come by number of workers and, inside, schedule, in the scenario's order") {
  const Results all = results(
      R"({"name": "x", "workers": [4, 2], "schedules": ["sync-easgd", {"pipeline": "dear"}, "wfbp"]})");
  CHECK(all.scenario == "x");
  std::string order;
  for (const Entry& entry : all.entries)
    order += fmt::format("{} {} {} {} {}; ", entry.metrics.workers, entry.schedule, entry.pipeline,
                         entry.fusion, entry.compression);
  const auto of = [](int workers) {
    return fmt::format(
        "{0} sync-easgd after_backward all none; {0} dear dear none none; {0} wfbp wfbp none none; ",
        workers);
  };
  CHECK(order == of(4) + of(2));
}

TEST_CASE("scenario: a compressor's name stands in the results, quoted in a table where it has to be") {
  const Results all = results(
      R"({"workers": [2], "schedules": [{"compression": {"name": "top-k, 1 %", "ratio": 0.02}}, {"compression": "fp16"}]})");
  REQUIRE(all.entries.size() == 2);
  CHECK(all.entries[0].compression == "top-k, 1 %");
  CHECK(all.entries[1].compression == "fp16");
  const std::string csv = results_csv(all);
  CHECK(csv.find(R"(2,"top-k, 1 % 0.02",wfbp,none,"top-k, 1 %",2,)") != std::string::npos);
  CHECK(csv.find("2,fp16,wfbp,none,fp16,2,") != std::string::npos);
}

TEST_CASE("scenario: with jitter the same seed gives the same bytes, and another seed others") {
  const auto text = [](int seed) {
    return results_json(results(fmt::format(
        R"({{"jitter": {{"sigma": 0.2, "seed": {}}}, "overlap": {{"compute_slowdown": 0.3}}, "schedules": null}})",
        seed)));
  };
  CHECK(text(5) == text(5));
  CHECK(text(5) != text(6));
  // a seed alone causes no jitter
  CHECK(results_json(results(R"({"jitter": {"seed": 5}})")) == results_json(results("{}")));
}

TEST_CASE("scenario: a schedule's own collectives count for it alone") {
  const Results all = results(
      R"({"workers": [4], "schedules": ["wfbp", {"collectives": {"all_reduce": "recursive_doubling"}}, "wfbp"]})");
  REQUIRE(all.entries.size() == 3);
  CHECK(all.entries[0].metrics.communication_us == doctest::Approx(2 * 6 + 0.15 * 120));
  CHECK(all.entries[1].metrics.communication_us == doctest::Approx(2 * 2 + 0.2 * 120));
  CHECK(all.entries[2].metrics.communication_us == all.entries[0].metrics.communication_us);
}

TEST_CASE("scenario: progress counts every simulation") {
  std::vector<std::pair<std::size_t, std::size_t>> seen;
  run(read(R"({"schedules": ["wfbp", "ddp"]})"),
      {.progress = [&](const Progress& progress) { seen.emplace_back(progress.done, progress.total); }});
  CHECK(seen == std::vector<std::pair<std::size_t, std::size_t>>{{1, 4}, {2, 4}, {3, 4}, {4, 4}});
}

TEST_CASE("scenario: of warnings about the same the weightiest is told, once") {
  // 1e-4 us per byte, where 1e-3 is the minimum: 40, 80 and 120 bytes are all below the bound
  const Results all = results(R"({"workers": [2], "schedules": ["wfbp", "sync-easgd", "s-sgd"],
    "network": {"line_rate_gbps": 8, "link": {"alpha_us": 0, "beta_us_per_byte": 0.0001}}})");
  CHECK(all.warnings ==
        std::vector<std::string>{
            "network 'n', ring all_reduce on 2 workers: 120 bytes take 0.012 us, "
            "under the physical bound of 0.12 us at 8 Gb/s, which fidelity 'closed' takes instead: measure "
            "larger messages, or correct line_rate_gbps"});
}

TEST_CASE("scenario: a plan of it is what its schedule gives, on numbers of workers it need not list") {
  const Scenario scenario = read("{}");
  const Planned planned = plan(scenario, 2, planner::preset_schedule("sync-easgd"));
  CHECK(planned.plan.iteration_us == 28);
  CHECK(planned.plan.workers == 2);
  CHECK(planned.warnings.empty());
  CHECK(plan(scenario, 64, planner::preset_schedule("fusewise")).plan.workers == 64);
}

TEST_CASE("scenario: a schedule that holds more than the cap is warned of") {
  const auto warned = [](std::int64_t cap) {
    const std::string memory = R"({"optimizer": "sgd", "cap_bytes": )" + std::to_string(cap) + "}";
    const std::string json = R"({"memory": )" + memory + "}";
    const Results all = results(json);
    const Scenario scenario = read(json);
    const std::vector<std::string> of_plan =
        plan(scenario, all.entries.front().metrics.workers, scenario.schedules.front()).warnings;
    const std::int64_t peak = planner::total(all.entries.front().memory->bytes);
    const std::string wanted = "a worker holds " + std::to_string(peak) + " bytes, more than the " +
                               std::to_string(cap) + " of memory.cap_bytes";
    const auto is_wanted = [&](const std::string& warning) { return warning.ends_with(wanted); };
    const bool is_warned = std::ranges::any_of(all.warnings, is_wanted);
    CHECK(std::ranges::any_of(of_plan, is_wanted) == is_warned);
    return std::pair(peak, is_warned);
  };
  const std::int64_t peak = warned(1).first;
  CHECK(warned(peak - 1).second);
  CHECK_FALSE(warned(peak).second);
}

TEST_CASE(
    "scenario: with a spread of workers the slowest of them is expected to be slower the more there are") {
  const auto iteration_us = [](const std::string& more, std::int64_t workers) {
    return run(read(fmt::format(R"({{"workers": {}, "schedules": ["wfbp"]{}}})", workers, more)))
        .entries.front()
        .metrics.iteration_us;
  };
  const std::string spread = R"(, "worker_spread": 0.02)";
  const auto check = [&](std::int64_t workers, double largest) {
    const std::string straggler =
        fmt::format(R"(, "stragglers": [{{"worker": 0, "slowdown": {}}}])", 1 + 0.02 * largest);
    CHECK(iteration_us(spread, workers) == doctest::Approx(iteration_us(straggler, workers)).epsilon(1e-4));
  };
  check(1, 0);
  check(2, 0.56419);
  check(100, 2.50759);
  // Workers that are simulated one by one are slowed once, too.
  const std::string straggler = R"(, "stragglers": [{"worker": 0, "slowdown": 1.0112838}])";
  for (const char* const more : {R"(, "fidelity": "steps")", R"(, "jitter": {"sigma": 0.01})"}) {
    CAPTURE(more);
    CHECK(iteration_us(spread + more, 2) == doctest::Approx(iteration_us(straggler + more, 2)).epsilon(1e-4));
  }
  const auto slowest_us = [](const std::string& more) {
    const auto by_worker =
        run(read(R"({"workers": 2, "schedules": ["wfbp"])" + more + "}")).entries.front().by_worker;
    return by_worker ? by_worker->iteration.p50_us : 0;
  };
  const std::string steps = R"(, "fidelity": "steps")";
  CHECK(slowest_us(spread + steps) == doctest::Approx(slowest_us(straggler + steps)).epsilon(1e-4));
  CHECK(slowest_us(straggler) > 0);
  CHECK(slowest_us(spread) == 0);  // as the slow worker only stands for one that nobody knows
  const Scenario two = read(R"({"workers": 2, "schedules": ["wfbp"], "worker_spread": 0.02})");
  const planner::Change faster = planner::read_change("no-stragglers", two.profile);
  CHECK(run(two, {.changes = {faster}}).entries.front().what_if.front().metrics.iteration_us ==
        iteration_us("", 2));
  check_all(
      {{R"({"worker_spread": 0.02, "stragglers": []})",
        "s.json: /worker_spread: expected either stragglers or worker_spread, got both"},
       {R"({"worker_spread": 0.5})", "s.json: /worker_spread: expected a number from 0 to 0.3, got 0.5"}});
}

TEST_CASE(
    "scenario: layers that are computed again take their forward time in backward, of all phases of a job") {
  // forward 2 and 3, backward 5 and 4 us; the second layer takes 5 us more
  CHECK(read(R"({"recompute": {"layers": 2}})").profile.layers[1].backward_us == 9);
  CHECK(read(R"({"recompute": {"layers": 1}})").profile.layers[0].backward_us == 7);
  const Scenario job = read(R"({"recompute": {"layers": 2}, "job": {"samples": 8, "phases": [
    {"epochs": 1}, {"epochs": 1, "compute_us": 28}]}})");
  CHECK(job.job->phases[0].profile.layers[1].backward_us == 9);
  CHECK(job.job->phases[1].profile.layers[1].backward_us == 18);
  check_all({
      {R"({"recompute": "blocks"})",
       "s.json: /recompute: expected {\"layers\": N}, as no name of a layer numbers its block, like "
       "layers.0.mlp, got \"blocks\""},
      {R"({"recompute": "all"})", "s.json: /recompute: expected one of blocks, got \"all\""},
      {R"({"recompute": {"layers": 0}})",
       "s.json: /recompute/layers: expected an integer from 1 to 1000000, got 0"},
      {R"({"recompute": {"layers": 2}, "schedules": [{"pipeline": "sharded", "fusion": "none"}]})",
       "s.json: /schedules: expected groups that hold all layers that are computed again together, as fusion "
       "blocks and optimal make them, got a group that holds a part of 'l1' to 'l2' (schedule 'sharded "
       "none')"},
  });
}

}  // namespace
}  // namespace scenarios
