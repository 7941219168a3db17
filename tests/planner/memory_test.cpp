// Memory of a worker: complete courses worked out by hand beside their timelines, and random runs against a
// slow count of what is held at each instant.

#include "planner/run/memory.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/errors.hpp"
#include "tests/support/groups.hpp"
#include "tests/support/planning.hpp"
#include "tests/support/timeline_check.hpp"

namespace planner {
namespace {

using core::Dtype;
using sim::Time;
using support::pair_of;
using support::profile_of;
using support::Random;
using support::Scene;
using support::schedule_of;
using Kind = TaskLabel::Kind;

constexpr MemoryOptions kSgd = {};
constexpr MemoryOptions kAdam = {.optimizer_states = 2};

// Forward 2 and 3 us, backward 5 and 4 us; 10 and 20 elements. A phase of an all-reduce of M bytes takes
// 1 + 0.05 M us.
core::Profile two_layers(Dtype dtype = Dtype::float32) {
  core::Profile profile = profile_of({{2, 5, {10}}, {3, 4, {20}}});
  profile.dtype = dtype;
  return profile;
}

/// Outputs of 7 and 9 bytes.
core::Profile with_activations() {
  core::Profile profile = two_layers();
  profile.layers[0].activation_bytes = 7;
  profile.layers[1].activation_bytes = 9;
  return profile;
}

std::int64_t part(const MemoryPoint& point, MemoryPart which) {
  return point.bytes[static_cast<std::size_t>(which)];
}

Memory memory_in(const Scene& scene, const std::string& schedule) {
  const Run run = scene.run(schedule_of(schedule));
  return memory_of(scene.setting, run, run.timeline);
}

/// Every change: "11 us: gathered 120 gradients 80", without what is 0.
std::string course(const Memory& memory) {
  std::string out;
  for (const MemoryPoint& point : memory.points) {
    out += fmt::format("{}{}:", out.empty() ? "" : ", ", sim::to_us(point.at));
    for (const MemoryPart each :
         {MemoryPart::gathered, MemoryPart::gradients, MemoryPart::buffers, MemoryPart::activations})
      if (part(point, each) != 0)
        out += fmt::format(" {} {}", kMemoryParts[static_cast<std::size_t>(each)], part(point, each));
  }
  return out;
}

TEST_CASE("memory: sharded holds shares, and what is gathered until its pass has used it") {
  // compute:       F1      F2    B2   B1            3-5, 8-11, 11-15, 15-20
  // channel: [ G2 ][ G1    ]    [g2] [ S1 ][ S2 ]   0-3, 3-8, 11-14, 15-20, 20-23
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .memory = kAdam});
  const Memory memory = memory_in(scene, R"({"pipeline": "sharded"})");
  // layer 2 is kept from its gather to the end of its backward pass, layer 1 is gathered twice
  CHECK(course(memory) ==
        "0: gathered 40, 3: gathered 120, 5: gathered 80, 11: gathered 120 gradients 80, "
        "15: gathered 40 gradients 160, 20: gradients 100, 23:");
  CHECK(part(memory.points.front(), MemoryPart::parameters) == 60);
  CHECK(part(memory.points.front(), MemoryPart::optimizer) == 120);
  CHECK(part(memory.points.front(), MemoryPart::master) == 0);
  CHECK(memory.peak.at == sim::from_us(11));
  CHECK(total(memory.peak.bytes) == 380);
  CHECK_FALSE(memory.peak.has_activations);
}

TEST_CASE("memory: sharded with types of its own copies gradients into what it reduces") {
  // one group of 60 bytes in bfloat16, 120 in float32: G 0-4, F1 4-6, F2 6-9, B2 9-13, B1 13-18, S 18-25
  const DataTypes mixed = {.reduce = Dtype::float32, .gather = Dtype::bfloat16, .parameters = Dtype::float32};
  const Scene scene(two_layers(Dtype::bfloat16), pair_of(2, 0.1), 2,
                    {.iterations = 1, .data_types = mixed, .memory = kAdam});
  const Memory memory = memory_in(scene, R"({"pipeline": "sharded", "fusion": "all"})");
  CHECK(course(memory) ==
        "0: gathered 60, 9: gathered 60 gradients 40, 13: gathered 60 gradients 60, "
        "18: gradients 60 buffers 120, 25:");
  CHECK(part(memory.points.front(), MemoryPart::parameters) == 60);
  CHECK(part(memory.points.front(), MemoryPart::optimizer) == 120);
}

