#include "planner/parallel/parallel.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/limits.hpp"
#include "planner/parallel/passes.hpp"
#include "planner/parallel/slots.hpp"

namespace planner {
namespace {

using core::Field;

std::int64_t count_at(const Field& field, std::string_view key, std::int64_t max) {
  const auto found = field.find(key);
  return found ? found->integer(1, max) : 1;
}

double time_at(const Field& field, std::string_view key) {
  const auto found = field.find(key);
  return found ? found->number(0, core::kMaxTimeUs) : 0;
}

void read_virtual_stages(const Field& field, std::int64_t pipeline, Stages& stages) {
  const auto count = field.find("virtual_stages");
  if (stages.order != StageOrder::interleaved) {
    if (count) count->expected("no virtual_stages, as only interleaved has several parts in each stage");
    return;
  }
  stages.virtual_stages = field.at("virtual_stages").integer(2, kMaxStages);
  if (pipeline < 2) field.at("schedule").expected("1f1b with a single stage");
  if (stages.micro_batches % pipeline != 0)
    field.at("micro_batches")
        .expected(fmt::format("a multiple of the {} stages, as interleaved needs", pipeline));
}

/// By StageOrder; that of listed passes has no name.
constexpr std::array<std::string_view, 4> kOrders = {"1f1b", "interleaved", "gpipe", "zb-h1"};
/// By StageOverlap.
constexpr std::array<std::string_view, 3> kOverlaps = {"first_stage", "all_stages", "none"};

template <typename Enum, std::size_t count>
Enum one_of(const Field& field, const std::array<std::string_view, count>& names) {
  return static_cast<Enum>(std::ranges::find(names, field.one_of(names)) - names.begin());
}

void read_order(const Field& field, std::int64_t pipeline, Stages& stages) {
  if (const auto passes = field.find("passes")) {
    for (const std::string_view key : {"schedule", "micro_batches", "virtual_stages"})
      if (const auto other = field.find(key))
        other->expected(fmt::format("no {} beside passes, which tell it", key), "one");
    read_passes(*passes, pipeline, stages);
  } else {
    if (!field.has("schedule")) field.expected("a schedule or passes", "neither");
    stages.order = one_of<StageOrder>(field.at("schedule"), kOrders);
    stages.micro_batches = field.at("micro_batches").integer(1, kMaxMicroBatches);
    read_virtual_stages(field, pipeline, stages);
  }
  if (const auto share = field.find("weight_share")) {
    const bool has_halves = std::ranges::any_of(stages.passes, [](const std::vector<Slot>& passes) {
      return std::ranges::find(passes, PassKind::input_gradients, &Slot::kind) != passes.end();
    });
    if (stages.order != StageOrder::zero_bubble && !has_halves)
      share->expected("no weight_share without passes for input gradients, as of zb-h1", "one");
    stages.weight_share = share->number(0, 1);
  }
}

Stages read_stages(const Field& field, std::int64_t pipeline) {
  field.allow_only({"schedule", "passes", "micro_batches", "virtual_stages", "weight_share", "p2p_us",
                    "forward_us", "backward_us", "layers", "overlap"});
  Stages out;
  read_order(field, pipeline, out);
  out.p2p_us = time_at(field, "p2p_us");
  if (field.has("forward_us") || field.has("backward_us")) {
    out.forward_us = field.at("forward_us").number(0, core::kMaxTimeUs);
    out.backward_us = field.at("backward_us").number(0, core::kMaxTimeUs);
  }
  if (const auto overlap = field.find("overlap")) out.overlap = one_of<StageOverlap>(*overlap, kOverlaps);
  if (const auto layers = field.find("layers")) {
    for (const Field& item : layers->non_empty_items())
      out.layers.push_back(item.integer(1, core::kMaxElements));
    const std::int64_t parts = pipeline * out.virtual_stages;
    if (static_cast<std::int64_t>(out.layers.size()) != parts)
      layers->expected(fmt::format("the numbers of layers of {} parts", parts),
                       fmt::format("{}", out.layers.size()));
  }
  return out;
}

/// The network between a worker of the first stage and one of the last: the level that joins all stages.
core::Network between_ends(const core::Network& network, std::int64_t workers, std::int64_t pipeline) {
  core::Network out = as_seen_by(network, {.stride = workers / pipeline, .size = pipeline});
  if (out.levels.empty()) return out;
  std::size_t at = 0;
  for (std::int64_t joined = 1; out.levels[at].size; ++at) {
    joined *= *out.levels[at].size;
    if (joined >= pipeline) break;
  }
  if (at > 0) out.measured.clear();  // inside a node
  core::Level level = out.levels[at];
  level.size.reset();
  out.levels = {std::move(level)};
  return out;
}

}  // namespace

Parallel read_parallel(const Field& field) {
  field.allow_only({"tensor", "pipeline", "expert", "data", "expert_tensors", "tied_tensors", "stages"});
  Parallel out = {.tensor = count_at(field, "tensor", core::kMaxWorkers),
                  .expert = count_at(field, "expert", core::kMaxWorkers),
                  .pipeline = count_at(field, "pipeline", kMaxStages)};
  if (const auto data = field.find("data")) out.data = data->integer(1, core::kMaxWorkers);
  if (out.data && *out.data % out.expert != 0)
    field.at("expert").expected(fmt::format("a divisor of the {} workers of a data group", *out.data));
  if (const auto names = field.find("expert_tensors")) {
    if (out.expert == 1) names->expected("no expert_tensors without the key expert");
    for (const Field& item : names->non_empty_items()) out.expert_tensors.push_back(item.name());
  }
  if (const auto tied = field.find("tied_tensors")) {
    if (out.pipeline == 1) tied->expected("no tied_tensors with a single stage");
    for (const Field& item : tied->non_empty_items()) {
      item.allow_only({"tensor", "layer"});
      TiedTensor next = {.tensor = item.at("tensor").name(), .layer = item.at("layer").name()};
      if (std::ranges::any_of(out.tied_tensors,
                              [&](const TiedTensor& each) { return each.tensor == next.tensor; }))
        item.at("tensor").expected("a tensor that is listed once");
      out.tied_tensors.push_back(std::move(next));
    }
  }
  if (out.pipeline > 1)
    out.stages = read_stages(field.at("stages"), out.pipeline);
  else if (const auto stages = field.find("stages"))
    out.stages = read_stages(*stages, out.pipeline);
  if (!out.tied_tensors.empty() && out.stage_of(out.parts() - 1) != out.pipeline - 1)
    field.at("tied_tensors").expected("no tied_tensors unless the last stage has the last part", "some");
  return out;
}

bool Parallel::divides_backward() const {
  if (stages.order != StageOrder::zero_bubble && stages.order != StageOrder::listed) return false;
  for (std::int64_t stage = 0; stage < pipeline; ++stage)
    if (const std::vector<Slot> slots = slots_of(stages, pipeline, stage);
        std::ranges::find(slots, PassKind::input_gradients, &Slot::kind) != slots.end())
      return true;
  return false;
}

StageOverlap Parallel::overlap(bool is_sharded) const {
  if (stages.overlap) return *stages.overlap;
  if (is_sharded && pipeline > 1) return StageOverlap::none;
  const bool is_of_megatron =
      stages.order == StageOrder::one_f_one_b || stages.order == StageOrder::interleaved;
  return is_of_megatron ? StageOverlap::first_stage : StageOverlap::all_stages;
}

bool Parallel::sends_under_backward(std::int64_t stage, bool is_sharded) const {
  switch (overlap(is_sharded)) {
    case StageOverlap::first_stage: return stage == 0 && stages.order != StageOrder::interleaved;
    case StageOverlap::all_stages: return true;
    case StageOverlap::none: return false;
  }
  return false;
}

std::vector<std::int64_t> Parallel::parts_on(std::int64_t stage) const {
  std::vector<std::int64_t> out;
  if (stages.stage_of_part.empty())
    for (std::int64_t part = stage; part < parts(); part += pipeline) out.push_back(part);
  for (std::size_t part = 0; part < stages.stage_of_part.size(); ++part)
    if (stages.stage_of_part[part] == stage) out.push_back(static_cast<std::int64_t>(part));
  return out;
}

void check_workers(const Parallel& parallel, std::int64_t workers) {
  const std::int64_t others = parallel.tensor * parallel.pipeline;
  if (workers % others != 0)
    throw core::Unsupported(fmt::format("a multiple of {} workers, tensor {} times pipeline {}", others,
                                        parallel.tensor, parallel.pipeline),
                            fmt::to_string(workers));
  const std::int64_t data = workers / others;
  if (parallel.data && *parallel.data != data)
    throw core::Unsupported(
        fmt::format("{} workers, the product of tensor, pipeline and data", others * *parallel.data),
        fmt::to_string(workers));
  if (data % parallel.expert != 0)
    throw core::Unsupported(
        fmt::format("data groups of a multiple of the {} workers of an expert group", parallel.expert),
        fmt::to_string(data));
}

ProcessGroups process_groups(const Parallel& parallel, const core::Network& network, std::int64_t workers) {
  check_workers(parallel, workers);
  const std::int64_t data = workers / (parallel.tensor * parallel.pipeline);
  const auto group = [&](std::int64_t stride) -> ProcessGroup {
    const std::int64_t size = data * parallel.tensor / stride;
    return {.workers = size, .network = as_seen_by(network, {.stride = stride, .size = size})};
  };
  ProcessGroups out = {.dense = group(parallel.tensor), .expert = group(parallel.tensor * parallel.expert)};
  if (!parallel.tied_tensors.empty())
    out.tied = {.workers = 2, .network = between_ends(network, workers, parallel.pipeline)};
  return out;
}

}  // namespace planner
