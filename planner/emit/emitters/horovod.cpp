// Horovod's DistributedOptimizer. Explicit groups are negotiated as a whole; with
// HOROVOD_DISABLE_GROUP_FUSION=1 each is fused separately, still within the threshold
// (horovod/common/controller.cc, ComputeResponseList and FuseResponses). Without groups it adds the gradients
// that are ready at the tick, in order, while the sum stays within HOROVOD_FUSION_THRESHOLD bytes. On GPUs
// each gradient counts in multiples of 16 bytes, and the threshold is rounded up to 512 bytes times the
// processes per node (TensorFusionThresholdBytes).

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "planner/emit/emitters/gradient_types.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;
using sim::Time;

constexpr std::int64_t kPadding = 16;
constexpr std::int64_t kMiB = 1 << 20;
/// Multiples of this threshold are not rounded with up to 16 processes per node.
constexpr std::int64_t kThresholdUnit = std::int64_t{512} * 16;
constexpr Time kDefaultCycle = std::chrono::milliseconds(1);

Behaviour behaves(const PlanFile& /*plan*/, const Workload& /*workload*/) {
  return all_reduces("one all-reduce for each group, under backward, at the tick after its last gradient");
}

/// Gradients are compressed before Horovod counts them, so these are bytes that are sent.
Sizes padded(Sizes out) {
  for (std::int64_t& size : out) size = (size + kPadding - 1) / kPadding * kPadding;
  return out;
}

Time tick_of(Time ready, Time cycle) {
  return (ready / cycle + (ready % cycle == Time::zero() ? 0 : 1)) * cycle;
}

std::vector<Time> ticks_of(const Workload& workload, Time cycle) {
  std::vector<Time> out;
  for (const Gradient& gradient : workload.gradients) out.push_back(tick_of(gradient.ready, cycle));
  return out;
}

/// Explicit groups, each issued at the first tick after its last gradient is ready.
Groups on_ticks(const Workload& workload, const Groups& groups, Time cycle) {
  Groups out = in_order(groups);
  for (Group& group : out) group.tick = tick_of(workload.gradients[group.end - 1].ready, cycle);
  return out;
}

Groups on_own_ticks(const Workload& workload, const Groups& groups) {
  return on_ticks(workload, groups, kDefaultCycle);
}

bool has_ticks(const Groups& groups) {
  return std::ranges::any_of(groups, [](const Group& group) { return group.tick > Time::zero(); });
}

/// Horovod's own cycle, unless the plan issues its groups on the ticks of another: then the longest such.
Time cycle_of(const Workload& workload, const Groups& groups) {
  if (!has_ticks(groups) || on_own_ticks(workload, groups) == in_order(groups)) return kDefaultCycle;
  std::int64_t cycle = 0;
  for (const Group& group : groups) cycle = std::gcd(cycle, group.tick.count());
  return Time(cycle);
}

const Target& target() {
  static const Target target = {
      .name = "horovod",
      .framework = "Horovod",
      .behaves = behaves,
      .read_only = {"Horovod at 2626dc87."},
      .does_not = {"compress, unless DistributedOptimizer is given compression=hvd.Compression.fp16."},
      .issued = on_own_ticks};
  return target;
}

/// The threshold in whole MiB that holds the largest group.
std::int64_t threshold_for(const Sizes& padded, const Groups& groups) {
  std::int64_t max = 0;
  for (const Group& group : groups)
    max = std::max(
        max, std::accumulate(padded.begin() + group.begin, padded.begin() + group.end, std::int64_t{0}));
  return (max + kMiB - 1) / kMiB * kMiB;
}

std::string milliseconds(Time cycle) { return fmt::format("{}", static_cast<double>(cycle.count()) / 1e9); }

std::string environment(std::int64_t threshold, Time cycle) {
  return fmt::format(
      "#   HOROVOD_DISABLE_GROUP_FUSION=1\n"
      "#   HOROVOD_FUSION_THRESHOLD={}  # bytes; the largest group must fit\n"
      "#   HOROVOD_CYCLE_TIME={}  # ms, {}\n",
      threshold, milliseconds(cycle), cycle == kDefaultCycle ? "Horovod's default" : "as in the plan");
}