TEST_CASE("memory: groups are kept as long as is asked, and prefetched as far") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .memory = kSgd});
  // F1 3-5, F2 8-11, B2 11-15, B1 15-20; G2 0-3, G1 3-8
  CHECK(course(memory_in(scene, R"({"pipeline": "sharded", "kept_groups": 2})")) ==
        course(memory_in(scene, R"({"pipeline": "sharded", "reshard_after_forward": false})")));
  CHECK(course(memory_in(scene, R"({"pipeline": "sharded", "kept_groups": 2})")) ==
        "0: gathered 40, 3: gathered 120, 11: gathered 120 gradients 80, 15: gathered 40 gradients 160, "
        "20: gradients 100, 23:");
  // F1 3-5, F2 8-11, g1 11-16, B2 16-20, g2 after S1's issue: S1 20-25, g2 25-28, B1 28-33, S2 33-36
  CHECK(course(memory_in(scene, R"({"pipeline": "sharded", "kept_groups": 0, "backward_prefetch": 0})")) ==
        "0: gathered 40, 3: gathered 120, 5: gathered 80, 11: gathered 80, 16: gathered 80 gradients 80, "
        "20: gradients 120, 25: gathered 40 gradients 40, 28: gathered 40 gradients 80, 33: gradients 100, "
        "36:");
}

TEST_CASE("memory: whole gradients last until the update, and are copied unless they lie in buffers") {
  // F1 0-2, F2 2-5, B2 5-9, B1 9-14, A 14-22 of 60 bytes, U 22-24
  const DataTypes types = {.master = Dtype::float32};
  const Conditions copied = {.iterations = 1,
                             .optimizer_us = 2,
                             .data_types = types,
                             .memory = MemoryOptions{.optimizer_states = 1}};
  const Scene scene(two_layers(Dtype::bfloat16), pair_of(2, 0.1), 2, copied);
  const Memory memory = memory_in(scene, R"({"pipeline": "wfbp", "fusion": "all"})");
  CHECK(course(memory) ==
        "0:, 5: gradients 40, 9: gradients 60, 14: gradients 60 buffers 60, 22: gradients 60, 24:");
  CHECK(part(memory.points.front(), MemoryPart::parameters) == 60);
  CHECK(part(memory.points.front(), MemoryPart::master) == 120);
  CHECK(part(memory.points.front(), MemoryPart::optimizer) == 120);
  Conditions lasting = copied;
  lasting.memory->gradients_in_buffers = true;
  const Scene in_place(two_layers(Dtype::bfloat16), pair_of(2, 0.1), 2, lasting);
  CHECK(course(memory_in(in_place, R"({"pipeline": "wfbp", "fusion": "all"})")) == "0: gradients 60");
  // groups of one tensor are not copied: A1 9-15, A2 15-19, U 19-21
  CHECK(course(memory_in(scene, R"("wfbp")")) == "0:, 5: gradients 40, 9: gradients 60, 21:");
}

TEST_CASE(
    "memory: dear and zero hold gradients until they are gathered or used under the next forward pass") {
  // F1 0-2, F2 2-5, B2 5-9, B1 9-14, S1 9-14, S2 14-17, G2 17-20, G1 20-25, F1 20-22, F2 25-28
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 1, .memory = kAdam});
  const Memory dear = memory_in(scene, R"({"pipeline": "dear"})");
  CHECK(course(dear) == "0:, 5: gradients 80, 9: gradients 120, 20: gradients 80, 25:");
  CHECK(part(dear.points.front(), MemoryPart::optimizer) == 240);
  const Memory first = memory_in(scene, R"({"pipeline": "zero"})");
  CHECK(course(first) == course(dear));
  CHECK(part(first.points.front(), MemoryPart::parameters) == 120);
  CHECK(part(first.points.front(), MemoryPart::optimizer) == 120);
  CHECK(course(memory_in(scene, R"({"pipeline": "zero", "stage": 2})")) ==
        "0:, 5: gradients 80, 9: gradients 160, 14: gradients 100, 17: gradients 60, 20: gradients 40, 25:");
  // without overlap the gathers come last: G2 17-20, G1 20-25
  CHECK(course(memory_in(scene, R"({"pipeline": "zero", "stage": 2, "overlap_gather": false})")) ==
        "0:, 5: gradients 80, 9: gradients 160, 14: gradients 100, 17: gradients 60, 25:");
}

