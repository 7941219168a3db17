// Whether compression pays: against closed forms, against simulations of every candidate, and through the
// program.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/scaled.hpp"
#include "planner/advise/consider.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/program.hpp"

namespace planner {
namespace {

using doctest::Approx;
using support::Random;
using support::Scene;
using support::schedule_of;

const Candidate* find(const Consideration& all, const std::string& compressor, bool is_per_group,
                      std::optional<double> density = {}) {
  for (const Candidate& candidate : all.candidates)
    if (candidate.compressor == compressor && candidate.is_per_group == is_per_group &&
        candidate.density == density)
      return &candidate;
  return nullptr;
}

const BreakEven& break_even_of(const Consideration& all, const std::string& compressor) {
  const auto found = std::find_if(all.break_even.begin(), all.break_even.end(),
                                  [&](const BreakEven& row) { return row.compressor == compressor; });
  REQUIRE(found != all.break_even.end());
  return *found;
}

std::string why_left_out(const Consideration& all, const std::string& compressor) {
  for (const LeftOut& each : all.left_out)
    if (each.compressor == compressor) return each.why;
  return "";
}

/// A scene with one gradient of 4,000,000 bytes after 1 ms of backward, and no forward.
Scene one_tensor(double alpha_us, double beta_us_per_byte, std::int64_t workers = 8) {
  return {support::gradients_of({{1000, 4'000'000}}), support::link_of(alpha_us, beta_us_per_byte), workers};
}

Compressor custom(double ratio, double encode_us, double decode_us) {
  return {.name = "x",
          .ratio = ratio,
          .encode = {.startup_us = encode_us},
          .decode = {.startup_us = decode_us},
          .collective = core::CollectiveKind::all_gather};
}

Consideration consider_custom(const Scene& scene, const Compressor& compressor, double extra = 1) {
  return consider(scene.setting, schedule_of(R"("fusewise")"),
                  {.densities = {0.01}, .extra = {{"x", {}, extra}}, .offered = {compressor}});
}

// compute  backward 0--1000  encode 1000--1356                    decode
// channel                              all-gather 1356--1986      1986--2020         7 (10 + 0.001 x 80,000)
// against                    ring 1000--8140                                         14 x 10 + 7/4 x 4000
TEST_CASE("consider: one tensor, where compression pays and where it does not, and the bandwidth between") {
  const Scene slow = one_tensor(10, 0.001);
  const Consideration pays = consider(slow.setting, schedule_of(R"("fusewise")"), {.densities = {0.01}});
  CHECK(pays.candidates.front().iteration_us == Approx(8140));
  REQUIRE(find(pays, "dgc", false, 0.01) != nullptr);
  CHECK(find(pays, "dgc", false, 0.01)->iteration_us == Approx(2020));
  CHECK(find(pays, "dgc", false, 0.01)->bytes_sent_per_worker == Approx(7 * 80'000));
  CHECK(pays.pays());

  // 140 + 7000 / f = 390 + 70 + 560 / f
  const double factor = 6440.0 / 320;
  for (const double times : {1.0, 100.0}) {
    CAPTURE(times);
    const Scene scene = one_tensor(10, 0.001 / times);
    const Consideration all = consider(scene.setting, schedule_of(R"("fusewise")"), {.densities = {0.01}});
    const BreakEven& row = break_even_of(all, "dgc");
    CHECK(row.density == 0.01);
    CHECK(row.is_monotone());
    CHECK_FALSE(row.always());
    REQUIRE(row.pays.size() == 1);
    CHECK(row.pays[0].from == kBandwidths.from);
    CHECK(row.pays[0].to == Approx(factor / times).epsilon(1e-3));
    const bool dgc_pays = find(all, "dgc", false, 0.01)->weighed_us < all.candidates.front().weighed_us;
    CHECK(dgc_pays == (times == 1));
  }
}

TEST_CASE("consider: nothing pays on a fast network, and the answer says what comes nearest") {
  const Scene fast = one_tensor(0, 1e-6);
  const Consideration all = consider(fast.setting, schedule_of(R"("fusewise")"), {.densities = {0.01}});
  // ring 7/4 x 4; fp16 half of that plus 4 + 20.98 for coding and the floor of 22 for decoding
  CHECK_FALSE(all.pays());
  CHECK(all.best == 0);
  CHECK(answer(all) ==
        "nothing pays: the nearest, fp16, takes 2.2 % more time to the same loss than no compression");
}

TEST_CASE("consider: compressors that pay everywhere, nowhere, and above a bandwidth") {
  const Scene scene = one_tensor(100, 0.001);
  const BreakEven always = break_even_of(consider_custom(scene, custom(0, 0, 0)), "x");
  CHECK(always.always());
  const BreakEven never = break_even_of(consider_custom(scene, custom(0.5, 500, 500)), "x");
  CHECK(never.never());
  // 1400 + 7000 / f against 700 + 14000 / f: half the startups and twice the bytes
  const BreakEven above = break_even_of(consider_custom(scene, custom(0.5, 0, 0)), "x");
  CHECK_FALSE(above.is_monotone());
  REQUIRE(above.pays.size() == 1);
  CHECK(above.pays[0].from == Approx(10).epsilon(1e-3));
  CHECK(above.pays[0].to == kBandwidths.to);
  // 700 more for coding, but fewer bytes: the reverse case, with equal startups
  const BreakEven below = break_even_of(consider_custom(scene, custom(0.125, 700, 350)), "x");
  REQUIRE(below.pays.size() == 1);
  CHECK(below.pays[0].to == Approx(10).epsilon(1e-3));
}

TEST_CASE("consider: iterations needed more turn the answer round, at one density or at all") {
  const Scene scene = one_tensor(10, 0.001);
  const auto weighed = [&](double extra) { return consider_custom(scene, custom(0.0005, 0, 0), extra); };
  const Consideration plain = weighed(1);
  REQUIRE(plain.pays());
  CHECK(plain.candidates[plain.best].compressor == "x");
  const double ratio = plain.candidates.front().iteration_us / plain.candidates[plain.best].iteration_us;
  const auto x_pays = [&](const Consideration& all) {
    return find(all, "x", false)->weighed_us < all.candidates.front().weighed_us;
  };
  CHECK(x_pays(weighed(ratio * 0.999)));
  CHECK_FALSE(x_pays(weighed(ratio * 1.001)));

  const auto best_density = [&](std::vector<ExtraIterations> extra) {
    const Consideration all = consider(scene.setting, schedule_of(R"("fusewise")"),
                                       {.densities = {0.001, 0.01}, .extra = std::move(extra)});
    return break_even_of(all, "dgc").density.value_or(0);
  };
  CHECK(best_density({}) == 0.001);
  CHECK(best_density({{"dgc", {}, 1.5}}) == 0.001);
  CHECK(best_density({{"dgc", 0.001, 1.5}}) == 0.01);
  CHECK(best_density({{"dgc", 0.001, 1.1}, {"dgc", {}, 1.5}}) == 0.001);
  CHECK_THROWS_AS(best_density({{"dgc", 0.3, 1.5}}), const core::InputError&);
}

/// The candidate as a scenario's schedule, planned and simulated.
Metrics simulated(const Scene& scene, const std::string& pipeline, const Candidate& candidate) {
  std::string compression = R"("none")";
  if (candidate.compressor != "none") compression = compressor_json(candidate.schedule.compressor).dump();
  const std::string choices =
      candidate.is_per_group ? fmt::format(R"(, "choices": {{"compression": ["none", {}]}})", compression)
                             : "";
  return scene
      .run(schedule_of(
          fmt::format(R"({{"pipeline": "{}", "fusion": {{"kind": "optimal"{}}}, "compression": {}}})",
                      pipeline, choices, compression)))
      .metrics;
}

TEST_CASE("consider: the best is the best of all candidates, each planned and simulated by itself") {
  std::size_t paying = 0;
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 4), support::random_link(random), random.between(2, 5),
                      support::random_conditions(random));
    const bool halves = random.one_in(3);
    const std::string pipeline = halves ? "dear" : random.one_in(3) ? "after_backward" : "wfbp";
    ConsiderOptions options = {.densities = {0.002, 0.05}};
    const std::string offered = support::random_compressor(random, halves ? "all_reduce" : "all_gather");
    options.offered = {read_compressor(core::Field::parse(offered, "c"))};
    if (random.one_in(2)) options.extra = {{"x", {}, 1.01}, {"random-k", 0.002, 1.05}};
    const Consideration all =
        consider(scene.setting, schedule_of(fmt::format(R"({{"pipeline": "{}"}})", pipeline)), options);
    double min = 0;
    for (const Candidate& candidate : all.candidates) {
      CAPTURE(candidate.compressor);
      CAPTURE(candidate.is_per_group);
      const Metrics prediction = simulated(scene, pipeline, candidate);
      CHECK_FALSE((candidate.is_per_group && candidate.optimality_gap_us > 0));
      CHECK(prediction.groups == candidate.groups);
      CHECK(prediction.iteration_us == Approx(candidate.iteration_us).epsilon(1e-9));
      CHECK(prediction.bytes_sent_per_worker == Approx(candidate.bytes_sent_per_worker).epsilon(1e-12));
      const double factor = !options.extra.empty() && candidate.encoded_groups > 0
                                ? candidate.compressor == "x"                                        ? 1.01
                                  : candidate.compressor == "random-k" && candidate.density == 0.002 ? 1.05
                                                                                                     : 1
                                : 1;
      const double weighed = prediction.iteration_us * factor;
      min = min == 0 ? weighed : std::min(min, weighed);
    }
    CHECK(all.candidates[all.best].weighed_us == Approx(min).epsilon(1e-6));
    if (all.pays()) ++paying;
  }
  CHECK(paying > 5);
  CHECK(paying < 30);
}

TEST_CASE("consider: a break-even is where the answer turns, whatever the scene") {
  std::size_t edges = 0;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scene scene(support::random_profile(random, 4), support::random_link(random), random.between(2, 5));
    const Compressor x =
        read_compressor(core::Field::parse(support::random_compressor(random, "all_gather"), "c"));
    const Consideration whole = consider_custom(scene, x);
    for (const BandwidthRange& range : break_even_of(whole, "x").pays)
      for (const double at : {range.from, range.to}) {
        if (at <= kBandwidths.from || at >= kBandwidths.to) continue;
        ++edges;
        const auto x_pays = [&](double bandwidth) {
          const Scene there(scene.profile, core::scaled(scene.network, 1, 1 / bandwidth),
                            scene.setting.costs.workers());
          const Consideration all = consider_custom(there, x);
          return find(all, "x", false)->weighed_us < all.candidates.front().weighed_us * (1 - 1e-6);
        };
        CHECK(x_pays(at * 0.999) != x_pays(at * 1.001));
      }
  }
  CHECK(edges > 3);
}

