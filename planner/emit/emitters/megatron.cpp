// Megatron-LM's DistributedDataParallel. A bucket takes the next parameter, in reverse order, then closes
// when it holds bucket_size elements or more; with the distributed optimizer every parameter starts at a
// multiple of 64 elements (megatron/core/distributed/param_and_grad_buffer.py). This requires
// --overlap-grad-reduce; the default is max(40000000, 1000000 times the data-parallel workers) elements
// (megatron/core/distributed/distributed_data_parallel.py). --ddp-num-buckets n stands for the number of
// parameters divided by n, without the rest. The gather of a bucket is issued when forward has waited for the
// one before it (finish_param_sync).

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "planner/emit/emitters/one_number.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kBridgeDefault = std::int64_t{128} << 20;

bool is_sharded(const PlanFile& plan) {
  return plan.pipeline == "zero" || plan.pipeline == "dear" || plan.pipeline == "sharded";
}

bool overlaps_gather(const PlanFile& plan) { return is_sharded(plan) && plan.options.overlap_gather; }

Behaviour behaves(const PlanFile& plan, const Workload& /*workload*/) {
  Behaviour out = {.pipeline = &pipeline(is_sharded(plan) ? "zero" : "wfbp"),
                   .words = "one all-reduce for each bucket, under backward"};
  if (plan.pipeline == "after_backward") {
    out.pipeline = &pipeline("after_backward");
    out.words = "one all-reduce after backward";
  } else if (overlaps_gather(plan)) {
    out.options.prefetch = 1;
    out.words =
        "a reduce-scatter for each bucket under backward; under the next forward pass an all-gather for "
        "each, issued when forward has waited for the one before it";
  } else if (is_sharded(plan)) {
    out.options.overlap_gather = false;
    out.words = "a reduce-scatter for each bucket under backward, an all-gather for each after the step";
  }
  return out;
}

/// The buckets of a buffer. Without overlap there is one, whatever the number.
CapRule rule_of_buffer(Sizes elements, const Behaviour& behaviour) {
  if (behaviour.pipeline->name == "after_backward")
    return [all = static_cast<std::uint32_t>(elements.size())](std::int64_t) {
      return Capped{.groups = {{.begin = 0, .end = all}}};
    };
  const std::int64_t alignment = behaviour.pipeline->name == "zero" ? kAlignment : 1;
  return [elements = std::move(elements), alignment](std::int64_t cap) {
    return close_at(elements, cap, {}, alignment);
  };
}

CapRule rule(const Workload& workload, const Behaviour& behaviour, const DataTypes& /*types*/) {
  return rule_of_buffer(gradient_elements(workload), behaviour);
}

/// Experts have a buffer of their own, and the same number.
CapRule rule_of_job(const EmitRequest& request, const Behaviour& behaviour) {
  const std::uint32_t dense = request.division != nullptr ? request.division->dense_gradients : 0;
  if (dense == 0) return rule(request.workload, behaviour, request.types);
  const Sizes all = gradient_elements(request.workload);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(dense);
  return [dense, of_dense = rule_of_buffer({all.begin(), middle}, behaviour),
          of_experts = rule_of_buffer({middle, all.end()}, behaviour)](std::int64_t cap) {
    Capped out = of_dense(cap);
    const Capped experts = of_experts(cap);
    for (const Group& group : experts.groups)
      out.groups.push_back({.begin = group.begin + dense, .end = group.end + dense});
    if (out.next_cap == 0 || (experts.next_cap > 0 && experts.next_cap < out.next_cap))
      out.next_cap = experts.next_cap;
    return out;
  };
}

/// The workers of which Megatron-LM makes its default number: those that sum the gradients of no expert.
std::int64_t data_workers(const EmitRequest& request) {
  return request.division != nullptr ? request.division->data : request.plan.workers;
}

const Target& target() {
  static const Target target = {
      .name = "megatron",
      .framework = "Megatron-LM",
      .behaves = behaves,
      .verified = {"megatron-core 0.16.1 made the buckets, and ran these collectives when it is said, on a "
                   "CPU."},
      .read_only = {"streams and options, of Megatron-LM at d98e8a64 and Megatron-Bridge at 067f987d."},
      .does_not = {"have buckets in any pipeline stage but the first.",
                   "reduce gradients of a bfloat16 job in bfloat16 without --grad-reduce-in-bf16.",
                   "keep tied embeddings in the buckets of others with the distributed optimizer."},
      .forms = Forms::one_number,
      .rule = rule};
  return target;
}

