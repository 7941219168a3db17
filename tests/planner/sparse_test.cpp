// Sparse all-reduces as costs: reading, complete timelines computed by hand, the Tencent paper's equations,
// and that the optimal grouping is the best of all groupings.

#include "planner/cost/sparse.hpp"
#include "tests/support/listed.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "planner/advise/make_plan.hpp"
#include "tests/support/brute_force.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using doctest::Approx;
using support::check_run;
using support::link_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;

Compressor read(const std::string& json) { return read_compressor(core::Field::parse(json, "s.json")); }

TEST_CASE("sparse: independent selections fill 1 - (1 - density)^workers, and common ones nothing more") {
  CHECK(fill_in(0.25, 1, 0) == 0.25);
  CHECK(fill_in(0.25, 2, 0) == 0.4375);
  CHECK(fill_in(0.25, 3, 0) == 0.578125);
  CHECK(fill_in(0.25, 8, 1) == 0.25);
  // half of a quarter is common; an eighth of the rest, 1/7 of it, belongs to each worker
  CHECK(fill_in(0.25, 2, 0.5) == Approx(0.125 + 0.875 * (1 - 36.0 / 49)).epsilon(1e-14));
  CHECK(fill_in(0, 100, 0.5) == 0);
  CHECK(fill_in(1, 100, 0) == 1);
  CHECK(fill_in(1, 100, 1) == 1);
  CHECK(fill_in(1e-12, 2, 0) == Approx(2e-12).epsilon(1e-11));
  CHECK(fill_in(0.01, 1'000'000, 0) == 1);
  // results from the Ok-Topk paper: 1 % on 16 workers, 2 % on 32
  CHECK(fill_in(0.01, 16, 0) == Approx(0.149).epsilon(0.005));
  CHECK(fill_in(0.02, 32, 0) == Approx(0.476).epsilon(0.005));
}

TEST_CASE("sparse: a name and a density are enough, other keys change what the table says") {
  for (const SparseEntry& entry : sparse_collectives()) {
    CAPTURE(entry.name);
    const Compressor min = read(fmt::format(R"({{"name": "{}", "density": 0.01}})", entry.name));
    CHECK(min == sparse_compressor(entry.name, 0.01));
    CHECK(min.ratio == 0.02);
    CHECK(min.encode == entry.selection);
    CHECK(min.collective == CollectiveKind::all_gather);
    CHECK_FALSE(min.encode.is_free());
    CHECK_FALSE(entry.summary.empty());
    CHECK_FALSE(entry.source.empty());
    CHECK(read(compressor_json(min).dump()) == min);
  }
  const Compressor ok = read(
      R"({"name": "ok-topk", "density": 0.02, "selection": {"startup_us": 1}, "decode": {}, "overlap": 0.5,
          "recompute_every": 128, "repartition_every": 16, "recompute_selection": {"floor_us": 2},
          "unamortized": true, "volume": "bound"})");
  CHECK(ok.encode == CodeCost{.startup_us = 1});
  CHECK(ok.decode.is_free());
  CHECK(*ok.sparse == SparseOptions{.overlap = 0.5,
                                    .recompute_every = 128,
                                    .repartition_every = 16,
                                    .recompute_selection = {.floor_us = 2},
                                    .spikes = true,
                                    .bound = true});
  CHECK(read(compressor_json(ok).dump()) == ok);
  const Compressor hi = read(R"({"name": "hitopk", "density": 0.01, "paper_bytes": true})");
  CHECK(hi.sparse->paper_bytes);
  CHECK(read(compressor_json(hi).dump()) == hi);
  // with a ratio any name is allowed
  CHECK_FALSE(read(R"({"name": "ok-topk", "ratio": 0.02})").sparse);
}

