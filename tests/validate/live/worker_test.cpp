// Live workers as threads: sums are right, a wrong sum is detected, and events follow the order of the
// pipeline.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/errors.hpp"
#include "tests/validate/live/live.hpp"

namespace {

using live::Iteration;
using live::Piece;
using live_tests::Ran;
using live_tests::spec_for;
using Kind = planner::TaskLabel::Kind;

constexpr const char* kGroups = R"("fusion": {"kind": "groups", "count": 3})";

std::string schedule(const std::string& pipeline, const std::string& compression, const std::string& more) {
  return R"({"pipeline": ")" + pipeline + R"(", "compression": )" + compression + ", " + more + "}";
}

/// Every pipeline with all options that it supports.
std::vector<std::string> schedules() {
  const std::vector<std::string> halves = {R"("none")", R"("fp16")", R"("bf16")"};
  std::vector<std::string> all = halves;
  for (const char* name : {"dgc", "random-k", "efsignsgd", "onebit", "mstopk"})
    all.push_back('"' + std::string(name) + '"');
  for (const char* name : {"top-k", "gaussian-k", "threshold"})
    all.push_back(R"({"name": ")" + std::string(name) + R"(", "ratio": 0.2, "collective": "all_gather"})");
  for (const char* name : {"topk-a", "topk-dsa", "gtopk", "ok-topk"})
    all.push_back(R"({"name": ")" + std::string(name) + R"(", "density": 0.1})");
  all.push_back(R"({"name": "power-sgd", "rank": 2})");
  std::vector<std::string> out;
  for (const char* pipeline : {"after_backward", "wfbp"})
    for (const std::string& compression : all) out.push_back(schedule(pipeline, compression, kGroups));
  for (const std::string& compression : halves) {
    out.push_back(schedule("dear", compression, kGroups));
    out.push_back(schedule("dear", compression, std::string(R"("prefetch": 1, )") + kGroups));
    out.push_back(schedule("zero", compression, kGroups));
    out.push_back(schedule("zero", compression, std::string(R"("overlap_gather": false, )") + kGroups));
  }
  out.push_back(R"({"pipeline": "priority", "partition_bytes": 400, "credit_bytes": 900})");
  out.push_back(schedule("sharded", R"("none")", kGroups));
  out.push_back(
      schedule("sharded", R"("none")", std::string(R"("reshard_after_forward": true, )") + kGroups));
  return out;
}

TEST_CASE("live: every pipeline sums what each compressor says, on every rank") {
  std::uint32_t workers = 2;
  for (const std::string& text : schedules()) {
    CAPTURE(text);
    for (const bool error_feedback : {false, true}) {
      live::RunSpec spec = spec_for(text, workers);
      spec.error_feedback = error_feedback;
      const Ran ran = live_tests::run(spec);
      for (const live::WorkerRecord& worker : ran.workers) CHECK(worker.iterations.size() == 2);
    }
    workers = workers == 4 ? 2 : workers + 1;
  }
}

TEST_CASE("live: one wrong value on one rank ends the run, named with iteration and group") {
  for (const std::string& text : schedules()) {
    CAPTURE(text);
    live::RunSpec spec = spec_for(text, 2);
    spec.error_feedback = true;
    spec.wrong = live::WrongValue{.rank = 1, .iteration = 2, .group = 1};
    std::string said;
    try {
      live_tests::run(spec);
    } catch (const core::EnvironmentError& error) {
      said = error.what();
    }
    CHECK(said.rfind("iteration 2: group 2: value ", 0) == 0);
  }
}

/// Schedules that depend on nodes.
std::vector<std::string> schedules_of_nodes() {
  std::vector<std::string> out;
  for (const char* pipeline : {"after_backward", "wfbp"}) {
    out.push_back(schedule(pipeline, R"({"name": "hitopk", "density": 0.1})", kGroups));
    for (const char* name : {"dgc", "fp16", "onebit"})
      out.push_back(
          schedule(pipeline, R"({"name": ")" + std::string(name) + R"(", "between_nodes": true})", kGroups));
  }
  return out;
}

TEST_CASE("live: hitopk and compression between nodes leave what they are defined to, on every rank") {
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> shapes = {{4, 2}, {4, 1}, {4, 4}, {6, 3}};
  std::size_t next = 0;
  for (const std::string& text : schedules_of_nodes())
    for (const std::size_t shape : {next++ % shapes.size(), next % shapes.size()}) {
      CAPTURE(text);
      CAPTURE(shape);
      live::RunSpec spec = spec_for(text, shapes[shape].first);
      spec.workers_per_node = shapes[shape].second;
      spec.error_feedback = next % 4 < 2;
      CHECK(live_tests::run(spec).workers.size() == spec.workers);
      spec.wrong = live::WrongValue{.rank = 3, .iteration = 2, .group = 1};
      CHECK_THROWS_AS(live_tests::run(spec), core::EnvironmentError);
    }
}

TEST_CASE("live: all-reduces of other patterns sum, too") {
  for (const char* name : {"binary_tree", "recursive_doubling", "halving_doubling", "double_binary_tree"}) {
    CAPTURE(name);
    live::RunSpec spec = spec_for(R"({"pipeline": "wfbp", "fusion": "none"})", 4);
    spec.all_reduce.name = name;
    CHECK(live_tests::run(spec).workers.size() == 4);
  }
}

// ---- the order of events

const Piece& find(const Iteration& iteration, Kind kind, std::uint32_t item) {
  const auto found = std::ranges::find_if(
      iteration.pieces, [&](const Piece& piece) { return piece.kind == kind && piece.item == item; });
  REQUIRE(found != iteration.pieces.end());
  return *found;
}

double end_of(const Iteration& iteration, Kind kind) {
  double end = 0;
  for (const Piece& piece : iteration.pieces)
    if (piece.kind == kind) end = std::max(end, piece.end_us);
  return end;
}

void check_one_at_a_time(const Iteration& iteration, bool collectives) {
  double end = 0;
  for (const Piece& piece : iteration.pieces) {
    if (piece.is_collective() != collectives) continue;
    CHECK(piece.start_us >= end);
    CHECK(piece.end_us >= piece.start_us);
    CHECK(piece.start_us >= piece.ready_us);
    end = piece.end_us;
  }
  CHECK(iteration.length_us >= end);
}

/// The recorded iterations with their plan.
struct Checked {
  live::Prediction prediction;
  planner::Workload workload;
  Iteration iteration;