TEST_CASE("consider: compressors of the scenario's own join under names of their own") {
  const Scene scene = one_tensor(10, 0.001);
  Compressor other = built_in_compressor("dgc");
  other.ratio = 0.5;
  const Consideration all =
      consider(scene.setting, schedule_of(R"("fusewise")"),
               {.densities = {0.01},
                .offered = {Compressor{}, built_in_compressor("dgc"), other, other, custom(0.5, 1, 1),
                            custom(0.5, 2, 2), custom(0.5, 3, 3), sparse_compressor("gtopk", 0.01),
                            sparse_compressor("gtopk", 0.25)}});
  constexpr std::size_t kSparse = 5;  // all except hitopk, which needs nodes
  CHECK(all.break_even.size() - (all.candidates[all.best].is_per_group ? 1 : 0) ==
        built_in_compressors().size() - 1 + kSparse + 5);
  CHECK(why_left_out(all, "power-sgd") == "the profile has no shapes of tensors, on which its cost depends");
  CHECK(find(all, "dgc (ratio 0.5)", false) != nullptr);
  CHECK(find(all, "x", false) != nullptr);
  CHECK(find(all, "x (ratio 0.5)", false) != nullptr);
  CHECK(find(all, "x (ratio 0.5) #2", false) != nullptr);
  CHECK(find(all, "gtopk (density 0.25)", false) != nullptr);
}