TEST_CASE("sparse: what is none is refused") {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string keys =
      "expected a key among name, density, selection, decode, in_transit, costs, decode_each";
  const std::vector<Case> cases = {
      {R"("ok-topk")",
       R"(/: expected a density with it: {"name": "ok-topk", "density": ...}, got "ok-topk")"},
      {R"({"name": "ok-topk"})", "/density: expected a value, got nothing"},
      {R"({"name": "ok-topk", "density": 1.5})", "/density: expected a number from 0 to 1, got 1.5"},
      {R"({"name": "ok-topq", "density": 0.5})", "/name: expected one of " +
                                                     support::listed(planner::sparse_collectives()) +
                                                     R"(, got "ok-topq", did you mean 'ok-topk'?)"},
      {R"({"name": "gtopk", "density": 0.5, "overlap": 0})", "/overlap: " + keys + ", got 'overlap'"},
      {R"({"name": "gtopk", "density": 0.5, "ratio": 1})", "/ratio: " + keys + ", got 'ratio'"},
      {R"({"name": "topk-dsa", "density": 0.5, "overlap": 2})",
       "/overlap: expected a number from 0 to 1, got 2"},
      {R"({"name": "ok-topk", "density": 0.5, "recompute_every": 0})",
       "/recompute_every: expected an integer from 1 to 1000000000, got 0"},
      {R"({"name": "ok-topk", "density": 0.5, "volume": "most"})",
       R"(/volume: expected one of expected, bound, got "most")"},
      {R"({"name": "ok-topk", "density": 0.5, "unamortized": 1})",
       "/unamortized: expected true or false, got 1"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.text);
    CHECK_THROWS_WITH_AS(read(each.text), ("s.json: " + each.message).c_str(), core::InputError);
  }
}

TEST_CASE("sparse: named schedules are one group after backward, and need a density or a compressor") {
  for (const char* name : {"topk-a", "topk-dsa", "gtopk", "gaussian-k", "ok-topk", "hitopk"}) {
    CAPTURE(name);
    const Schedule schedule = schedule_of(fmt::format(R"({{"name": "{}", "density": 0.02}})", name));
    CHECK(schedule.name == fmt::format("{} 0.02", name));
    CHECK(schedule.pipeline->name == "after_backward");
    CHECK(schedule.fusion.kind == "all");
    CHECK(schedule.compressor == sparse_compressor(name, 0.02));
    const Schedule detailed = schedule_of(
        fmt::format(R"({{"name": "{0}", "compression": {{"name": "{0}", "density": 0.5}}}})", name));
    CHECK(detailed.compressor == sparse_compressor(name, 0.5));
    for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
             {R"("{0}")", R"(/: expected a density with it: {{"name": "{0}", "density": ...}}, got "{0}")"},
             {R"({{"name": "{0}"}})", "/density: expected a value, got nothing"},
             {R"({{"name": "{0}", "density": 2}})", "/density: expected a number from 0 to 1, got 2"},
             {R"({{"name": "{0}", "density": 0.1, "compression": "dgc"}})",
              "/density: expected no density beside compression, which has one, got 0.1"},
             {R"({{"name": "{0}", "density": 0.1, "pipeline": "dear"}})",
              "/density: expected a compressor whose collective is all_reduce, as pipeline dear needs, got "
              "0.1"}}) {
      const std::string schedule_text = fmt::format(fmt::runtime(text), name);
      CAPTURE(schedule_text);
      CHECK_THROWS_WITH_AS(schedule_of(schedule_text),
                           ("s.json: " + fmt::format(fmt::runtime(message), name)).c_str(), core::InputError);
    }
  }
  CHECK_THROWS_AS(schedule_of(R"({"name": "grace", "density": 0.1})"), core::InputError);
}

// ---- timelines

// Forward 2 and 3 us, backward 5 and 4 us, 120 bytes in total, 2 workers, 1 us and 0.1 us per byte, density
// one quarter.
core::Profile two_layers() { return profile_of({{2, 5, {10}}, {3, 4, {20}}}); }

TEST_CASE("sparse: a schedule selects after backward, sends all as one group, and adds it up") {
  // compute: F1 F2 B2 B1 E1      D1
  // channel:               [ G1 ]     2 messages of half of 120 bytes
  check_run(
      R"({"name": "gtopk", "compression": {"name": "gtopk", "density": 0.25, "selection": {"startup_us": 2},
          "decode": {"startup_us": 1}}})",
      Scene(two_layers(), link_of(1, 0.1), 2, {.iterations = 2}),
      {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-16, D1 30-31, "
       "F1 31-33, F2 33-36, B2 36-40, B1 40-45, E1 45-47, D1 61-62",
       "G1 16-30, G1 47-61", 31});
}

TEST_CASE("sparse: fused and overlapped, merged gradients travel under backward") {
  // in the same scene, group 1 of 80 bytes takes 2 (1 + 4), group 2 of 40 bytes 2 (1 + 2)
  check_run(
      R"({"pipeline": "wfbp", "compression": {"name": "gtopk", "density": 0.25,
          "selection": {"startup_us": 2}, "decode": {}}})",
      Scene(two_layers(), link_of(1, 0.1), 2, {.iterations = 1}),
      {"F1 0-2, F2 2-5, B2 5-9, E1 9-11, B1 11-16, E2 16-18", "G1 11-21, G2 21-27", 27});
}

