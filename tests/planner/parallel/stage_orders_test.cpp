// The orders of passes in the stages of a pipeline: GPipe, ZB-H1 and listed passes, by hand, against
// published bubbles, and against an evaluator that knows nothing of graphs.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "planner/parallel/passes.hpp"
#include "planner/parallel/run.hpp"
#include "planner/parallel/slots.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/stage_streams.hpp"

namespace planner {
namespace {

using support::channel;
using support::compute;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::schedule_of;

Parallel parallel_of(const std::string& json) { return read_parallel(core::Field::parse(json, "s.json")); }

Parallel stages_of(std::int64_t pipeline, const std::string& members) {
  return parallel_of(fmt::format(R"({{"pipeline": {}, "stages": {{{}}}}})", pipeline, members));
}

ParallelRun run_of(const core::Profile& profile, std::int64_t workers, const Parallel& parallel,
                   const std::string& schedule = R"("wfbp")") {
  return run_parallel(profile, pair_of(2, 0.1), workers, {}, {}, schedule_of(schedule), parallel);
}

core::Profile two_layers() { return profile_of({{1, 2, {10}}, {1, 2, {20}}}); }

// ---- by hand

// stage 0  F1 F2            B1 B2
//          0  1  2          5  7  9
// stage 1     F1 F2 B1   B2
//             1  2  3  5    7
TEST_CASE("stage orders: gpipe runs all forward passes before all backward passes") {
  const ParallelRun run = run_of(two_layers(), 2, stages_of(2, R"("schedule": "gpipe", "micro_batches": 2)"));
  CHECK(compute(run, 0) == "F1 0-1, F2 1-2, B1 5-7, B2 7-9");
  CHECK(compute(run, 1) == "F1 1-2, F2 2-3, B1 3-5, B2 5-7");
  CHECK(run.metrics.iteration_us == 9);
}

// A backward pass of 2 us is 1 us for input and 1 us for weight gradients. Stage 0 does both at once.
//
// stage 0    F1  F2      B1    B2.1
//            0   1   2   3   5      7
//   channel                         [R1 7-13]
// stage 1        F1  I1  F2  I2  W1  W2.1
//                1   2   3   4   5   6    7
//   channel                               [R1 7-17]
TEST_CASE("stage orders: in zb-h1 weight gradients of later stages come later, and gradients with them") {
  const Parallel parallel = stages_of(2, R"("schedule": "zb-h1", "micro_batches": 2)");
  const ParallelRun run = run_of(two_layers(), 4, parallel);
  CHECK(compute(run, 0) == "F1 0-1, F2 1-2, B1 3-5, B2.1 5-7");
  CHECK(compute(run, 1) == "F1 1-2, I1 2-3, F2 3-4, I2 4-5, W1 5-6, W2.1 6-7");
  CHECK(channel(run, 0) == "R1 7-13");
  CHECK(channel(run, 1) == "R1 7-17");
  CHECK(run.metrics.iteration_us == 17);
  CHECK(run.stages[1].backward_us == 4);
  CHECK(run.stages[1].bubble_us == 1);
}

// Stage 1 has layer 2 with parameters and layer 3 without: of their 4 us each a quarter of the one is for
// weight gradients, and nothing of the other.
//
// stage 1        F1  I1     F2  I2     W1     W2.2  W2.1
//                1   3   10     12  19     20    20     21
TEST_CASE("stage orders: the share of weight gradients is that of layers with parameters") {
  const core::Profile profile = profile_of({{1, 2, {10}}, {1, 4, {20}}, {1, 4, {}}});
  const Parallel parallel =
      stages_of(2, R"("schedule": "zb-h1", "micro_batches": 2, "layers": [1, 2], "weight_share": 0.25)");
  const ParallelRun run = run_of(profile, 4, parallel);
  CHECK(compute(run, 1) == "F1 1-3, I1 3-10, F2 10-12, I2 12-19, W1 19-20, W2.2 20-20, W2.1 20-21");
  CHECK(channel(run, 1) == "R1 21-31");
}

// Four parts, of which stage 0 has the first and the last; messages take 1 us.
//
// stage 0  F1               F1'  B1'                  B1
//          0  1             5    6    8               14    16
// stage 1           F1  F1'            B1'     B1
//                   2   3    4         9    11     13
TEST_CASE(
    "stage orders: listed passes may lead back through the stages, which needs no message at the turn") {
  const core::Profile four = profile_of({{1, 2, {10}}, {1, 2, {10}}, {1, 2, {10}}, {1, 2, {10}}});
  const Parallel parallel =
      stages_of(2, R"("passes": ["0F0,,3F0,3B0, 0B0", "1F0,2F0,2B0,1B0"], "p2p_us": 1)");
  CHECK(parallel.stages.micro_batches == 1);
  CHECK(parallel.stages.virtual_stages == 2);
  CHECK(parallel.parts_on(0) == std::vector<std::int64_t>{0, 3});
  CHECK(parallel.parts_on(1) == std::vector<std::int64_t>{1, 2});
  const ParallelRun run = run_of(four, 2, parallel);
  CHECK(compute(run, 0) == "F1 0-1, F1' 5-6, B1' 6-8, B1 14-16");
  CHECK(compute(run, 1) == "F1 2-3, F1' 3-4, B1' 9-11, B1 11-13");
}

TEST_CASE("stage orders: a pair of passes that PyTorch overlaps counts as one after the other") {
  const Parallel together = stages_of(
      2, R"("passes": ["0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2", "1F0,(1F1;1I0)OVERLAP_F_B,1W0,1B1,1F2,1B2"])");
  const Parallel apart =
      stages_of(2, R"("passes": ["0F0,0F1,0F2,0B0,0B1,0B2", "1F0,1F1,1I0,1W0,1B1,1F2,1B2"])");
  CHECK(together.stages.passes == apart.stages.passes);
  // an input pass and the weight pass that follows at once are one backward pass
  CHECK(slots_of(apart.stages, 2, 1)[2] == Slot{.kind = PassKind::backward, .part = 1, .micro_batch = 0});
}

// Two parts in each stage, of which the last is ready first. A gather takes 3 us, and so does a
// reduce-scatter.
//
// stage 0   channel  G 0-3    G' 4-7                        R' 13-16     R 18-21
//           compute    F1 3-4     F1' 7-8          B1' 11-13     B1 16-18
// stage 1   channel  G 0-3      G' 5-8             R' 11-14     R 16-19
//           compute      F1 4-5     F1' 8-9, B1' 9-11     B1 14-16
TEST_CASE("stage orders: where FSDP2 shards parameters, compute waits for the gradients of a part") {
  const core::Profile four = profile_of({{1, 2, {10}}, {1, 2, {10}}, {1, 2, {10}}, {1, 2, {10}}});
  const std::string members = R"("passes": ["0F0,2F0,2B0,0B0", "1F0,3F0,3B0,1B0"])";
  const std::string schedule = R"({"pipeline": "sharded", "fusion": "all", "reshard_after_forward": false})";
  const ParallelRun run = run_of(four, 4, stages_of(2, members), schedule);
  CHECK(compute(run, 0) == "F1.1 3-4, F1'.1 7-8, B1' 11-13, B1 16-18");
  CHECK(compute(run, 1) == "F1.1 4-5, F1'.1 8-9, B1' 9-11, B1 14-16");
  CHECK(channel(run, 0) == "G1 0-3, G1 4-7, R1 13-16, R1 18-21");
  CHECK(channel(run, 1) == "G1 0-3, G1 5-8, R1 11-14, R1 16-19");
  // DistributedDataParallel sends under the pass, and compute goes on
  const ParallelRun ddp = run_of(four, 4, stages_of(2, members), R"({"pipeline": "wfbp", "fusion": "all"})");
  CHECK(compute(ddp, 1) == "F1 1-2, F1' 3-4, B1'.1 4-6, B1.1 8-10");
  CHECK(channel(ddp, 1) == "R1 6-12, R1 12-18");
}

// ---- published bubbles

TEST_CASE("stage orders: zb-h1 leaves a third of the bubble of 1F1B where all kinds of passes take as long") {
  for (const std::int64_t stages : {1, 2, 3, 4, 8})
    for (const std::int64_t micro_batches : {stages, 2 * stages, 2 * stages + 3}) {
      CAPTURE(stages);
      CAPTURE(micro_batches);
      const std::vector<support::LayerSpec> layers(static_cast<std::size_t>(stages), {5, 10, {4}});
      const auto iteration_us = [&](const std::string& order) {
        return run_of(profile_of(layers), stages,
                      stages_of(stages, fmt::format(R"("schedule": "{}", "micro_batches": {})", order,
                                                    micro_batches)))
            .metrics.iteration_us;
      };
      CHECK(iteration_us("zb-h1") == static_cast<double>(15 * micro_batches + 5 * (stages - 1)));
      CHECK(iteration_us("1f1b") == static_cast<double>(15 * micro_batches + 15 * (stages - 1)));
      CHECK(iteration_us("gpipe") == static_cast<double>(15 * micro_batches + 15 * (stages - 1)));
    }
}

// ---- listed passes

/// The passes as a scenario lists them.
std::string rows_of(const std::vector<std::vector<Slot>>& passes) {
  std::vector<std::string> rows;
  for (const std::vector<Slot>& each : passes) {
    std::vector<std::string> texts;
    for (const Slot& slot : each) texts.push_back(text_of(slot));
    rows.push_back(fmt::format("\"{}\"", fmt::join(texts, ",")));
  }
  return fmt::format("{}", fmt::join(rows, ", "));
}

TEST_CASE("stage orders: an order with a name is the same as its passes, listed") {
  for (std::uint32_t seed = 0; seed < support::seeds(200); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t stages = random.between(2, 4);
    const std::int64_t micro_batches = stages * random.between(1, 3);
    const std::vector<std::string> orders = {"1f1b", "gpipe", "zb-h1", "interleaved"};
    const std::string& order = orders[random.below(4)];
    const std::int64_t parts = order == "interleaved" ? 2 : 1;
    std::vector<support::LayerSpec> layers(static_cast<std::size_t>(stages * parts));
    for (support::LayerSpec& layer : layers)
      layer = {static_cast<double>(random.between(1, 60)),
               static_cast<double>(random.between(1, 60)),
               {random.between(1, 200)}};
    const std::string rest = fmt::format(R"("overlap": "all_stages", "p2p_us": {})", random.below(4));
    const Parallel named =
        stages_of(stages, fmt::format(R"("schedule": "{}", "micro_batches": {}, {}{})", order, micro_batches,
                                      rest, parts == 2 ? R"(, "virtual_stages": 2)" : ""));
    std::vector<std::vector<Slot>> passes;
    for (std::int64_t stage = 0; stage < stages; ++stage)
      passes.push_back(slots_of(named.stages, stages, stage));
    const Parallel listed = stages_of(stages, fmt::format(R"("passes": [{}], {})", rows_of(passes), rest));
    CHECK(listed.stages.passes == passes);
    for (const char* schedule : {R"("wfbp")", R"({"pipeline": "sharded", "fusion": "none"})"}) {
      const ParallelRun a = run_of(profile_of(layers), 2 * stages, named, schedule);
      const ParallelRun b = run_of(profile_of(layers), 2 * stages, listed, schedule);
      CHECK(a.metrics.iteration_us == b.metrics.iteration_us);
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        CHECK(compute(a, stage) == compute(b, stage));
        CHECK(channel(a, stage) == channel(b, stage));
      }
    }
  }
}

/// A pass of a random order.
struct Drawn {
  char kind = 'F';
  std::int64_t part = 0;
  std::int64_t micro_batch = 0;
};

/// Rows of passes that can run, as they were drawn one by one from those that can run next.
std::vector<std::vector<Drawn>> random_rows(Random& random, const std::vector<std::int64_t>& stage_of,
                                            std::int64_t stages, std::int64_t micro_batches) {
  const auto parts = static_cast<std::int64_t>(stage_of.size());
  std::vector<std::vector<Drawn>> rows(static_cast<std::size_t>(stages));
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> done;  // kinds by part and micro-batch
  const auto has = [&](std::int64_t part, std::int64_t micro_batch, const std::string& kinds) {
    return done[{part, micro_batch}].find_first_of(kinds) != std::string::npos;
  };
  for (;;) {
    std::vector<Drawn> next;
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t m = 0; m < micro_batches; ++m) {
        if (!has(part, m, "F")) {
          if (part == 0 || has(part - 1, m, "F")) next.push_back({'F', part, m});
        } else if (!has(part, m, "BI")) {
          if (part + 1 == parts || has(part + 1, m, "BI"))
            next.push_back({random.one_in(2) ? 'B' : 'I', part, m});
        } else if (!has(part, m, "BW")) {
          next.push_back({'W', part, m});
        }
      }
    if (next.empty()) return rows;
    const Drawn drawn = next[random.below(static_cast<std::uint32_t>(next.size()))];
    done[{drawn.part, drawn.micro_batch}] += drawn.kind;
    rows[static_cast<std::size_t>(stage_of[static_cast<std::size_t>(drawn.part)])].push_back(drawn);
  }
}

