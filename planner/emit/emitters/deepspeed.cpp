// DeepSpeed, ZeRO stages 1 and 2. Gradients are collected as they become ready; the bucket is reduced before
// another gradient would exceed reduce_bucket_size elements, so a larger gradient is reduced alone
// (deepspeed/runtime/zero/stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads).
// allgather_bucket_size splits the updated partitions into gathers; these follow neither tensors nor groups.

#include <fmt/format.h>

#include "planner/emit/emitters/one_number.hpp"

namespace planner {
namespace {

std::string text(std::int64_t number, bool overlaps) {
  return fmt::format(
      "ds_config = {{\n"
      "    \"zero_optimization\": {{\n"
      "        \"stage\": 2,\n"
      "        \"overlap_comm\": {},\n"
      "        \"contiguous_gradients\": True,\n"
      "        \"reduce_bucket_size\": {},  # elements\n"
      "        \"allgather_bucket_size\": {},\n"
      "    }},\n"
      "}}\n",
      overlaps ? "True" : "False", number, number);
}

Emission emit_deepspeed(const EmitRequest& request) {
  Report report("deepspeed", request);
  const bool is_zero = request.plan.pipeline == "zero";
  const bool overlaps = request.plan.pipeline != "after_backward";
  report.note("DeepSpeed takes one number for all groups.");
  if (!is_zero)
    report.note(
        fmt::format("ZeRO reduces each gradient to its owner and gathers parameters after the update; the "
                    "times are of pipeline {}.",
                    request.plan.pipeline));
  const Sizes elements = gradient_elements(request.workload);
  return emit_one_number(report, {.framework = "DeepSpeed",
                                  .key = "reduce_bucket_size",
                                  .rule = [&](std::int64_t cap) { return add_within(elements, cap); },
                                  .text = [&](std::int64_t number) { return text(number, overlaps); }});
}

}  // namespace

Emitter deepspeed_emitter() { return {"deepspeed", "DeepSpeed ZeRO: reduce_bucket_size", emit_deepspeed}; }

}  // namespace planner