// Regular iterations send 3 messages, the size of a share and half of the gradient: 3 + (4 + 60) 0.1 = 9.4.
// Those that gather everything that two selections fill, 7/16, take 3 + (4 + 82.5) 0.1 = 11.65. Regions add 2
// messages and 8 bytes, 2.8.
constexpr const char* kOkTopk =
    R"({{"name": "ok-topk", "compression": {{"name": "ok-topk", "density": 0.25, "recompute_every": 2,
         "repartition_every": 4, "selection": {{"startup_us": 1}}, "recompute_selection": {{"startup_us": 3}},
         "decode": {{}}, "unamortized": {}}}}})";

TEST_CASE("sparse: what Ok-Topk does now and then is spread over all iterations") {
  const Scene scene(two_layers(), link_of(1, 0.1), 2, {.iterations = 5});
  const Run run = scene.run(schedule_of(fmt::format(kOkTopk, false)));
  CHECK(run.metrics.encode_us == 2);
  CHECK(run.metrics.communication_us == Approx((9.4 + 11.65) / 2 + 2.8 / 4).epsilon(1e-12));
  CHECK(run.metrics.iteration_us == Approx(14 + 2 + 11.225).epsilon(1e-12));
  CHECK(run.metrics.exposed_communication_us == Approx(11.225).epsilon(1e-9));
  CHECK(run.metrics.bytes_sent_per_worker == Approx((64 + 86.5) / 2 + 2).epsilon(1e-12));
}

TEST_CASE("sparse: or the iterations that have it pay for it") {
  check_run(fmt::format(kOkTopk, true), Scene(two_layers(), link_of(1, 0.1), 2, {.iterations = 3}),
            {"F1 0-2, F2 2-5, B2 5-9, B1 9-14, E1 14-17, "
             "F1 31.45-33.45, F2 33.45-36.45, B2 36.45-40.45, B1 40.45-45.45, E1 45.45-46.45, "
             "F1 55.85-57.85, F2 57.85-60.85, B2 60.85-64.85, B1 64.85-69.85, E1 69.85-72.85",
             "G1 17-31.45, G1 46.45-55.85, G1 72.85-84.5", (24.4 + 28.65) / 2});
  // only effective settings are written
  const Scene usual(two_layers(), link_of(1, 0.1), 2, {.iterations = 2});
  const Metrics second = usual.run(schedule_of(fmt::format(kOkTopk, true))).metrics;
  CHECK(second.encode_us == 1);
  CHECK(second.exposed_communication_us == Approx(9.4).epsilon(1e-9));
  CHECK(second.bytes_sent_per_worker == Approx(64).epsilon(1e-12));
  // over whole periods the mean is equal
  const Scene scene(two_layers(), link_of(1, 0.1), 2, {.iterations = 5});
  const Metrics spikes = scene.run(schedule_of(fmt::format(kOkTopk, true))).metrics;
  CHECK(spikes.iteration_us == Approx(14 + 2 + 11.225).epsilon(1e-12));
  CHECK(spikes.encode_us == 2);
  CHECK(spikes.communication_us == Approx(11.225).epsilon(1e-12));
  CHECK(spikes.exposed_communication_us == Approx(11.225).epsilon(1e-9));
  CHECK(spikes.bytes_sent_per_worker == Approx((64 + 86.5) / 2 + 2).epsilon(1e-12));
}

TEST_CASE("sparse: planners look at the mean, whether it is spread or not") {
  const Conditions conditions = {.overlap = {.compute_slowdown = 0.5, .communication_slowdown = 0.25}};
  const Scene scene(two_layers(), link_of(1, 0.1), 2, conditions);
  const auto value = [&](bool spikes) {
    const Schedule schedule = schedule_of(fmt::format(kOkTopk, spikes));
    const FusionRequest request = request_of(scene.setting, schedule);
    return simulate_iteration(request, schedule.fusion.fuse(request).groups);
  };
  CHECK(value(true) == value(false));
  CHECK(sim::to_us(value(true)) == Approx(14 + 2 + 11.225).epsilon(1e-9));
}

// ---- networks