TEST_CASE("memory: what zero gathers in another type than it stores is held until backward has used it") {
  // F1 0-2, F2 2-5, B2 5-9, B1 9-14, S1 9-14, S2 14-17, G2 17-19, G1 19-22, F1 22-24, F2 24-27, B2 27-31, B1
  // 31-36
  const DataTypes types = {.gather = Dtype::bfloat16};
  const Scene scene(two_layers(), pair_of(2, 0.1), 2, {.iterations = 2, .data_types = types, .memory = kSgd});
  const Memory memory = memory_in(scene, R"({"pipeline": "zero", "overlap_gather": false})");
  std::string got;
  for (const MemoryPoint& point : memory.points)
    if (point.at <= sim::from_us(36))
      got += fmt::format("{} {}, ", sim::to_us(point.at), part(point, MemoryPart::gathered));
  CHECK(got == "0 0, 5 0, 9 0, 17 20, 19 60, 22 60, 27 60, 31 20, 36 0, ");
}

TEST_CASE("memory: activations whose sum 64 bits may not count are refused") {
  core::Profile profile = profile_of(std::vector<support::LayerSpec>(500, {1, 1, {4}}));
  for (core::ProfileLayer& layer : profile.layers) layer.activation_bytes = 8'000'000'000'000'000;
  const Scene all(profile, pair_of(2, 0.1), 2, {.memory = kAdam});
  CHECK(memory_in(all, R"("fsdp")").peak.bytes[static_cast<std::size_t>(MemoryPart::activations)] ==
        4'000'000'000'000'000'000);
  profile.layers.push_back(profile.layers.front());
  const Scene more(profile, pair_of(2, 0.1), 2, {.memory = kAdam});
  CHECK_THROWS_WITH_AS((void)memory_in(more, R"("fsdp")"),
                       "expected at most 4e+18 bytes of activations in all, got 4.008e+18",
                       core::Unsupported);
}

TEST_CASE("memory: micro-batches keep whole gradients, and each has its activations") {
  // F1 3-5, F2 8-11, B2' 11-15, B1' 15-20, F1' 23-25, F2' 28-31, B2 31-35, B1 35-40, S1 35-40, S2 40-43
  const Conditions twice = {.iterations = 1, .accumulation_steps = 2, .memory = kSgd};
  const Scene scene(with_activations(), pair_of(2, 0.1), 2, twice);
  const Memory sharded = memory_in(scene, R"({"pipeline": "sharded", "reshard_after_forward": false})");
  std::string got;
  for (const MemoryPoint& point : sharded.points)
    got += fmt::format("{} {} {}, ", sim::to_us(point.at), part(point, MemoryPart::gradients),
                       part(point, MemoryPart::activations));
  CHECK(got ==
        "0 0 0, 3 0 7, 8 0 16, 11 80 16, 15 120 7, 20 120 0, 23 120 7, 28 120 16, 35 160 7, 40 100 0, 43 0 "
        "0, ");
  CHECK(sharded.peak.has_activations);
  // F1 0-2, F2 2-5, b1 5-14, f2 14-19, B2 19-23, B1 23-28, A 28-42
  CHECK(course(memory_in(scene, R"({"pipeline": "wfbp", "fusion": "all"})")) ==
        "0: activations 7, 2: activations 16, 5: gradients 120 activations 16, "
        "14: gradients 120 activations 16, 23: gradients 120 activations 7, 28: gradients 120 buffers 120, "
        "42:");
}

