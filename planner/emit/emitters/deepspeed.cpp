// DeepSpeed's ZeRO. In stages 1 and 2 gradients are collected as they become ready; the bucket is reduced
// before another gradient would exceed reduce_bucket_size elements, so a larger gradient is reduced alone
// (deepspeed/runtime/zero/stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads). With
// use_multi_rank_bucket_allreduce, the default, a bucket is all-reduced whole, and with overlap_comm the
// compute stream first waits for the buckets before it (average_tensor). After the step one collective
// gathers the parameters of each parameter group (runtime/utils.py, all_gather_dp_groups). Stage 2 reduces in
// each micro-batch and waits for that at its end (reduce_ready_partitions_and_remove_grads,
// independent_gradient_partition_epilogue).
//
// Stage 3 gathers the parameters of a module when it is called, and a leaf module's with those of all modules
// inside it (zero/leaf_module_config.py). Then it gathers ahead, in one message, the next parameters in the
// order in which they are used, whole ones, until these have stage3_prefetch_bucket_size elements or the
// gathered ones stage3_max_live_parameters (zero/partitioned_param_coordinator.py, fetch_sub_module). With
// its pass a module is released, unless it is used again within the next stage3_max_reuse_distance elements
// (release_sub_module). The
// gradients of a leaf module come when its backward pass has ended, are reduce-scattered by the same rule as
// in stage 2, and in each micro-batch; the host waits while three buckets are in flight (zero/stage3.py).

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/emit/emitters/modules.hpp"
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
        "--for: expected fsdp for a plan of pipeline sharded, which --emit deepspeed takes, got 'deepspeed'");
  const bool overlaps = plan.pipeline != "after_backward";
  const std::int64_t stage = plan.pipeline == "zero" ? plan.options.stage : 1;
  return {.pipeline = overlaps ? &kOverlapComm : &pipeline("after_backward"),
          .options = {.stage = stage},
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

// ---- stage 3

Program program_of_stage_three(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("sharded").program(groups, options);
  program.reduces_each_batch = true;
  return program;
}

const Pipeline kStageThree = {.name = "deepspeed-3",
                              .summary = "as sharded, while each micro-batch reduces",
                              .program = program_of_stage_three,
                              .gathers_parameters = true};

Behaviour behaves_in_stage_three(const PlanFile& plan, const Workload& /*workload*/) {
  constexpr std::uint32_t kScatters = 3;
  constexpr std::uint32_t kMostAhead = 1;
  PipelineOptions options;
  options.prefetch = std::min(kMostAhead, plan.options.prefetch.value_or(kMostAhead));
  options.reshard_after_forward = plan.options.reshard_after_forward;
  options.kept_groups = plan.options.kept_groups;
  if (options.prefetch != 0U && (options.reshard_after_forward == true || options.kept_groups == 0U)) {
    options.reshard_after_forward.reset();  // what forward used last is seen to be used next
    options.kept_groups.reset();
  }
  options.scatters_in_flight = kScatters;
  return {.pipeline = &kStageThree,
          .options = std::move(options),
          .words =
              "the parameters of each leaf module are gathered before forward, and before backward unless "
              "they were kept, one group ahead unless the plan gathers none ahead; its gradients are "
              "reduce-scattered under backward, in each micro-batch"};
}

const Target& stage_three() {
  static const Target target = {
      .name = "deepspeed",
      .framework = "DeepSpeed",
      .behaves = behaves_in_stage_three,
      .verified =
          {"DeepSpeed 0.19.8 gathered and reduced such groups of blocks that are alike, in this order, "
           "read back from two ranks on CPUs."},
      .read_only = {"what waits for what on a GPU."},
      .does_not =
          {"gather modules that are neighbours in one message, other than those ahead, which it counts in "
           "elements.",
           "reduce a bucket before the first gradient of the next module is there.",
           "divide the parameters among some of the workers without zero_hpz_partition_size or "
           "mics_shard_size, which are not written.",
           "run a leaf module whose inputs need no gradients, as the first block of a model whose embedding "
           "is not trained.",
           "compress."},
      .forms = Forms::modules_apart};
  return target;
}

/// A module whose parameters are gathered together, and its gradients.
struct Leaf {
  std::string module;  ///< empty: the model itself, which is no leaf
  Group group;
  std::int64_t elements = 0;
  std::int64_t trained = 0;  ///< of these
  std::int64_t last = 0;     ///< elements of its last parameter, that of the last tensor
};

/// What of the parameters that travel with this gradient and are not trained is in the module.
std::int64_t frozen_elements(const Workload& workload, const Gradient& gradient, const std::string& module) {
  std::int64_t out = 0;
  for (std::uint32_t layer = gradient.first_layer; layer <= gradient.last_layer; ++layer) {
    const core::ProfileLayer& of = workload.profile->layers[layer];
    const bool is_own = layer == gradient.layer;
    if (is_own ? gradient.tensor == 0 : core::is_below(of.module ? *of.module : of.name, module))
      out += of.frozen_elements;
  }
  return out;
}

/// In backward order.
std::vector<Leaf> leaves_of(const ModuleGroups& made, const Workload& workload) {
  std::vector<Leaf> out;
  const std::int64_t element_bytes = core::bytes_per_element(workload.profile->dtype);
  for (const Group& group : made.groups)
    for (std::uint32_t i = group.begin; i < group.end; ++i) {
      std::string module;
      for (const Wrap& call : made.calls)
        for (const std::string& each : call.modules)
          if (core::is_below(tensor_name(workload, i), each)) module = each;
      const Gradient& gradient = workload.gradients[i];
      const std::int64_t own = gradient.bytes / element_bytes;
      if (i == group.begin || module.empty() || module != out.back().module)
        out.push_back({.module = module, .group = {.begin = i, .end = i}, .last = own});
      out.back().group.end = i + 1;
      out.back().trained += own;
      out.back().elements += own + frozen_elements(workload, gradient, module);
    }
  return out;
}

/// Whether the parameters of this module alone are gathered ahead, in one message.
bool is_gathered_at_once(const Leaf& leaf, std::int64_t bucket) {
  return leaf.elements - leaf.last < bucket && bucket <= leaf.elements;
}

/// The number with which most modules are gathered at once; the largest of these.
std::int64_t prefetch_bucket(const std::vector<Leaf>& leaves) {
  std::map<std::int64_t, std::int64_t> at_once;
  for (const Leaf& by : leaves)
    at_once[by.elements] = std::ranges::count_if(
        leaves, [&](const Leaf& leaf) { return is_gathered_at_once(leaf, by.elements); });
  std::int64_t out = 0;
  for (const auto& [elements, count] : at_once)
    if (out == 0 || count >= at_once[out]) out = elements;
  return out;
}

/// Those that hold modules with gradients of their own, in forward order: others are gathered at once anyway.
std::vector<std::string> leaf_modules(const std::vector<Leaf>& leaves, const Workload& workload) {
  std::vector<std::string> out;
  for (const Leaf& leaf : leaves)
    for (std::uint32_t i = leaf.group.begin; i < leaf.group.end; ++i)
      if (!leaf.module.empty() && module_of(workload, i) != leaf.module) {
        out.insert(out.begin(), leaf.module);
        break;
      }
  return out;
}

struct StageThreeNumbers {
  std::int64_t prefetch = 0;
  std::int64_t live = 0;
  std::int64_t reuse = 0;
  std::int64_t reduce = 0;
};

/// With leaf modules, all that the model has is counted where its backward pass begins, so that the distance
/// between the passes of a group is only that to the end of forward.
StageThreeNumbers numbers_of(const std::vector<Leaf>& leaves, const Behaviour& behaviour,
                             bool has_leaf_modules) {
  const std::int64_t ahead =
      std::min<std::int64_t>(behaviour.options.prefetch.value_or(1), std::ssize(leaves));
  const std::int64_t largest = std::ranges::max_element(leaves, {}, &Leaf::elements)->elements;
  std::vector<bool> is_kept(leaves.size(), true);
  for (const Op& op :
       behaviour.pipeline->program(static_cast<std::uint32_t>(leaves.size()), behaviour.options).ops)
    if (op.issue == Issue::backward) is_kept[op.group] = false;
  StageThreeNumbers out = {.prefetch = ahead > 0 ? prefetch_bucket(leaves) : 0,
                           .live = (1 + ahead) * largest,
                           .reduce = std::ranges::max_element(leaves, {}, &Leaf::trained)->trained};
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (is_kept[i]) kept += leaves[i].elements;
  out.reuse = (has_leaf_modules ? 1 : 2) * kept;
  out.live = std::max(out.live, kept + ahead * largest);
  return out;
}

std::string text_of_stage_three(const std::vector<std::string>& modules, const StageThreeNumbers& numbers,
                                const EmitRequest& request) {
  return fmt::format(
      "ds_config = {{\n"
      "    \"zero_optimization\": {{  # its numbers are elements\n"
      "        \"stage\": 3,\n"
      "        \"overlap_comm\": True,\n"
      "        \"contiguous_gradients\": True,\n"
      "        \"reduce_bucket_size\": {},\n"
      "        \"stage3_prefetch_bucket_size\": {},\n"
      "        \"stage3_max_live_parameters\": {},\n"
      "        \"stage3_max_reuse_distance\": {},\n"
      "        \"stage3_param_persistence_threshold\": 0,\n"
      "        \"leaf_module\": {{\"names\": {}}},\n"
      "    }},\n"
      "    \"communication_data_type\": \"{}\",\n"
      "{}"
      "}}\n",
      numbers.reduce, numbers.prefetch, numbers.live, numbers.reuse, list_in_quotes(modules),
      type_name(request.reduce_type()),
      request.accumulation_steps > 1
          ? fmt::format("    \"gradient_accumulation_steps\": {},\n", request.accumulation_steps)
          : "");
}

Emission emit_stage_three(const EmitRequest& request) {
  Report report(stage_three(), request);
  const ModuleGroups made = module_groups(report, Nesting::none);
  const std::vector<Leaf> leaves = leaves_of(made, request.workload);
  Groups groups;
  for (const Leaf& leaf : leaves) groups.push_back(leaf.group);
  report.made(groups, made.whys);
  const std::vector<std::string> modules = leaf_modules(leaves, request.workload);
  const StageThreeNumbers numbers = numbers_of(leaves, report.behaviour(), !modules.empty());
  if (numbers.prefetch > 0)
    report.note(fmt::format(
        "stage3_prefetch_bucket_size = {} gathers {} of the {} groups ahead in a message each; what it "
        "gathers ahead of others begins or ends within a group, and is priced as if it did not.",
        numbers.prefetch,
        std::ranges::count_if(leaves,
                              [&](const Leaf& leaf) { return is_gathered_at_once(leaf, numbers.prefetch); }),
        leaves.size()));
  report.note(
      "Gradients are reduced in buckets that begin with any parameter and have up to reduce_bucket_size "
      "elements; they are priced as those of the groups.");
  if (request.plan.options.prefetch > 1U)
    report.note(fmt::format("DeepSpeed gathers one group ahead; the plan gathers {}.",
                            *request.plan.options.prefetch));
  note_gather_type(report, "DeepSpeed");
  return {.text = report.heading() + text_of_stage_three(modules, numbers, request) + report.remarks(),
          .json = report.json({{"groups", sizes_json(request.workload, groups)},
                               {"leaf_modules", modules},
                               {"reduce_bucket_size", numbers.reduce},
                               {"stage3_prefetch_bucket_size", numbers.prefetch},
                               {"stage3_max_live_parameters", numbers.live},
                               {"stage3_max_reuse_distance", numbers.reuse}})};
}

Emission emit_deepspeed(const EmitRequest& request) {
  if (request.plan.pipeline == "sharded") return emit_stage_three(request);
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
  return {"deepspeed", "DeepSpeed ZeRO: reduce_bucket_size, and stage 3's numbers", emit_deepspeed, target};
}

}  // namespace planner