core::Network nodes_of_four(bool shared) {
  return core::read_network(
      core::Field::parse(fmt::format(R"({{"format": "fusewise.network", "version": 1, "name": "nodes",
                       "origin": {{"kind": "published", "source": "by hand"}},
                       "levels": [{{"name": "in", "size": 4, "link": {{"alpha_us": 5, "beta_us_per_byte": 0.001}}}},
                                  {{"name": "out", "shared": {}, "link": {{"alpha_us": 30, "beta_us_per_byte": 0.01}}}}]}})",
                                     shared),
                         "n.json"));
}

TransferCost transfer(const core::Network& network, std::int64_t workers, const std::string& compressor) {
  return TransferCost(network, workers, {.compressor = read(compressor)});
}

TEST_CASE("sparse: hitopk costs equations 7, 9 and 10 of the Tencent paper") {
  // two nodes of four, 1000 elements, density 1 %
  const core::Network network = nodes_of_four(false);
  const double step_1 = 3 * 5 + 4 * 3 * 1000 / 4.0 * 0.001;
  const double step_3 = 30 * 1 + 4 * 1 * 10 / 4.0 * 0.01;
  const double step_4 = 5 * 2 + 4 * 3 * (10 * 2 / 4.0) * 0.001;
  CHECK(transfer(network, 8, R"({"name": "hitopk", "density": 0.01, "paper_bytes": true})")
            .us(CollectiveKind::all_reduce, 4000) == Approx(step_1 + step_3 + step_4).epsilon(1e-12));
  // each value is sent with an index
  const TransferCost counted = transfer(network, 8, R"({"name": "hitopk", "density": 0.01})");
  CHECK(counted.us(CollectiveKind::all_reduce, 4000) ==
        Approx(step_1 + step_3 + 0.1 + step_4 + 0.06).epsilon(1e-12));
  CHECK(counted.sent_bytes(CollectiveKind::all_reduce, 4000) ==
        Approx(4000 * 0.75 + 8 * 2.5 + 8 * 3 * 5).epsilon(1e-12));
  CHECK(transfer(network, 8, R"({"name": "hierarchical_topk", "density": 0.01})")
            .us(CollectiveKind::all_reduce, 4000) == counted.us(CollectiveKind::all_reduce, 4000));
  // a worker selects from its fourth of the node's sum (equation 8)
  CHECK(transfer(network, 8, R"({"name": "hitopk", "density": 0.01, "selection": {"us_per_byte": 1}})")
            .encode_us(4000) == 1000);
  // the four workers of a node share one link
  const core::Network shared = nodes_of_four(true);
  CHECK(transfer(shared, 8, R"({"name": "hitopk", "density": 0.01})").us(CollectiveKind::all_reduce, 4000) ==
        Approx(counted.us(CollectiveKind::all_reduce, 4000) + 3 * 0.2).epsilon(1e-12));
}

TEST_CASE("sparse: other methods run over the slowest level, and topk-a is an all-gather as measured") {
  const core::Network network = nodes_of_four(false);
  CHECK(transfer(network, 8, R"({"name": "gtopk", "density": 0.01})").us(CollectiveKind::all_reduce, 4000) ==
        Approx(6 * (30 + 80 * 0.01)).epsilon(1e-12));
  CHECK(transfer(network, 4, R"({"name": "gtopk", "density": 0.01})").us(CollectiveKind::all_reduce, 4000) ==
        Approx(4 * (5 + 80 * 0.001)).epsilon(1e-12));
  CHECK(transfer(network, 8, R"({"name": "topk-a", "density": 0.01})").us(CollectiveKind::all_reduce, 4000) ==
        Approx(7 * (30 + 80 * 0.01)).epsilon(1e-12));
  core::Network measured = link_of(1, 1);
  measured.measured = {{.collective = CollectiveKind::all_gather,
                        .workers = 4,
                        .curve = core::CostCurve::through({{320, 77}})}};
  CHECK(
      transfer(measured, 4, R"({"name": "topk-a", "density": 0.01})").us(CollectiveKind::all_reduce, 4000) ==
      77);
}