TEST_CASE("memory: FSDP2 adds micro-batches up in the type in which it reduces them") {
  // one group of 60 bytes in bfloat16, 120 in float32: G 0-4, F1 4-6, F2 6-9, B2' 9-13, B1' 13-18, G' 18-22,
  // F1' 22-24, F2' 24-27, B2 27-31, B1 31-36, S 36-43
  const DataTypes mixed = {.reduce = Dtype::float32, .gather = Dtype::bfloat16, .parameters = Dtype::float32};
  const Scene scene(two_layers(Dtype::bfloat16), pair_of(2, 0.1), 2,
                    {.iterations = 1, .accumulation_steps = 2, .data_types = mixed, .memory = kAdam});
  const Memory memory = memory_in(scene, R"({"pipeline": "sharded", "fusion": "all"})");
  CHECK(course(memory) ==
        "0: gathered 60, 9: gathered 60 gradients 80, 13: gathered 60 gradients 120, "
        "18: gathered 60 gradients 120, 27: gathered 60 gradients 160, 31: gathered 60 gradients 180, "
        "36: gradients 60 buffers 120, 43:");
}

TEST_CASE("memory: with stage 2 of zero shares alone are kept between micro-batches") {
  // F1 0-2, F2 2-5, B2' 5-9, B1' 9-14, S1 9-14, S2 14-17, F1' 17-19, F2' 19-22, B2 22-26, B1 26-31, S1 26-31,
  // S2 31-34
  const Scene scene(two_layers(), pair_of(2, 0.1), 2,
                    {.iterations = 1, .accumulation_steps = 2, .memory = kSgd});
  CHECK(course(memory_in(scene, R"({"pipeline": "zero", "stage": 2, "overlap_gather": false})")) ==
        "0:, 5: gradients 80, 9: gradients 160, 14: gradients 100, 17: gradients 60, 22: gradients 140, "
        "26: gradients 180, 31: gradients 100, 34: gradients 60, 42:");
}

// Three layers of 2, 3 and 1 us forward and 5, 4 and 2 us backward, the last two of them a segment, which is
// computed again: 3 + 1 us before its backward pass. Outputs of 7, 9 and 4 bytes.
//
//   F1    F2    F3    (F2 F3) B3    B2    B1        0-2, 2-5, 5-6, 6-12, 12-16, 16-21
//   7     7+9   7+9+4 7+9+4         7+9   7         the 9 bytes are dropped with the end of F3, when B3
//   begins
TEST_CASE(
    "memory: activations of a segment are dropped after its forward pass, and are there again in backward") {
  core::Profile profile = profile_of({{2, 5, {1}}, {3, 4, {}}, {1, 2, {}}});
  for (std::size_t i = 0; i < 3; ++i) {
    profile.layers[i].name = i == 0 ? "stem" : fmt::format("h.0.part{}", i);
    profile.layers[i].activation_bytes = i == 0 ? 7 : i == 1 ? 9 : 4;
  }
  const Recompute blocks = {};
  const Conditions conditions = {.iterations = 1, .memory = kSgd, .recompute = blocks};
  const auto activations_in = [](const Memory& memory) {
    std::string out;
    for (const MemoryPoint& point : memory.points)
      out += fmt::format("{} {}, ", sim::to_us(point.at), part(point, MemoryPart::activations));
    return out;
  };
  const Scene scene(recomputed(profile, blocks), pair_of(2, 0.1), 1, conditions);
  CHECK(activations_in(memory_in(scene, R"("wfbp")")) == "0 7, 2 16, 5 20, 6 20, 12 16, 16 7, 21 0, ");

  // Layer 4 in a block of its own, 1 us forward and 2 us backward, output of 5 bytes: while it runs, the 9
  // bytes are not there. F3 5-6, F4 6-7, (F4) B4 7-10, (F2 F3) B3 10-16, B2 16-20
  profile.layers.push_back(profile.layers.back());
  profile.layers.back().name = "h.1.part1";
  profile.layers.back().activation_bytes = 5;
  const Scene longer(recomputed(profile, blocks), pair_of(2, 0.1), 1, conditions);
  CHECK(activations_in(memory_in(longer, R"("wfbp")")) ==
        "0 7, 2 16, 5 20, 6 16, 10 20, 16 16, 20 7, 25 0, ");

  // The first backward pass and the second forward pass of two micro-batches are one task each, 7-25 and
  // 25-32: all that is kept counts there, and the 9 bytes. B4 32-35, B3 35-41, B2 41-45, B1 45-50
  Conditions twice = conditions;
  twice.accumulation_steps = 2;
  const Scene accumulated(recomputed(profile, blocks), pair_of(2, 0.1), 1, twice);
  CHECK(activations_in(memory_in(accumulated, R"("wfbp")")) ==
        "0 7, 2 16, 5 20, 6 16, 7 25, 25 25, 35 20, 41 16, 45 7, 50 0, ");
}