  std::uint32_t last_step(std::uint32_t group) const {
    return workload.gradients[prediction.groups[group].end - 1].backward_step;
  }
  /// Whether the group holds a tensor of the layer.
  bool has(std::uint32_t group, std::uint32_t layer) const {
    for (std::uint32_t i = prediction.groups[group].begin; i < prediction.groups[group].end; ++i)
      if (workload.gradients[i].layer == layer) return true;
    return false;
  }
  auto groups() const { return static_cast<std::uint32_t>(prediction.groups.size()); }
};

template <typename Check>
void check_all(const std::string& text, const Check& check) {
  CAPTURE(text);
  const live::RunSpec spec = spec_for(text, 3);
  const Ran ran = live_tests::run(spec);
  for (const live::WorkerRecord& worker : ran.workers)
    for (const Iteration& iteration : worker.iterations) {
      check_one_at_a_time(iteration, true);
      check_one_at_a_time(iteration, false);
      check(Checked{ran.prediction, planner::make_workload(spec.profile), iteration});
    }
}

TEST_CASE("live: wfbp sends a group after its last gradient and the group before it") {
  check_all(schedule("wfbp", R"("efsignsgd")", kGroups), [](const Checked& at) {
    double channel = 0;
    for (std::uint32_t group = 0; group < at.groups(); ++group) {
      const Piece& sent = find(at.iteration, Kind::all_gather, group);
      CHECK(sent.start_us >= find(at.iteration, Kind::backward, at.last_step(group)).end_us);
      CHECK(sent.start_us >= find(at.iteration, Kind::encode, group).end_us);
      CHECK(sent.start_us >= channel);
      channel = sent.end_us;
      const Piece& decoded = find(at.iteration, Kind::decode, group);
      CHECK(decoded.start_us >= sent.end_us);
      CHECK(decoded.start_us >= end_of(at.iteration, Kind::backward));
    }
  });
}

TEST_CASE("live: after_backward sends nothing before backward has ended") {
  check_all(schedule("after_backward", R"("none")", kGroups), [](const Checked& at) {
    for (std::uint32_t group = 0; group < at.groups(); ++group)
      CHECK(find(at.iteration, Kind::all_reduce, group).start_us >= end_of(at.iteration, Kind::backward));
  });
}

TEST_CASE("live: dear gathers after all has been scattered, and forward waits for its own all-gathers") {
  for (const char* prefetch : {"", R"("prefetch": 1, )"})
    check_all(schedule("dear", R"("none")", prefetch + std::string(kGroups)), [](const Checked& at) {
      const double scattered =
          std::max(end_of(at.iteration, Kind::reduce_scatter), end_of(at.iteration, Kind::backward));
      for (std::uint32_t group = 0; group < at.groups(); ++group) {
        const Piece& gathered = find(at.iteration, Kind::all_gather, group);
        CHECK(gathered.start_us >= scattered);
        CHECK(find(at.iteration, Kind::reduce_scatter, group).start_us >=
              find(at.iteration, Kind::backward, at.last_step(group)).end_us);
        for (std::uint32_t layer = 0; layer < at.workload.forward.size(); ++layer)
          if (at.has(group, layer))
            CHECK(find(at.iteration, Kind::forward, layer).start_us >= gathered.end_us);
      }
      CHECK(find(at.iteration, Kind::forward, 0).start_us >= scattered);
    });
}

TEST_CASE("live: priority runs the same order on all ranks, and a layer waits for its own partitions") {
  const std::string text = R"({"pipeline": "priority", "partition_bytes": 400, "credit_bytes": 900})";
  check_all(text, [](const Checked& at) {
    for (std::uint32_t group = 0; group < at.groups(); ++group) {
      const Piece& sent = find(at.iteration, Kind::all_reduce, group);
      CHECK(sent.start_us >= find(at.iteration, Kind::backward, at.last_step(group)).end_us);
      for (std::uint32_t layer = 0; layer < at.workload.forward.size(); ++layer)
        if (at.has(group, layer)) CHECK(find(at.iteration, Kind::forward, layer).start_us >= sent.end_us);
    }
  });
  const Ran ran = live_tests::run(spec_for(text, 4));
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<std::vector<std::uint32_t>> orders;
    for (const live::WorkerRecord& worker : ran.workers) {
      std::vector<std::uint32_t>& order = orders.emplace_back();
      for (const Piece& piece : worker.iterations[i].pieces)
        if (piece.is_collective()) order.push_back(piece.item);
      CHECK(order == orders.front());
    }
  }
}