/// The option for the type in which gradients are reduced: by default that of the parameters, but float32 in
/// a job of bfloat16.
std::string_view reduce_option(const EmitRequest& request) {
  const bool is_fp16 = request.workload.profile->dtype == core::Dtype::float16;
  if (request.reduce_type() == core::Dtype::bfloat16) return is_fp16 ? "" : "--grad-reduce-in-bf16 ";
  if (request.reduce_type() == core::Dtype::float32 && is_fp16)
    return "--accumulate-allreduce-grads-in-fp32 ";
  return "";
}

/// What a job of the profile's type cannot do, if the plan reduces in such a type; otherwise empty.
std::string type_note(const EmitRequest& request) {
  const core::Dtype job = request.workload.profile->dtype;
  const core::Dtype reduced = request.reduce_type();
  if (reduced == job || reduced == core::Dtype::float32) return "";
  return fmt::format("Megatron-LM reduces gradients in {0} only of a job of {0}; the profile is of {1}.",
                     core::name(reduced), core::name(job));
}

std::string text(std::string_view number, const EmitRequest& request) {
  return fmt::format(
      "--overlap-grad-reduce {}{}{}{}\n", is_sharded(request.plan) ? "--use-distributed-optimizer " : "",
      overlaps_gather(request.plan) ? "--overlap-param-gather " : "", reduce_option(request), number);
}

/// Communication after backward uses one bucket, whatever the number.
Emission one_bucket(Report& report) {
  report.made(rule_of_job(report.request(), report.behaviour())(1).groups);
  return {.text = report.heading() + "# no option: without --overlap-grad-reduce there is one bucket\n" +
                  report.remarks(),
          .json = report.json(ordered_json::object())};
}

/// The best value of --ddp-num-buckets, with its cost.
ordered_json best_count(const Report& report, const CapRule& rule) {
  const Workload& workload = report.request().workload;
  const Sizes elements = gradient_elements(workload);
  const Division* division = report.request().division;  // then the option divides the first stage
  const std::int64_t all = division != nullptr
                               ? division->stage_elements
                               : std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
  constexpr std::int64_t kMaxTried = 1000;
  const std::int64_t max = std::min<std::int64_t>({workload.gradient_count(), all, kMaxTried});
  std::pair<std::int64_t, Groups> best;
  double best_us = 0;
  for (std::int64_t count = 1; count <= max; ++count) {
    Groups groups = rule(all / count).groups;
    if (groups == best.second) continue;
    const double us = report.iteration_us(groups);
    if (best.first > 0 && us >= best_us) continue;
    best = {count, std::move(groups)};
    best_us = us;
  }
  ordered_json out = {{"ddp_num_buckets", best.first}};
  out.update(report.cost(best.second, best_us));
  return out;
}

/// The cost of what users have who set nothing.
ordered_json default_cost(const Report& report, const CapRule& rule, std::int64_t elements) {
  ordered_json out = {{"elements", elements}};
  out.update(report.cost(rule(elements).groups));
  return out;
}

Emission emit_megatron(const EmitRequest& request) {
  Report report(target(), request);
  if (request.plan.pipeline == "after_backward") return one_bucket(report);
  const bool has_experts = request.division != nullptr && request.division->dense_gradients > 0;
  report.note(has_experts ? "Megatron-LM takes one number for all groups, those of experts and all others."
                          : "Megatron-LM takes one number for all groups.");
  if (const std::string note = type_note(request); !note.empty()) report.note(note);
  if (is_sharded(request.plan)) note_gather_type(report, "Megatron-LM");
  const CapRule by_size = rule_of_job(request, report.behaviour());
  const ordered_json by_count = best_count(report, by_size);
  const std::int64_t usual = std::max<std::int64_t>(40'000'000, 1'000'000 * data_workers(request));
  const ordered_json megatron = default_cost(report, by_size, usual);
  const ordered_json bridge = default_cost(report, by_size, kBridgeDefault);
  const std::string others = fmt::format(
      "# or {}# makes {}\n"
      "# The default of Megatron-LM, {} elements, makes {}\n"
      "# The default of Megatron-Bridge, {} elements, makes {}\n",
      text(fmt::format("--ddp-num-buckets {}", by_count["ddp_num_buckets"].get<std::int64_t>()), request),
      Report::cost_text(by_count), usual, Report::cost_text(megatron), kBridgeDefault,
      Report::cost_text(bridge));
  Emission out =
      emit_one_number(report, {.key = "ddp_bucket_size", .rule = by_size, .text = [&](std::int64_t number) {
                                 return text(fmt::format("--ddp-bucket-size {}", number), request) + others;
                               }});
  out.json["best_num_buckets"] = by_count;
  out.json["at_defaults"] = {{"megatron_lm", megatron}, {"megatron_bridge", bridge}};
  return out;
}

}  // namespace

Emitter megatron_emitter() { return {"megatron", "Megatron-LM: --ddp-bucket-size", emit_megatron, target}; }

}  // namespace planner