TEST_CASE("memory: one worker holds everything, and copies and gathers nothing") {
  const Scene scene(two_layers(), pair_of(2, 0.1), 1, {.iterations = 1, .memory = kAdam});
  for (const char* schedule :
       {R"("fsdp")", R"({"pipeline": "zero", "overlap_gather": false, "fusion": "all"})",
        R"({"pipeline": "wfbp", "fusion": "all"})"}) {
    CAPTURE(schedule);
    const Memory memory = memory_in(scene, schedule);
    CHECK(course(memory) == "0:, 5: gradients 80, 9: gradients 120, 14:");
    CHECK(part(memory.peak, MemoryPart::parameters) == 120);
    CHECK(part(memory.peak, MemoryPart::optimizer) == 240);
  }
}

// ---- the oracle: it asks of every buffer, at every instant, whether any task says that it is held

class Oracle {
 public:
  Oracle(const Scene& scene, const Run& run) : scene_(scene), run_(run) {
    const auto tasks = run.lowered.graph.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i)
      tasks_.push_back({TaskLabel::unpack(tasks[i].label), run.timeline.spans[i]});
  }

  std::int64_t gathered(Time at) const {
    std::int64_t out = 0;
    for (std::uint32_t group = 0; group < run_.groups.size(); ++group)
      out += is_gathered(group, at) ? bytes_of(scene_.setting.workload, run_.groups[group]) : 0;
    return out;
  }

  std::int64_t activations(Time at) const {
    std::int64_t out = 0;
    for (std::uint32_t layer = 0; layer < layers(); ++layer)
      for (const Task& task : tasks_)
        if (task.label.kind == Kind::forward && task.label.item % layers() == layer &&
            task.span.start <= at &&
            at < backward_end(task.label.iteration, task.label.item / layers(), layer, layer) &&
            !is_dropped(layer, task.label, at))
          out += *scene_.profile.layers[layer].activation_bytes;
    for (const Task& task : tasks_)  // a whole pass, which begins with all that it leaves
      for (std::uint32_t layer = 0; layer < layers(); ++layer)
        if (task.label.kind == Kind::micro_batch_forward && task.span.start <= at &&
            at < backward_end(task.label.iteration, task.label.item, layer, layer))
          out += *scene_.profile.layers[layer].activation_bytes;
    return out;
  }

  /// Whole gradients and shares; of groups that are not copied for lack of a second tensor, whole ones last
  /// as long as their reduce-scatter.
  std::int64_t gradients(Time at, bool drops) const {
    std::int64_t out = 0;
    for (std::uint32_t i = 0; i < scene_.setting.workload.gradient_count(); ++i)
      for (std::uint32_t iteration = 0; iteration < iterations(); ++iteration)
        if (is_held(i, iteration, at, drops)) out += scene_.setting.workload.gradients[i].bytes;
    std::set<std::pair<std::uint32_t, std::uint32_t>> begun;
    for (const Task& task : tasks_)
      if (drops && task.label.kind == Kind::reduce_scatter && task.span.start <= at &&
          at < iteration_end(task.label.iteration) &&
          begun.insert({task.label.iteration, task.label.item}).second) {
        const std::int64_t elements = bytes_of(scene_.setting.workload, run_.groups[task.label.item]) / 4;
        const std::int64_t workers = scene_.setting.costs.workers();
        out += 4 * ((elements + workers - 1) / workers);
      }
    return out;
  }

 private:
  struct Task {
    TaskLabel label;
    sim::Span span;
  };

  /// Whether the layer's activations are dropped at this time, with runs of layers that are computed again.
  bool is_dropped(std::uint32_t layer, const TaskLabel& forward, Time at) const {
    if (!scene_.setting.conditions.recompute) return false;
    const auto length = static_cast<std::uint32_t>(scene_.setting.conditions.recompute->layers);
    const std::uint32_t last = std::min(layer / length * length + length, layers()) - 1;
    if (layer == last) return false;
    Time again = Time::max();
    for (const Task& task : tasks_)
      if (task.label.kind == Kind::backward && task.label.iteration == forward.iteration &&
          scene_.setting.workload.backward[task.label.item % steps()].layer == last &&
          batches() - 1 - task.label.item / steps() == forward.item / layers())
        again = std::min(again, task.span.start);
    return forward_end(forward.iteration, forward.item / layers(), last, last) <= at && at < again;
  }

  std::uint32_t layers() const { return static_cast<std::uint32_t>(scene_.profile.layers.size()); }
  std::uint32_t steps() const { return static_cast<std::uint32_t>(scene_.setting.workload.backward.size()); }
  std::uint32_t iterations() const {
    return static_cast<std::uint32_t>(scene_.setting.conditions.iterations);
  }
  std::uint32_t batches() const {
    return static_cast<std::uint32_t>(scene_.setting.conditions.accumulation_steps);
  }

  /// The end of the backward pass of these layers in a micro-batch; items count from the last micro-batch.
  Time backward_end(std::uint32_t iteration, std::uint32_t batch, std::uint32_t low,
                    std::uint32_t high) const {
    Time out{};
    for (const Task& task : tasks_) {
      if (task.label.kind != Kind::backward || task.label.iteration != iteration) continue;
      const std::uint32_t layer = scene_.setting.workload.backward[task.label.item % steps()].layer;
      if (batches() - 1 - task.label.item / steps() == batch && layer >= low && layer <= high)
        out = std::max(out, task.span.end);
    }
    return out;
  }

  Time forward_end(std::uint32_t iteration, std::uint32_t batch, std::uint32_t low,
                   std::uint32_t high) const {
    Time out{};
    for (const Task& task : tasks_)
      if (task.label.kind == Kind::forward && task.label.iteration == iteration &&
          task.label.item / layers() == batch && task.label.item % layers() >= low &&
          task.label.item % layers() <= high)
        out = std::max(out, task.span.end);
    return out;
  }

  bool is_gathered(std::uint32_t group, Time at) const {
    const auto groups = static_cast<std::uint32_t>(run_.groups.size());
    const auto& gradients = scene_.setting.workload.gradients;
    const std::uint32_t low = gradients[run_.groups[group].end - 1].layer;
    const std::uint32_t high = gradients[run_.groups[group].begin].layer;
    const bool again = std::any_of(run_.program.ops.begin(), run_.program.ops.end(), [&](const Op& op) {
      return op.group == group && op.issue == Issue::backward;
    });
    return std::any_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
      const TaskLabel& label = task.label;
      const bool forward = label.kind == Kind::forward_gather;
      if ((!forward && label.kind != Kind::backward_gather) || label.item % groups != group) return false;
      const std::uint32_t batch = forward ? label.item / groups : batches() - 1 - label.item / groups;
      const Time end = forward && again ? forward_end(label.iteration, batch, low, high)
                                        : backward_end(label.iteration, batch, low, high);
      return task.span.start <= at && at < end;
    });
  }

  bool is_held(std::uint32_t gradient, std::uint32_t iteration, Time at, bool drops) const {
    if (!drops || !run_.program.reduces_each_batch)
      return begin_of(gradient, iteration, batches() - 1) <= at && at < end_of(gradient, iteration, drops, 0);
    for (std::uint32_t before_last = 0; before_last < batches(); ++before_last)
      if (begin_of(gradient, iteration, before_last) <= at &&
          at < end_of(gradient, iteration, drops, before_last))
        return true;
    return false;
  }

  Time begin_of(std::uint32_t gradient, std::uint32_t iteration, std::uint32_t before_last) const {
    Time out = Time::max();
    for (const Task& task : tasks_)
      if (task.label.kind == Kind::backward && task.label.iteration == iteration &&
          task.label.item / steps() == before_last &&
          task.label.item % steps() == scene_.setting.workload.gradients[gradient].backward_step)
        out = std::min(out, task.span.start);
    return out;
  }

  Time end_of(std::uint32_t gradient, std::uint32_t iteration, bool drops, std::uint32_t before_last) const {
    if (!drops) return iteration_end(iteration);
    std::uint32_t earlier =  // reduce-scatters of the group in micro-batches before
        run_.program.reduces_each_batch ? batches() - 1 - before_last : 0;
    for (std::uint32_t group = 0; group < run_.groups.size(); ++group) {
      const Group& own = run_.groups[group];
      if (gradient < own.begin || gradient >= own.end) continue;
      const bool copied = own.end - own.begin > 1;
      for (const Task& task : tasks_) {
        if (task.label.iteration != iteration) continue;
        if (!copied && task.label.kind == Kind::reduce_scatter && task.label.item == group && earlier-- == 0)
          return task.span.end;
        if (copied && task.label.kind == Kind::backward &&
            task.label.item ==
                before_last * steps() + scene_.setting.workload.gradients[own.end - 1].backward_step)
          return task.span.end;
      }
    }
    return iteration_end(iteration);
  }

  Time iteration_end(std::uint32_t iteration) const { return run_.marks[iteration + 1]; }

  const Scene& scene_;
  const Run& run_;
  std::vector<Task> tasks_;
};

