// Megatron-LM's DistributedDataParallel. A bucket takes the next parameter, in reverse order, then closes
// when it holds bucket_size elements or more; with the distributed optimizer every parameter starts at a
// multiple of 64 elements (megatron/core/distributed/param_and_grad_buffer.py). This requires
// --overlap-grad-reduce; the default is max(40000000, 1000000 times the data-parallel workers) elements
// (megatron/core/distributed/distributed_data_parallel.py).

#include <fmt/format.h>

#include "planner/emit/emitters/one_number.hpp"

namespace planner {
namespace {

constexpr std::int64_t kAlignment = 64;

std::string text(std::int64_t number, const PlanFile& plan) {
  std::string options = "--overlap-grad-reduce ";
  if (plan.pipeline == "zero") options += "--use-distributed-optimizer ";
  if (plan.pipeline == "zero" && plan.options.overlap_gather) options += "--overlap-param-gather ";
  return fmt::format("{}--ddp-bucket-size {}\n", options, number);
}

/// Communication after backward uses one bucket, whatever the number.
Emission one_bucket(Report& report) {
  report.made({{.begin = 0, .end = report.request().workload.gradient_count()}});
  return {.text = report.heading("Megatron-LM") +
                  "# no option: without --overlap-grad-reduce there is one bucket\n" + report.remarks(),
          .json = report.json(nlohmann::ordered_json::object())};
}

Emission emit_megatron(const EmitRequest& request) {
  Report report("megatron", request);
  if (request.plan.pipeline == "after_backward") return one_bucket(report);
  report.note("Megatron-LM takes one number for all groups; only the first pipeline stage has buckets.");
  report.note("With the distributed optimizer tied embeddings get a bucket of their own.");
  const Sizes elements = gradient_elements(request.workload);
  const std::int64_t alignment = request.plan.pipeline == "zero" ? kAlignment : 1;
  return emit_one_number(report,
                         {.framework = "Megatron-LM",
                          .key = "ddp_bucket_size",
                          .rule = [&](std::int64_t cap) { return close_at(elements, cap, {}, alignment); },
                          .text = [&](std::int64_t number) { return text(number, request.plan); }});
}

}  // namespace

Emitter megatron_emitter() { return {"megatron", "Megatron-LM: --ddp-bucket-size", emit_megatron}; }

}  // namespace planner