TEST_CASE("consider: one worker has nothing to send, so nothing pays") {
  const Scene alone = one_tensor(10, 0.001, 1);
  const Consideration all = consider(alone.setting, schedule_of(R"("fusewise")"));
  CHECK(all.candidates.size() == 1);
  CHECK(all.break_even.empty());
  CHECK(answer(all) == "nothing pays: one worker sends nothing");
}

TEST_CASE("consider: every sparse all-reduce is a candidate at each density, or what is missing is told") {
  core::Network levels = {.name = "levels"};
  levels.levels = {{.name = "in", .size = 4, .link = {.alpha_us = 1, .beta_us_per_byte = 1e-5}},
                   {.name = "out", .link = {.alpha_us = 10, .beta_us_per_byte = 0.001}}};
  const Scene scene(support::gradients_of({{100, 4'000'000}, {100, 400'000}}), levels, 8);
  const Consideration all =
      consider(scene.setting, schedule_of(R"("fusewise")"), {.densities = {0.001, 0.01}});
  for (const SparseEntry& entry : sparse_collectives())
    for (const double density : {0.001, 0.01}) {
      CAPTURE(entry.name);
      const Candidate* candidate = find(all, std::string(entry.name), false, density);
      REQUIRE((candidate != nullptr) == !entry.is_alias);
      if (candidate == nullptr) continue;
      const Metrics prediction = simulated(scene, "wfbp", *candidate);
      CHECK(prediction.iteration_us == Approx(candidate->iteration_us).epsilon(1e-9));
      CHECK(prediction.bytes_sent_per_worker == Approx(candidate->bytes_sent_per_worker).epsilon(1e-12));
    }
  CHECK(break_even_of(all, "ok-topk").density == 0.001);
  for (const auto& [name, density] : std::vector<std::pair<std::string, std::optional<double>>>{
           {"dgc", 0.01}, {"random-k", 0.001}, {"efsignsgd", {}}, {"fp16", {}}}) {
    const auto& the_name = name;  // clang 14 cannot capture a structured binding
    CAPTURE(the_name);
    const Candidate* candidate = find(all, name + " between nodes", false, density);
    REQUIRE(candidate != nullptr);
    CHECK(candidate->schedule.compressor.between_nodes);
    const Metrics prediction = simulated(scene, "wfbp", *candidate);
    CHECK(prediction.iteration_us == Approx(candidate->iteration_us).epsilon(1e-9));
    CHECK(prediction.bytes_sent_per_worker == Approx(candidate->bytes_sent_per_worker).epsilon(1e-12));
    CHECK(candidate->iteration_us != Approx(find(all, name, false, density)->iteration_us).epsilon(1e-6));
  }
  const Scene one_node(support::gradients_of({{100, 4'000'000}}), levels, 4);
  CHECK(find(consider(one_node.setting, schedule_of(R"("fusewise")"), {.densities = {0.01}}),
             "dgc between nodes", false, 0.01) == nullptr);
  CHECK(read_extra_iterations("ok-topk@0.01=1.2", considered_names({})).compressor == "ok-topk");

  const Scene flat = one_tensor(10, 0.001);
  const auto why = [&](const Setting& setting, const char* schedule) {
    return why_left_out(consider(setting, schedule_of(schedule), {.densities = {0.01}}), "hitopk");
  };
  CHECK(why_left_out(consider(flat.setting, schedule_of(R"("fusewise")"), {.densities = {0.01}}),
                     "dgc between nodes") == "");
  CHECK(why(flat.setting, R"("fusewise")") == "expected a network with levels, as hitopk needs");
  CHECK(why(scene.setting, R"("fusewise-dear")") == "pipeline dear takes only what an all-reduce can sum");
  core::Profile half = scene.profile;
  half.dtype = core::Dtype::float16;
  const Scene halved(half, levels, 8);
  CHECK(why(halved.setting, R"("fusewise")") ==
        "gradients have two bytes an element, and what it sends is counted for four");
}

TEST_CASE("consider: what cannot be used is left out and told") {
  const Scene scene = one_tensor(10, 0.001);
  const Consideration dear = consider(scene.setting, schedule_of(R"("dear-no-fusion")"));
  CHECK(why_left_out(dear, "dgc") == "pipeline dear takes only what an all-reduce can sum");
  CHECK(why_left_out(dear, "fp16").empty());
  CHECK(find(dear, "fp16", true) != nullptr);
  const Consideration priority = consider(scene.setting, schedule_of(R"("bytescheduler")"));
  CHECK(why_left_out(priority, "fp16") == "pipeline priority takes no compressor");
  CHECK(answer(priority) == "nothing pays: no compressor can be used");

  core::Profile half = scene.profile;
  half.dtype = core::Dtype::float16;
  const Scene halved(half, scene.network, 8);
  const Consideration narrow = consider(halved.setting, schedule_of(R"("fusewise")"), {.densities = {0.01}});
  CHECK(why_left_out(narrow, "fp16") == "gradients have two bytes an element already");
  REQUIRE(find(narrow, "dgc", false, 0.01) != nullptr);  // an index of 4 bytes and a value of 2 bytes replace
                                                         // each 2 bytes
  CHECK(find(narrow, "dgc", false, 0.01)->schedule.compressor.ratio == Approx(0.03));

  core::Network measured = {.name = "m"};
  measured.measured.push_back({.collective = core::CollectiveKind::all_reduce,
                               .workers = 8,
                               .curve = core::CostCurve::through({{1000, 100}, {1e6, 2000}})});
  const Scene only(scene.profile, measured, 8);
  const Consideration reduced = consider(only.setting, schedule_of(R"("fusewise")"));
  CHECK(find(reduced, "efsignsgd", false) != nullptr);  // its all-gather follows from the all-reduce
  CHECK(find(reduced, "fp16", false) != nullptr);
}

TEST_CASE(
    "consider: collectives to choose from and constraints of the schedule hold, its compressor does not") {
  const Scene scene(support::gradients_of({{10, 400'000}, {10, 400'000}, {10, 400'000}}),
                    support::link_of(10, 0.001), 8);
  const Consideration all =
      consider(scene.setting,
               schedule_of(
                   R"({"fusion": {"kind": "optimal", "constraints": {"groups": 2}, "choices":
              {"all_reduce": ["double_binary_tree"], "compression": ["dgc"]}}, "compression": "efsignsgd"})"),
               {.densities = {0.01}});
  for (const Candidate& candidate : all.candidates) CHECK(candidate.groups == 2);
  const Schedule& dense = all.candidates.front().schedule;
  CHECK(dense.compressor.is_none());
  CHECK(dense.fusion.choices.size() == 1);
  CHECK(find(all, "dgc", true, 0.01)->schedule.fusion.choices.size() == 3);
}

TEST_CASE("consider: the program's table, document and plan, and one line for what is wrong") {
  const std::string scenario = (support::source_dir() / "scenarios" / "vgg16-v100-sparse.json").string();
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"plan", scenario, "--workers", "8"});
    return support::run_program(arguments);
  };
  const support::Outcome text = run({"--consider-compression", "--densities", "0.01"});
  CHECK(text.exit_code == 0);
  CHECK(text.out.find("nothing pays") != std::string::npos);
  CHECK(text.out.find("No statistical cost was given") != std::string::npos);
  const support::Outcome json =
      run({"--consider-compression", "--densities", "0.01,0.001,0.01", "--json", "--extra-iterations",
           "dgc=1.08", "--extra-iterations", "dgc@0.01=1.02"});
  CHECK(json.exit_code == 0);
  const auto document = nlohmann::json::parse(json.out);
  CHECK(document.at("format") == "fusewise.consideration");
  CHECK(document.at("candidates").at(1).at("density") == 0.001);
  CHECK(document.at("candidates").at(1).at("extra_iterations") == 1.08);
  CHECK(document.at("candidates").at(2).at("extra_iterations") == 1.02);

  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--consider-compression", "--densities", "0"}, "--densities"},
      {{"--consider-compression", "--densities", "0.1,1.5"}, "--densities"},
      {{"--consider-compression", "--densities", "x"}, "--densities"},
      {{"--densities", "0.1"}, "--consider-compression"},
      {{"--extra-iterations", "dgc=1.1"}, "--consider-compression"},
      {{"--consider-compression", "--explain"}, "--explain"},
      {{"--consider-compression", "--emit", "ddp"}, "--emit"},
      {{"--consider-compression", "--extra-iterations", "dgc"}, "expected COMPRESSOR=FACTOR"},
      {{"--consider-compression", "--extra-iterations", "dgcc=1.1"}, "did you mean 'dgc'?"},
      {{"--consider-compression", "--extra-iterations", "dgc=0"}, "expected a factor after '='"},
      {{"--consider-compression", "--extra-iterations", "dgc=1.1x"}, "expected a factor after '='"},
      {{"--consider-compression", "--extra-iterations", "dgc@y=1.1"}, "expected a density after '@'"},
      {{"--consider-compression", "--extra-iterations", "dgc@0.3=1.1"}, "expected one of the densities"},
  };
  for (const auto& [arguments, said] : wrong) {
    const auto& the_arguments = arguments;  // clang 14 cannot capture a structured binding
    CAPTURE(fmt::format("{}", fmt::join(the_arguments, " ")));
    const support::Outcome outcome = run(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.err.find(said) != std::string::npos);
  }
}

}  // namespace
}  // namespace planner