/// The arguments of DistributedOptimizer that a plan without micro-batches or conversions does not need.
std::string more_arguments(const EmitRequest& request, const GradientTypes& types) {
  std::string out;
  if (request.accumulation_steps > 1)
    out += fmt::format(",\n    backward_passes_per_step={}", request.accumulation_steps);
  if (types.converts() && types.sent == core::Dtype::float16)
    out += ",\n    compression=hvd.Compression.fp16";
  return out;
}

void note_conversion(Report& report, const GradientTypes& types) {
  report.note(types.sent == core::Dtype::float16
                  ? std::string("Converting gradients to float16 and back is not priced.")
                  : fmt::format("Horovod has no compression to {}: this holds for parameters of that type.",
                                core::name(types.sent)));
}

std::string python(const EmitRequest& request, const Groups& groups, const GradientTypes& types) {
  std::string out =
      "import horovod.torch as hvd\n"
      "\n"
      "parameters = dict(model.named_parameters())\n"
      "groups = [[parameters[name] for name in names] for names in [\n";
  for (const Group& group : groups)
    out += fmt::format("    {},\n", list_in_quotes(tensor_names(request.workload, group)));
  return out + fmt::format(
                   "]]\n"
                   "optimizer = hvd.DistributedOptimizer(\n"
                   "    optimizer, named_parameters=model.named_parameters(), groups=groups{})  # lists: "
                   "after 0.21\n",
                   more_arguments(request, types));
}

struct BestThreshold {
  BestCap cap;
  std::int64_t bytes = 0;
};

BestThreshold best_threshold(Report& report, const Sizes& bytes, Time cycle) {
  const Sizes padded_bytes = padded(bytes);
  const Workload& workload = report.request().workload;
  const std::vector<Time> ticks = ticks_of(workload, cycle);
  BestThreshold best;
  best.cap = best_cap([&](std::int64_t cap) { return add_within(padded_bytes, cap, ticks); },
                      [&](const Groups& groups) { return report.iteration_us(groups); });
  best.bytes = roundest(best.cap.min, best.cap.max > 0 ? best.cap.max : 2 * best.cap.min, 2);
  if (best.bytes % kThresholdUnit != 0)
    report.note(fmt::format("Horovod rounds the threshold {} up to 512 bytes times the processes of a node.",
                            best.bytes));
  if (add_within(bytes, best.bytes, ticks).groups != best.cap.groups)
    report.note(
        fmt::format("On CPUs, where nothing is padded, the threshold {} makes other groups.", best.bytes));
  return best;
}

Emission emit_horovod(const EmitRequest& request) {
  Report report(target(), request);
  const Time cycle = cycle_of(request.workload, request.groups);
  const core::Dtype dtype = request.workload.profile->dtype;
  const GradientTypes types = gradient_types(request.types, dtype);
  const Sizes bytes = gradient_bytes_in(types.sent, request.workload);
  if (const std::string note = types_note("Horovod", types, dtype); !note.empty()) report.note(note);
  if (types.converts()) note_conversion(report, types);
  if (request.accumulation_steps > 1)
    report.note("backward_passes_per_step counts calls of backward() before each step().");
  const Groups groups = on_ticks(request.workload, request.groups, cycle);
  // a plan without ticks leaves to Horovod when its groups are issued
  report.made(has_ticks(request.groups) ? groups : in_order(request.groups), report.iteration_us(groups));
  const std::int64_t threshold = threshold_for(padded(bytes), groups);
  const BestThreshold best = best_threshold(report, bytes, cycle);
  const ordered_json best_json = report.best_cost("HOROVOD_FUSION_THRESHOLD", best.bytes, best.cap);
  ordered_json specific = {{"HOROVOD_DISABLE_GROUP_FUSION", 1},
                           {"HOROVOD_FUSION_THRESHOLD", threshold},
                           {"cycle_ms", static_cast<double>(cycle.count()) / 1e9}};
  const std::string text =
      report.heading() + "# environment of every worker:\n" + environment(threshold, cycle) +
      python(request, groups, types) +
      fmt::format("#\n# Without groups, HOROVOD_FUSION_THRESHOLD={} does best:\n# {}\n# ({})\n", best.bytes,
                  Report::cost_text(best_json), Report::tried_text(best.cap));
  specific["best_single_cap"] = best_json;
  return {.text = text + report.remarks(), .json = report.json(specific)};
}

}  // namespace

Emitter horovod_emitter() {
  return {"horovod", "Horovod DistributedOptimizer: groups", emit_horovod, target};
}

}  // namespace planner