/// When the last pass ends: all ends are worked out again until none changes. Passes of kind I before their W
/// end with it.
double end_of_passes(const std::vector<std::vector<Drawn>>& rows,
                     const std::vector<support::LayerSpec>& parts) {
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, double> arrives;  // forward?, part, micro-batch
  double end = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (const std::vector<Drawn>& row : rows) {
      double now = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const auto& [kind, part, micro_batch] = row[i];
        const support::LayerSpec& layer = parts[static_cast<std::size_t>(part)];
        const bool is_forward = kind == 'F';
        if (kind != 'W') {
          const auto before = arrives.find({is_forward, is_forward ? part - 1 : part + 1, micro_batch});
          if (before != arrives.end()) now = std::max(now, before->second);
        }
        now += is_forward ? layer.forward_us : layer.backward_us / (kind == 'B' ? 1 : 2);
        const bool goes_on = kind == 'I' && i + 1 < row.size() && row[i + 1].kind == 'W' &&
                             row[i + 1].part == part && row[i + 1].micro_batch == micro_batch;
        if (kind != 'W') {
          double& known = arrives[{is_forward, part, micro_batch}];
          const double own = now + (goes_on ? layer.backward_us / 2 : 0);
          moves = moves || known != own;
          known = own;
        }
        end = std::max(end, now);
      }
    }
  }
  return end;
}