TEST_CASE("live: sharded gathers before a layer's passes and scatters after backward") {
  check_all(schedule("sharded", R"("none")", kGroups), [](const Checked& at) {
    for (std::uint32_t group = 0; group < at.groups(); ++group) {
      const Piece& gathered = find(at.iteration, Kind::forward_gather, group);
      for (std::uint32_t layer = 0; layer < at.workload.forward.size(); ++layer)
        if (at.has(group, layer)) CHECK(find(at.iteration, Kind::forward, layer).start_us >= gathered.end_us);
      CHECK(find(at.iteration, Kind::reduce_scatter, group).start_us >=
            find(at.iteration, Kind::backward, at.last_step(group)).end_us);
      if (group == 0) continue;  // kept after forward
      const Piece& again = find(at.iteration, Kind::backward_gather, group);
      for (std::uint32_t step = 0; step < at.workload.backward.size(); ++step)
        if (at.has(group, at.workload.backward[step].layer))
          CHECK(find(at.iteration, Kind::backward, step).start_us >= again.end_us);
    }
  });
}

// ---- the same pieces as the simulator

std::multiset<std::pair<Kind, std::uint32_t>> pieces_of(const Iteration& iteration) {
  std::multiset<std::pair<Kind, std::uint32_t>> out;
  for (const Piece& piece : iteration.pieces) out.emplace(piece.kind, piece.item);
  return out;
}

TEST_CASE("live: a worker runs the tasks that the simulator has, each once") {
  for (const char* pipeline : {"after_backward", "wfbp", "dear", "zero", "sharded"})
    for (const int steps : {1, 2}) {
      CAPTURE(pipeline);
      CAPTURE(steps);
      live::RunSpec spec = spec_for(schedule(pipeline, R"("none")", kGroups), 2);
      spec.conditions.accumulation_steps = steps;
      spec.conditions.optimizer_us = 100;
      const Ran ran = live_tests::run(spec);
      for (const live::WorkerRecord& worker : ran.workers)
        CHECK(pieces_of(worker.iterations[0]) == pieces_of(ran.prediction.iterations[worker.rank]));
    }
}

TEST_CASE("live: a straggler computes as much longer as it is said to be slower") {
  live::RunSpec spec = spec_for(schedule("wfbp", R"("none")", kGroups), 3);
  spec.conditions.stragglers = {{.worker = 1, .slowdown = 3}};
  const Ran ran = live_tests::run(spec);
  const double alone = core::forward_us(spec.profile) + core::backward_us(spec.profile);
  // a busy machine may delay it, never advance it
  for (const live::WorkerRecord& worker : ran.workers)
    for (const Iteration& iteration : worker.iterations)
      CHECK(end_of(iteration, Kind::backward) >= (worker.rank == 1 ? 3 : 1) * alone - 1);
  CHECK(ran.prediction.iterations[1].forward_us() ==
        doctest::Approx(3 * ran.prediction.iterations[0].forward_us()));
}

TEST_CASE("live: what cannot be run is refused before anything starts") {
  live::RunSpec spec = spec_for(R"("wfbp")", 2);
  spec.name = "p";
  spec.conditions.jitter.sigma = 0.1;
  CHECK_THROWS_WITH_AS(live::check_runnable(spec),
                       "p: expected no jitter and no failures to be run live, got jitter", core::InputError);
  spec = spec_for(schedule("wfbp", R"({"name": "hitopk", "density": 0.1})", kGroups), 4);
  spec.name = "p";
  spec.workers_per_node = 3;
  CHECK_THROWS_WITH_AS(live::check_runnable(spec),
                       "p: expected full nodes of 3 workers to be run live, got 4", core::InputError);
  spec = spec_for(schedule("dear", R"("none")", kGroups), 2);
  spec.name = "p";
  spec.all_reduce.name = "binary_tree";
  CHECK_THROWS_WITH_AS(live::check_runnable(spec),
                       "p: expected ring for a pipeline of halves to be run live, got binary_tree",
                       core::InputError);
}

}  // namespace