TEST_CASE("sparse: topk-dsa turns dense beyond two thirds, and is as quick as k allows where indexes agree") {
  const core::Network network = link_of(0, 1, 0.5);
  const auto us = [&](std::int64_t workers, const char* keys) {
    return transfer(network, workers, fmt::format(R"({{"name": "topk-dsa", {}}})", keys))
               .us(CollectiveKind::all_reduce, 8000) -
           2.0 * 4 * static_cast<double>(workers - 1);
  };
  CHECK(us(4, R"("density": 0.25)") == Approx(6000 * (0.5 + 1)));  // 175/256 is filled
  CHECK(us(4, R"("density": 0.125)") == Approx(6000 * (0.25 + 2 * (1 - 2401 / 4096.0))));
  CHECK(us(4, R"("density": 0.25, "overlap": 1)") == Approx(6000 * (0.5 + 0.5)));
  CHECK(us(4, R"("density": 0.75)") == Approx(6000 * (1 + 1 + 0.5)));  // dense parts are summed
}

TEST_CASE("sparse: a network without what a method needs is refused, one worker needs nothing") {
  core::Network measured = link_of(1, 1);
  measured.link.reset();
  measured.name = "curves";
  const std::string gtopk = R"({"name": "gtopk", "density": 0.01})";
  const std::string hitopk = R"({"name": "hitopk", "density": 0.01})";
  CHECK_THROWS_WITH_AS(transfer(measured, 4, gtopk),
                       "expected a network with a link or levels, as gtopk has a closed form alone, got "
                       "network 'curves', which is measured alone",
                       Unsupported);
  CHECK_THROWS_AS(transfer(link_of(1, 1), 4, hitopk), Unsupported);
  CHECK_THROWS_WITH_AS(transfer(nodes_of_four(false), 6, hitopk),
                       "expected for hitopk a multiple of the 4 workers in a node, got 6", Unsupported);
  const TransferCost alone = transfer(link_of(1, 1), 1, hitopk);
  CHECK(alone.us(CollectiveKind::all_reduce, 4000) == 0);
  CHECK(alone.encode_us(4000) == 0);
}

TEST_CASE("sparse: message by message nobody knows them, but for topk-a's all-gather") {
  Conditions conditions;
  conditions.fidelity = Fidelity::steps;
  const Scene scene(two_layers(), link_of(1, 0.1), 4, conditions);
  CHECK_THROWS_WITH_AS(scene.run(schedule_of(R"({"name": "gtopk", "density": 0.25})")),
                       "expected an all-reduce that is known message by message, got gtopk", Unsupported);
  CHECK_NOTHROW(scene.run(schedule_of(R"({"name": "topk-a", "density": 0.25})")));
}

// ---- plans

TEST_CASE("sparse: a plan keeps its compressor, and gives the same iteration again") {
  const Scene scene(two_layers(), link_of(1, 0.1), 4);
  const std::string compressor = R"({"name": "ok-topk", "density": 0.25, "recompute_every": 7})";
  const Schedule schedule = schedule_of(R"({"name": "cupcake", "compression": )" + compressor + "}");
  const Run run = scene.run(schedule);
  const std::string plan = plan_text(make_plan(scene.setting, schedule, run));
  CHECK(nlohmann::json::parse(plan).at("compression") == nlohmann::json::parse(compressor));
  const Run again = scene.run(schedule_of(
      fmt::format(R"({{"compression": {}, "fusion": {{"kind": "plan", "file": {}}}}})", compressor, plan)));
  CHECK(again.groups == run.groups);
  CHECK(again.metrics.iteration_us == run.metrics.iteration_us);
}

Compressor random_sparse(Random& random) {
  constexpr const char* kNames[] = {"topk-a", "topk-dsa", "gtopk", "ok-topk"};
  Compressor out =
      sparse_compressor(kNames[random.below(4)], 0.125 * static_cast<double>(1 + random.below(7)));
  out.encode = support::random_code(random);
  out.decode = support::random_code(random);
  if (random.one_in(2)) out.in_transit = support::random_code(random);
  if (out.name != "ok-topk") return out;
  out.sparse->recompute_selection = support::random_code(random);
  out.sparse->recompute_every = std::int64_t{1} << random.below(4);
  out.sparse->repartition_every = std::int64_t{1} << random.below(4);
  return out;
}

TEST_CASE("sparse: optimal grouping is the best of all groupings") {
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const auto scene = support::small_scene(random, 8, support::NetworkKind{seed % support::kNetworkKinds});
    for (const support::PipelineCase& pipeline : support::pipeline_cases()) {
      if (pipeline.halves) continue;
      support::Offer offer = {.compressor = random_sparse(random), .selective = random.one_in(4)};
      if (random.one_in(3)) offer.compressors = {Compressor{}};
      support::check_optimal(*scene, pipeline, offer, support::any_grouping);
    }
  }
}

}  // namespace
}  // namespace planner
