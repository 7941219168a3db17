// The live worker runs the task graph of the simulator: for every pipeline and every named schedule,
// collectives run in the same order.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "planner/pipeline/pipeline.hpp"
#include "planner/schedule/schedule.hpp"
#include "tests/validate/live/live.hpp"

namespace {

using Order = std::vector<std::pair<planner::TaskLabel::Kind, std::uint32_t>>;

Order order_of(const live::Iteration& iteration) {
  Order out;
  for (const live::Piece& piece : iteration.pieces)  // they end in the order of execution
    if (piece.is_collective()) out.emplace_back(piece.kind, piece.item);
  return out;
}

/// All schedules, as a user writes them.
std::vector<std::string> all_schedules() {
  std::vector<std::string> out;
  for (const planner::Pipeline& pipeline : planner::pipelines())
    out.push_back(R"({"pipeline": ")" + std::string(pipeline.name) + R"("})");
  for (const planner::Preset& preset : planner::presets()) {
    const std::string name = R"({"name": ")" + std::string(preset.name) + '"';
    out.push_back(name + (preset.is_sparse          ? R"(, "density": 0.1})"
                          : preset.needs_compressor ? R"(, "compression": "dgc"})"
                                                    : "}"));
  }
  return out;
}

bool is_runnable(const live::RunSpec& spec) {
  try {
    live::check_runnable(spec);
    return true;
  } catch (const core::InputError&) {
    return false;
  }
}

TEST_CASE("live: every pipeline and named schedule runs its collectives in the simulator's order") {
  // no rank acts as a server, a worker has one channel, and gradients are drawn once in an iteration
  const std::set<std::string> expected_to_be_skipped = {R"({"pipeline": "parameter_server"})",
                                                        R"({"name": "parameter-server"})",
                                                        R"({"name": "hsdp"})", R"({"name": "zero2"})"};
  std::set<std::string> skipped;
  for (const std::string& text : all_schedules())
    for (const std::int64_t steps : {1, 2}) {
      CAPTURE(text);
      CAPTURE(steps);
      live::RunSpec spec = live_tests::spec_for(text, 2);
      spec.conditions.accumulation_steps = steps;
      if (!is_runnable(spec)) {
        skipped.insert(text);
        continue;
      }
      const live_tests::Ran ran = live_tests::run(spec);
      for (const live::WorkerRecord& worker : ran.workers)
        for (const live::Iteration& iteration : worker.iterations) {
          const Order simulated = order_of(ran.prediction.iterations[worker.rank]);
          CHECK(!simulated.empty());
          CHECK(order_of(iteration) == simulated);
        }
    }
  CHECK(skipped == expected_to_be_skipped);
}

TEST_CASE(
    "live: gradients wait for the cycle of the fusion buffer, also where collectives run under the next "
    "forward") {
  constexpr double kCycleUs = 5000;  // counted from the beginning of backward
  for (const std::string pipeline : {"wfbp", "dear", "zero"}) {
    CAPTURE(pipeline);
    const live_tests::Ran ran = live_tests::run(live_tests::spec_for(
        R"({"pipeline": ")" + pipeline + R"(", "fusion": {"kind": "threshold", "cycle_us": 5000}})", 2));
    for (const live::WorkerRecord& worker : ran.workers)
      for (const live::Iteration& iteration : worker.iterations) {
        const auto first = std::ranges::find_if(iteration.pieces, [](const live::Piece& piece) {
          return piece.kind == planner::TaskLabel::Kind::all_reduce ||
                 piece.kind == planner::TaskLabel::Kind::reduce_scatter;
        });
        REQUIRE(first != iteration.pieces.end());
        CHECK(first->start_us >= kCycleUs);
      }
  }
}

}  // namespace