TEST_CASE("memory: at every instant as much is held as a count of all buffers says") {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    core::Profile profile = support::random_profile(random, 4);
    for (core::ProfileLayer& layer : profile.layers) layer.activation_bytes = random.between(0, 1000);
    const bool is_sharded = random.one_in(2);
    const bool drops = is_sharded || random.one_in(2);
    Conditions conditions = {.iterations = random.between(1, 3), .memory = kAdam};
    conditions.optimizer_us = random.one_in(2) ? 3 : 0;
    if (!is_sharded && random.one_in(2)) conditions.recompute = Recompute{random.between(1, 4)};
    if (drops && !conditions.recompute) conditions.accumulation_steps = random.between(1, 3);
    const Scene scene(std::move(profile), pair_of(static_cast<double>(random.below(200)), 0.001),
                      random.between(2, 5), conditions);
    const std::string fusion = random.one_in(3)   ? R"("none")"
                               : random.one_in(2) ? R"("all")"
                                                  : R"({"kind": "layers", "count": 2})";
    const std::string schedule =
        is_sharded
            ? fmt::format(R"({{"pipeline": "sharded", "fusion": {}, "prefetch": {}, "kept_groups": {}}})",
                          fusion, random.below(3),
                          std::min<std::size_t>(random.below(4), support::fuse(fusion, scene).size()))
        : drops ? fmt::format(R"({{"pipeline": "zero", "stage": 2, "overlap_gather": false, "fusion": {}}})",
                              fusion)
                : fmt::format(R"({{"pipeline": "wfbp", "fusion": {}}})", fusion);
    CAPTURE(schedule);
    const Run run = scene.run(schedule_of(schedule));
    const Memory memory = memory_of(scene.setting, run, run.timeline);
    const Oracle oracle(scene, run);
    std::int64_t most = 0;
    for (std::size_t i = 0; i < memory.points.size(); ++i) {
      const MemoryPoint& point = memory.points[i];
      if (i > 0) CHECK(memory.points[i - 1].at < point.at);
      CHECK(part(point, MemoryPart::gathered) == oracle.gathered(point.at));
      CHECK(part(point, MemoryPart::activations) == oracle.activations(point.at));
      CHECK(part(point, MemoryPart::gradients) == oracle.gradients(point.at, drops));
      most = std::max(most, total(point.bytes));
    }
    CHECK(most == total(memory.peak.bytes));
    // between two changes nothing changes: every end of a task is looked at as well
    for (const sim::Span& span : run.timeline.spans) {
      const auto after = std::upper_bound(memory.points.begin(), memory.points.end(), span.end,
                                          [](Time at, const MemoryPoint& point) { return at < point.at; });
      CHECK(part(*std::prev(after), MemoryPart::gathered) == oracle.gathered(span.end));
      CHECK(part(*std::prev(after), MemoryPart::gradients) == oracle.gradients(span.end, drops));
    }
    CHECK(part(memory.points.back(), MemoryPart::gathered) == 0);
    CHECK(part(memory.points.back(), MemoryPart::gradients) == 0);
  }
}

}  // namespace
}  // namespace planner