/// Parts that go round the stages, or return through them, each of one layer.
struct Placed {
  std::vector<std::int64_t> stage_of;
  std::vector<support::LayerSpec> parts;
};

Placed random_parts(Random& random, std::int64_t stages, std::int64_t rounds) {
  Placed out;
  auto& [stage_of, parts] = out;
  for (std::int64_t round = 0; round < rounds; ++round) {
    std::vector<std::int64_t> order;
    for (std::int64_t stage = 0; stage < stages; ++stage) order.push_back(stage);
    if (round > 0 && random.one_in(2)) std::ranges::reverse(order);
    stage_of.insert(stage_of.end(), order.begin(), order.end());
  }
  for (std::size_t part = 0; part < stage_of.size(); ++part)
    parts.push_back({static_cast<double>(random.between(1, 50)),
                     static_cast<double>(2 * random.between(1, 50)),
                     {random.between(1, 500), random.between(1, 500)}});
  return out;
}

std::string texts_of(const std::vector<std::vector<Drawn>>& rows) {
  std::vector<std::string> texts;
  for (const std::vector<Drawn>& row : rows) {
    std::string text;
    for (const Drawn& each : row) text += fmt::format("{}{}{},", each.part, each.kind, each.micro_batch);
    texts.push_back(fmt::format("\"{}\"", text));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

TEST_CASE("stage orders: no other groups are faster than those of a plan that says so") {
  int exact = 0;
  for (std::uint32_t seed = 0; seed < support::seeds(300); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t stages = random.between(1, 3);
    const auto [stage_of, parts] = random_parts(random, stages, random.between(1, 2));
    const auto rows = random_rows(random, stage_of, stages, random.between(1, 3));
    const std::vector<std::string> overlaps = {"first_stage", "all_stages", "none"};
    const Parallel parallel = stages_of(
        stages, fmt::format(R"("passes": [{}], "overlap": "{}")", texts_of(rows), overlaps[random.below(3)]));
    const ParallelRun found =
        run_of(profile_of(parts), 2 * stages, parallel, R"({"pipeline": "wfbp", "fusion": "optimal"})");
    if (!found.is_exact) continue;
    ++exact;
    for (const char* fusion : {R"("none")", R"("all")"})
      CHECK(found.metrics.iteration_us <=
            run_of(profile_of(parts), 2 * stages, parallel,
                   fmt::format(R"({{"pipeline": "wfbp", "fusion": {}}})", fusion))
                .metrics.iteration_us);
  }
  CHECK(exact > 0);
}

TEST_CASE("stage orders: listed passes end when an independent evaluator says") {
  for (std::uint32_t seed = 0; seed < support::seeds(400); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::int64_t stages = random.between(1, 4);
    const auto [stage_of, parts] = random_parts(random, stages, random.between(1, 3));
    const std::int64_t micro_batches = random.between(1, 5);
    const auto rows = random_rows(random, stage_of, stages, micro_batches);
    const ParallelRun run = run_of(profile_of(parts), stages,
                                   stages_of(stages, fmt::format(R"("passes": [{}])", texts_of(rows))));
    CHECK(run.metrics.iteration_us == doctest::Approx(end_of_passes(rows, parts)).epsilon(1e-9));
    CHECK(run.metrics.exposed_communication_us == 0);
  }
}

TEST_CASE("stage orders: passes that cannot run are refused, with the stage and the pass") {
  const auto fails = [](const std::string& members, const std::string& message) {
    CHECK_THROWS_WITH_AS(stages_of(2, members), message.c_str(), core::InputError);
  };
  const std::string one = "s.json: /stages/passes/1: expected ";
  const std::string all = "s.json: /stages/passes: expected ";
  fails(R"("passes": ["0F0,0B0"])", all + "a text for each stage, 2 in all, got 1");
  fails(R"("passes": ["0F0,0B0", "1F0,1X0"])",
        one + "passes such as 0F0,0B0: a part, one of F, B, I and W, and a micro-batch, got '1X0'");
  for (const char* wrong :
       {"F0", "1F", "1F0x", "-1F0", "1SEND_F0", "1F10000", "1000000F0", "1 F0", "(1F0", "1F-0"})
    fails(
        fmt::format(R"("passes": ["0F0,0B0", "{}"])", wrong),
        one + fmt::format("passes such as 0F0,0B0: a part, one of F, B, I and W, and a micro-batch, got '{}'",
                          wrong));
  fails(
      R"("passes": ["0F0,0B0", "1F0"])",
      all + "a forward and a backward pass of each of 1 micro-batches through each of 2 parts, got 3 passes");
  fails(R"("passes": ["0F0,0I0,0B0", "1F0,1I0"])",
        "s.json: /stages/passes/0: expected each pass once, got 0B0 when it was there");
  fails(
      R"("passes": ["0F0,0I0,0W0", "1F0,1I0"])",
      all +
          "a forward and a backward pass of each of 1 micro-batches through each of 2 parts, got not both of "
          "micro-batch 0 through part 1");
  fails(R"("passes": ["0F0,0B0", "1F0,1B0,0F1,0B1,1F1,1B1"])",
        one + "no passes through part 0, which stage 0 runs, got 0F1");
  fails(R"("passes": ["1F0,1B0", "0F0,0B0"])",
        "s.json: /stages/passes/0: expected part 0 in stage 0, got it in another one");
  fails(R"("passes": ["0F0,0B0,2F0,2B0", "1F0,1B0"])",
        all + "as many parts in each stage, got 2 in stage 0 and 1 in stage 1");
  fails(R"("passes": ["0F0,0B0", "1B0,1F0"])",
        "s.json: /stages/passes/0: expected an order in which every pass comes after those that it needs, "
        "got 0B0, which waits for ever");
  fails(R"("passes": ["0F0,0B0", "1F0,1B0"], "schedule": "1f1b")",
        "s.json: /stages/schedule: expected no schedule beside passes, which tell it, got one");
  fails(R"("passes": ["0F0,0B0", "1F0,1B0"], "weight_share": 0.5)",
        "s.json: /stages/weight_share: expected no weight_share without passes for input gradients, as of "
        "zb-h1, got one");
  CHECK_THROWS_WITH_AS(
      parallel_of(R"({"pipeline": 2, "tied_tensors": [{"tensor": "a", "layer": "b"}],
                      "stages": {"passes": ["0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0"]}})"),
      "s.json: /tied_tensors: expected no tied_tensors unless the last stage has the last part, got some",
      core::InputError);
}

TEST_CASE("stage orders: layers are not computed again where backward passes are divided") {
  core::Profile blocks = profile_of({{1, 2, {10}}, {1, 2, {10}}});
  const Conditions conditions = {.recompute = Recompute{}};
  CHECK_THROWS_WITH_AS(run_parallel(blocks, pair_of(2, 0.1), 2, {}, conditions, schedule_of(R"("wfbp")"),
                                    stages_of(2, R"("schedule": "zb-h1", "micro_batches": 2)")),
                       "expected no recompute where backward passes are divided, got some",
                       core::Unsupported);
}

}  // namespace
}  // namespace planner
