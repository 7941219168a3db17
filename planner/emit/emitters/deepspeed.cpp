// DeepSpeed, ZeRO stages 1 and 2. Gradients are collected as they become ready; the bucket is reduced before
// another gradient would exceed reduce_bucket_size elements, so a larger gradient is reduced alone
// (deepspeed/runtime/zero/stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads). With
// use_multi_rank_bucket_allreduce, the default, a bucket is all-reduced whole, and with overlap_comm the
// compute stream first waits for the buckets before it (average_tensor). After the step one collective
// gathers the parameters of each parameter group (runtime/utils.py, all_gather_dp_groups). Stage 2 reduces in
// each micro-batch and waits for that at its end (reduce_ready_partitions_and_remove_grads,
// independent_gradient_partition_epilogue).

#include <cstdint>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/emit/emitters/one_number.hpp"

namespace planner {
namespace {

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("wfbp").program(groups, options);
  program.one_in_flight = true;
  program.reduces_each_batch = options.stage == 2;
  return program;
}

const Pipeline kOverlapComm = {.name = "deepspeed",
                               .summary = "as wfbp, while backward waits for the bucket before",
                               .option_keys = {},
                               .program = program};

std::string words(bool overlaps, std::int64_t stage) {
  if (!overlaps)
    return "backward waits for the all-reduce of each bucket; one all-gather of all parameters follows the "
           "step";
  if (stage == 2)
    return "a bucket is all-reduced when the first gradient of the next one is there, and backward then "
           "waits "
           "for the bucket before it; where there are several micro-batches each does so, and the next one "
           "waits for all of them; one all-gather of all parameters follows the step";
  return "a bucket is all-reduced when the first gradient of the next one is there, and backward then waits "
         "for the bucket before it; one all-gather of all parameters follows the step";
}

Behaviour behaves(const PlanFile& plan, const Workload& /*workload*/) {
  if (plan.pipeline == "sharded")
    throw core::InputError(
        "--emit, --for: expected fsdp for a plan of pipeline sharded, as it is not known what stage 3 of "
        "DeepSpeed makes of a plan, got 'deepspeed'");
  const bool overlaps = plan.pipeline != "after_backward";
  const std::int64_t stage = plan.pipeline == "zero" ? plan.options.stage : 1;
  return {.pipeline = overlaps ? &kOverlapComm : &pipeline("after_backward"),
          .options = {.stage = stage},
          .compresses = false,
          .gathers_at_once = true,
          .words = words(overlaps, stage)};
}

CapRule rule(const Workload& workload, const Behaviour& /*behaviour*/, const DataTypes& /*types*/) {
  return [elements = gradient_elements(workload)](std::int64_t cap) { return add_within(elements, cap); };
}

const Target& target() {
  static const Target target = {
      .name = "deepspeed",
      .framework = "DeepSpeed",
      .behaves = behaves,
      .verified =
          {"DeepSpeed 0.19.8 ran these collectives, when and in the micro-batch that is said, read back "
           "from two ranks on CPUs."},
      .read_only = {"what waits for what on a GPU, in 0.19.6 (edaa7221)."},
      .does_not =
          {"reduce-scatter gradients, unless \"use_multi_rank_bucket_allreduce\" is False: then it "
           "reduces each owner's part by itself, which is not priced.",
           "use allgather_bucket_size where PyTorch has all_gather_into_tensor (1.13 or later).",
           "overlap the all-gather of parameters with the next forward pass.",
           "send a gradient that is larger than the bucket in one piece: it is cut between workers' parts, "
           "which is not priced."},
      .forms = Forms::one_number,
      .rule = rule};
  return target;
}

std::string_view type_name(core::Dtype dtype) {
  switch (dtype) {
    case core::Dtype::float32: return "fp32";
    case core::Dtype::float16: return "fp16";
    case core::Dtype::bfloat16: return "bf16";
  }
  return "fp32";
}

std::string text(std::int64_t number, std::int64_t stage, const EmitRequest& request) {
  return fmt::format(
      "ds_config = {{\n"
      "    \"zero_optimization\": {{\n"
      "        \"stage\": {},\n"
      "        \"overlap_comm\": {},\n"
      "        \"contiguous_gradients\": True,\n"
      "        \"reduce_bucket_size\": {},  # elements\n"
      "    }},\n"
      "    \"communication_data_type\": \"{}\",\n"
      "{}"
      "}}\n",
      stage, request.plan.pipeline == "after_backward" ? "False" : "True", number,
      type_name(request.reduce_type()),
      request.accumulation_steps > 1
          ? fmt::format("    \"gradient_accumulation_steps\": {},\n", request.accumulation_steps)
          : "");
}

/// The stage of a plan of `zero`; of others stage 2, or stage 1 where it reduces less often.
std::int64_t stage_of(const EmitRequest& request) {
  const bool accumulates = request.accumulation_steps > 1;
  if (request.plan.pipeline != "zero") return accumulates ? 1 : 2;
  return request.plan.options.stage;
}

Emission emit_deepspeed(const EmitRequest& request) {
  const std::int64_t stage = stage_of(request);
  Report report(target(), request);
  report.note("DeepSpeed takes one number for all groups.");
  note_gather_type(report, "DeepSpeed");
  if (request.accumulation_steps > 1)
    report.note(fmt::format("Stage 2 {} in each of the {} micro-batches; stage 1 {} in the last.",
                            stage == 2 ? "reduces" : "would reduce", request.accumulation_steps,
                            stage == 2 ? "would" : "does"));
  const Sizes elements = gradient_elements(request.workload);
  return emit_one_number(
      report, {.key = "reduce_bucket_size",
               .rule = rule(request.workload, report.behaviour(), request.types),
               .text = [&](std::int64_t number) {
                 const auto cut =
                     std::ranges::count_if(elements, [&](std::int64_t each) { return each > number; });
                 if (cut > 0)
                   report.note(fmt::format(
                       "{} of the {} gradients {} larger than that bucket: DeepSpeed cuts {}, and "
                       "the price and the groups are those of whole ones.",
                       cut, elements.size(), cut == 1 ? "is" : "are", cut == 1 ? "it" : "them"));
                 return text(number, stage, request);
               }});
}

}  // namespace

Emitter deepspeed_emitter() {
  return {"deepspeed", "DeepSpeed ZeRO: reduce_bucket_size", emit_deepspeed, target};
}

}  // namespace planner
