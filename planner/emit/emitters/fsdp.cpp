// PyTorch's FSDP2. A call of fully_shard() makes one group of all parameters below the given modules that no
// earlier call took, so children are wrapped before their parents; a list of modules (PyTorch 2.5, public
// since 2.6) joins modules without a common parent (torch/distributed/fsdp/_fully_shard/_fully_shard.py). A
// group's all-gather runs under the compute of the group before it, so one group is gathered ahead; lists of
// modules to prefetch say how many more (_fsdp_state.py, _pre_forward and _pre_backward). After each backward
// pass all groups are released, unless set_reshard_after_backward(False) was called; and before the gradients
// of a group are copied for their reduce-scatter, compute waits for the one before (_fsdp_param_group.py,
// post_backward). Modules that share a parameter must be in one group, which is gathered when the first of
// them runs; only when all have run would it be released, right before backward needs it (_fsdp_state.py,
// _register_group_forward_hooks and _validate_no_duplicate_params).

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/emit/emitters/modules.hpp"
#include "planner/emit/emitters/process_groups.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

/// How backward goes on, and what becomes of a group's share.
std::string words_of_scatters(const PipelineOptions& options, bool is_hybrid) {
  const std::uint32_t scatters = options.scatters_in_flight.value_or(1);
  return fmt::format("{}{}",
                     scatters == 1 ? "waits for the reduce-scatter before"
                                   : fmt::format("waits while {} reduce-scatters are in flight", scatters),
                     is_hybrid ? "; each worker's share is then all-reduced between the shard "
                                 "groups, beside the reduce-scatters that follow"
                               : "");
}

std::string words(bool is_sharded, bool keeps_last, const PipelineOptions& options, bool is_hybrid) {
  if (!is_sharded)
    return fmt::format(
        "the parameters of a group are gathered under the forward pass and kept until the last backward "
        "pass; under that its gradients are reduce-scattered, for which backward {}",
        words_of_scatters(options, is_hybrid));
  return fmt::format(
      "the parameters of a group are gathered before forward, and before backward unless they were kept{}; "
      "its gradients are reduce-scattered under backward, which {}",
      keeps_last ? ", as are those of tied modules" : "", words_of_scatters(options, is_hybrid));
}

/// Whether several shard groups hold all parameters each.
bool is_hybrid(const PlanFile& plan, const PipelineOptions& options) {
  return options.shard_workers && *options.shard_workers != plan.workers;
}

Behaviour behaves(const PlanFile& plan, const Workload& workload) {
  constexpr std::uint32_t kOne = 1;  // group ahead, and reduce-scatter in flight, whatever the options
  const bool is_sharded = plan.pipeline == "sharded";
  PipelineOptions options = is_sharded ? plan.options : PipelineOptions{};
  if (!is_sharded) {
    options.reshard_after_forward = false;
    options.reshard_after_backward = false;
  }
  options.prefetch = std::max(kOne, plan.options.prefetch.value_or(kOne));
  if (options.backward_prefetch) options.backward_prefetch = std::max(kOne, *options.backward_prefetch);
  options.scatters_in_flight = std::max(kOne, options.scatters_in_flight.value_or(kOne));
  options.pads_tensors = true;
  options.gathers_early = true;
  options.keeps_tied = true;
  std::string priced = words(is_sharded, shares_ends(workload), options, is_hybrid(plan, options));
  return {.pipeline = &pipeline("sharded"), .options = std::move(options), .words = std::move(priced)};
}

const Target& target() {
  static const Target target = {
      .name = "fsdp",
      .framework = "FSDP",
      .behaves = behaves,
      .verified =
          {"PyTorch 2.13 made such groups, and their collectives ran in this order and in these types, read "
           "back from two ranks over Gloo, and from four in two shard groups.",
           "By what its streams wait for, recorded on those four, every task begins as priced, but for what "
           "is "
           "said above."},
      .read_only = {"streams of a GPU: those of CPUs, which do nothing, were replaced by ones that record "
                    "waits."},
      .does_not = {"split the parameters that one module owns.",
                   "all-reduce whole gradients: it scatters them and gathers parameters, whatever the plan's "
                   "pipeline.",
                   "know the last micro-batch: set_requires_gradient_sync() and "
                   "set_reshard_after_backward() tell it, and are written if the scenario accumulates.",
                   "compress."},
      .forms = Forms::modules};
  return target;
}

/// For each group, in backward order: whether its parameters are released after forward and gathered again
/// before backward. Those of tied modules would be gathered as soon as they had been released.
std::vector<bool> reshards_of(const Behaviour& behaviour, const Workload& workload, const Groups& groups) {
  std::vector<bool> out(groups.size());
  const auto count = static_cast<std::uint32_t>(groups.size());
  for (const Op& op : behaviour.pipeline->program(count, behaviour.options).ops)
    if (op.issue == Issue::backward) out[op.group] = true;
  if (const std::optional<Tied> shared = tied(workload))
    for (std::size_t i = 0; i < groups.size(); ++i)
      if (groups[i].begin <= shared->weight && shared->weight < groups[i].end) out[i] = false;
  return out;
}

bool has_stages(const EmitRequest& request) {
  return request.division != nullptr && request.division->pipeline > 1;
}

/// Whether parameters stay whole from one micro-batch to the next.
bool keeps_between_batches(const EmitRequest& request, const Behaviour& behaviour) {
  return request.accumulation_steps > 1 && (has_stages(request) || !behaviour.options.reshard_after_backward);
}

std::string_view python_bool(bool value) { return value ? "True" : "False"; }

/// The types of collectives as they were planned.
std::string policy(const EmitRequest& request) {
  return fmt::format(
      "policy = MixedPrecisionPolicy(param_dtype=torch.{}, reduce_dtype=torch.{}){}\n",
      core::name(request.gather_type()), core::name(request.reduce_type()),
      request.reduce_type() == core::Dtype::float32 ? "" : "  # float32 doubles the bytes that are reduced");
}

/// The workers that hold all parameters together.
std::int64_t workers_of_group(const EmitRequest& request, const Behaviour& behaviour) {
  return std::min(request.plan.workers, behaviour.options.shard_workers.value_or(request.plan.workers));
}

/// Whether the second dimension of tensors of experts is sharded.
bool shards_second_dimension(const EmitRequest& request, const Behaviour& behaviour) {
  const Workload& workload = request.workload;
  return std::ranges::any_of(workload.gradients, [&](const Gradient& at) {
    return sharded_dimension(workload.profile->layers[at.layer].tensors[at.tensor], workload.of_experts,
                             workers_of_group(request, behaviour)) > 0;
  });
}

/// The mesh of the plan's workers, unless all workers of the job are one shard group.
std::optional<Mesh> mesh_of(const EmitRequest& request, const Behaviour& behaviour) {
  const std::int64_t workers = request.plan.workers;
  const std::int64_t of_group = workers_of_group(request, behaviour);
  if (request.division != nullptr)
    return group_mesh(*request.division, request.division->of_experts, of_group);
  if (of_group == workers) return {};
  return hybrid_mesh(workers, of_group);
}

/// The lists of modules to prefetch, if more than one group is gathered ahead.
std::string prefetch_lists(const std::vector<Wrap>& calls, const Behaviour& behaviour) {
  const std::uint32_t ahead = behaviour.options.prefetch.value_or(1);
  const std::uint32_t back = behaviour.options.backward_prefetch.value_or(ahead);
  if (ahead < 2 && back < 2) return "";
  std::vector<std::string> forward(calls.size());
  for (const Wrap& call : calls) forward[calls.size() - 1 - call.group] = call.modules.front();
  std::string out = fmt::format(
      "units = [parts(modules[name])[0] for name in {}]  # a module of each group, in forward order\n"
      "for i, unit in enumerate(units):\n",
      list_in_quotes(forward));
  if (ahead > 1)
    out += fmt::format("    unit.set_modules_to_forward_prefetch(units[i + 1:i + {}])\n", ahead + 1);
  if (back > 1)
    out += fmt::format("    unit.set_modules_to_backward_prefetch(units[max(i - {}, 0):i][::-1])\n", back);
  return out;
}

/// The call that lets more than one reduce-scatter be in flight, if that is asked for.
std::string more_scatters(const Behaviour& behaviour) {
  const std::uint32_t scatters = behaviour.options.scatters_in_flight.value_or(1);
  if (scatters < 2) return "";
  return fmt::format("model.set_reduce_scatter_max_input_buffers({})  # PyTorch 2.13 or later\n", scatters);
}

/// The function that is called before each micro-batch.
std::string micro_batches(const EmitRequest& request, const Behaviour& behaviour) {
  return fmt::format(
      "\n"
      "def begin_micro_batch(model, number):  # call it before the forward pass of each of the {0}, from 0 "
      "on\n"
      "    is_last = number == {1}\n"
      "    model.set_requires_gradient_sync(is_last)\n"
      "{2}",
      request.accumulation_steps, request.accumulation_steps - 1,
      keeps_between_batches(request, behaviour)
          ? "    model.set_reshard_after_backward(is_last)  # gathered in the first one alone\n"
          : "");
}

/// What all calls use: imports, functions, types and meshes.
std::vector<std::string> setup(const EmitRequest& request, const Behaviour& behaviour,
                               const std::vector<Mesh>& meshes) {
  std::vector<std::string> out;
  out.push_back(fmt::format(
      "{}"
      "from torch import nn\n"
      "{}"
      "from torch.distributed.fsdp import {}fully_shard  # PyTorch 2.6 or later\n"
      "\n"
      "def parts(module):  # fully_shard() refuses containers that cannot be called\n"
      "    is_container = isinstance(module, (nn.ModuleList, nn.ModuleDict))\n"
      "    return [p for c in module.children() for p in parts(c)] if is_container else [module]\n",
      needs_policy(request) ? "import torch\n" : "",
      meshes.empty() ? "" : "from torch.distributed.device_mesh import init_device_mesh\n",
      needs_policy(request) ? "MixedPrecisionPolicy, " : ""));
  if (request.accumulation_steps > 1 && !has_stages(request))
    out.push_back(micro_batches(request, behaviour));
  out.emplace_back("\n");
  if (needs_policy(request)) out.push_back(policy(request));
  if (shards_second_dimension(request, behaviour))
    out.push_back(fmt::format(
        "from torch.distributed.tensor import Shard\n"
        "\n"
        "def shard_of_expert(p):  # there are more workers than experts\n"
        "    shape = getattr(p, '_local_tensor', p).shape  # of this worker's experts\n"
        "    return Shard(1) if len(shape) > 1 and shape[0] < {0} and shape[1] % {0} == 0 else Shard(0)\n",
        workers_of_group(request, behaviour)));
  for (const Mesh& mesh : meshes) out.push_back(mesh.line());
  return out;
}

/// Wraps the experts that no other worker has, so that the calls for the modules around them leave them out.
std::string wraps_of_one_worker(const EmitRequest& request, const Experts& experts, const Mesh& mesh) {
  return fmt::format(
      "for name in {}:  # experts that no other worker has\n"
      "    for module in parts(modules[name]):\n"
      "        fully_shard(module, mesh={}{})\n"
      "        module.set_gradient_divide_factor({})  # the mean over all samples; PyTorch 2.8 or later\n",
      list_in_quotes(experts.of_one_worker), mesh.argument(),
      needs_policy(request) ? ", mp_policy=policy" : "", request.division->data);
}

struct Python {
  std::vector<std::string> setup;
  std::string text;
};

Python python(const ModuleGroups& made, const Behaviour& behaviour, const EmitRequest& request) {
  const std::vector<Wrap>& calls = made.calls;
  const Experts experts = experts_of(request);
  const std::optional<Mesh> mesh = mesh_of(request, behaviour);
  std::vector<Mesh> meshes;
  if (mesh) meshes.push_back(*mesh);
  std::string out = experts.are_planned_before ? "" : "modules = dict(model.named_modules())\n";
  if (!experts.of_one_worker.empty()) {
    meshes.push_back(group_mesh(*request.division, true, 1));
    out += wraps_of_one_worker(request, experts, meshes.back());
  }
  out += "for names, reshards in [  # reshards: released after forward and gathered again before backward\n";
  const std::vector<bool> reshards = reshards_of(behaviour, request.workload, made.groups);
  bool root_reshards = false;
  for (const Wrap& call : calls)
    if (call.modules.front() != "")
      out += fmt::format("    ({}, {}),\n", list_in_quotes(call.modules), python_bool(reshards[call.group]));
    else
      root_reshards = reshards[call.group];
  const std::string more_arguments = fmt::format("{}{}", mesh ? ", mesh=" + mesh->argument() : "",
                                                 needs_policy(request) ? ", mp_policy=policy" : "");
  out += "]:\n";
  if (request.division != nullptr && request.division->of_experts)
    out += fmt::format(
        "    units = [p for name in names for p in parts(modules[name])]\n"
        "    fully_shard(units, reshard_after_forward=reshards{}{})\n"
        "    units[0].set_gradient_divide_factor({})  # the mean over all samples; PyTorch 2.8 or later\n",
        more_arguments,
        shards_second_dimension(request, behaviour) ? ", shard_placement_fn=shard_of_expert" : "",
        request.division->data);
  else
    out += fmt::format(
        "    fully_shard([p for name in names for p in parts(modules[name])], "
        "reshard_after_forward=reshards{})\n",
        more_arguments);
  if (!experts.are_planned_alone)
    out += fmt::format("fully_shard(model, reshard_after_forward={}{})\n", python_bool(root_reshards),
                       more_arguments);
  out += prefetch_lists(calls, behaviour);
  if (!experts.are_planned_alone) out += more_scatters(behaviour);
  return {.setup = setup(request, behaviour, meshes), .text = std::move(out)};
}

/// "lm_head computes with the weight of transformer.wte."
void note_tied(Report& report, const Tied& shared, bool would_reshard) {
  std::vector<std::string> carried;
  for (const std::uint32_t gradient : shared.carried)
    carried.push_back(tensor_name(report.request().workload, gradient));
  report.note(fmt::format(
      "{} {} no weight in the profile: taken as tied to that of {}, in one group, which is "
      "gathered at its first use and kept until backward ends.",
      fmt::join(shared.modules, ", "), shared.modules.size() == 1 ? "has" : "have", shared.owner));
  if (!carried.empty())
    report.note(fmt::format("{} travels in that group, too, and is priced with its neighbours.",
                            fmt::join(carried, ", ")));
  if (would_reshard)
    report.note("That group is priced as if it were released and gathered again for the layers around it.");
}

/// "The first dimension of each tensor is padded to a multiple of 512: collectives carry ..."
void note_padding(Report& report) {
  const Workload& workload = report.request().workload;
  const std::int64_t workers = workers_of_group(report.request(), report.behaviour());
  const double percent = 100 * static_cast<double>(padding_before(workload, workers).back()) /
                         static_cast<double>(workload.bytes());
  constexpr double kLeastShown = 0.05;
  if (percent >= kLeastShown)
    report.note(fmt::format(
        "The first dimension of each tensor is padded to a multiple of {}: collectives carry {:.1f} % more "
        "bytes, which is priced.",
        workers, percent));
}

/// "FSDP gathers the group of transformer when it is called ..."
void note_nesting(Report& report, const std::vector<Wrap>& calls) {
  const auto has_others = [&](const Wrap& call, const std::string& module) {
    return std::ranges::any_of(calls, [&](const Wrap& other) {
      return other.group != call.group && std::ranges::any_of(other.modules, [&](const std::string& below) {
               return core::is_below(below, module);
             });
    });
  };
  std::vector<std::string> around;
  for (const Wrap& call : calls)
    for (const std::string& module : call.modules)
      if (!module.empty() && has_others(call, module)) around.push_back(module);
  if (around.empty()) return;
  const std::string more = around.size() > 1 ? fmt::format(" (likewise {} more)", around.size() - 1) : "";
  report.note(fmt::format(
      "FSDP gathers the group of {}{} when it is called and when backward comes to its output, and "
      "reduces its gradients after those of modules inside it that have other groups; it is priced "
      "as its own layers need it.",
      around.front(), more));
}

/// "FSDP refuses parameters without a dimension: ..."
void note_scalars(Report& report) {
  const Workload& workload = report.request().workload;
  std::vector<std::string> scalars;
  for (const Gradient& at : workload.gradients)
    if (const core::ProfileTensor& tensor = workload.profile->layers[at.layer].tensors[at.tensor];
        tensor.is_scalar)
      scalars.push_back(tensor.name);
  if (!scalars.empty())
    report.note(fmt::format("FSDP refuses parameters without a dimension: give {} one, of one element.",
                            fmt::join(scalars, ", ")));
}

/// "Parameters that are not trained have 80 times the bytes of the others: they are gathered with these ..."
void note_frozen(Report& report) {
  const Workload& workload = report.request().workload;
  const std::int64_t frozen = workload.frozen_before.back();
  if (frozen > 0)
    report.note(
        fmt::format("Parameters that are not trained have {:.3g} times the bytes of the others: they are "
                    "gathered with these, which is priced, and nothing of them is reduced.",
                    static_cast<double>(frozen) / static_cast<double>(workload.bytes())));
}

/// The number of tensors and the bytes of each group, with those of its padding and of what is not trained
/// where there are any.
ordered_json groups_json(const EmitRequest& request, const Behaviour& behaviour, const Groups& groups) {
  ordered_json out = sizes_json(request.workload, groups);
  const std::vector<std::int64_t> before =
      padding_before(request.workload, workers_of_group(request, behaviour));
  const std::vector<std::int64_t>& frozen = request.workload.frozen_before;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (const std::int64_t more = before[groups[i].end] - before[groups[i].begin]; more > 0)
      out[i]["padding_bytes"] = more;
    if (const std::int64_t more = frozen[groups[i].end] - frozen[groups[i].begin]; more > 0)
      out[i]["frozen_bytes"] = more;
  }
  return out;
}

void add_notes(Report& report, const ModuleGroups& made) {
  const std::vector<Wrap>& calls = made.calls;
  const auto joined = std::ranges::count_if(calls, [](const Wrap& call) { return call.modules.size() > 1; });
  if (joined > 0)
    report.note(
        fmt::format("{} of the {} groups join modules without a parent of their own, which FSDP1 cannot.",
                    joined, calls.size()));
  const Workload& workload = report.request().workload;
  const std::vector<bool> reshards = reshards_of(report.behaviour(), workload, made.groups);
  if (const std::optional<Tied> shared = tied(workload))
    note_tied(report, *shared, !shared->is_last(workload) && report.request().plan.pipeline == "sharded");
  if (std::ranges::any_of(
          calls, [&](const Wrap& call) { return call.modules.front() == "" && reshards[call.group]; }))
    report.note(
        "FSDP gathers the group of `fully_shard(model)` when backward comes to the model's output, behind "
        "the "
        "groups that are gathered ahead there; it is priced as gathered when its layers need it.");
  note_nesting(report, calls);
  note_padding(report);
  note_frozen(report);
  note_scalars(report);
  const std::vector<core::ProfileLayer>& layers = workload.profile->layers;
  if (std::ranges::none_of(layers, [](const core::ProfileLayer& layer) { return layer.module.has_value(); }))
    report.note_of_job("Module names are the tensors' without their last part.");
  if (const Division* division = report.request().division; division != nullptr) {
    if (division->pipeline > 1) {
      report.note_of_job("`model` is the part of the model that the comment above its lines names, alone.");
      report.note_of_job(
          "torch.distributed.pipelining says itself which micro-batch is the last one. It reduce-scatters "
          "the "
          "gradients of a part after its last backward pass, and compute waits for that; it is priced so "
          "unless the key overlap of the stages says otherwise.");
    }
    if (division->expert > 1)
      report.note_of_job(
          "torch.nn.utils.clip_grad_norm_() takes parameters of one mesh: clip by the norm of both.");
    if (division->pipeline > 1 || division->tensor > 1)
      report.note_of_job("Meshes with stages or tensor groups have not been run.");
    else if (division->expert > 1)
      report.note_of_job(
          "Meshes of experts made these groups on four ranks over Gloo, without the factor of gradients.");
  }
  const PlanFile& plan = report.request().plan;
  if (plan.pipeline == "sharded" && plan.options.prefetch == 0U)
    report.note("FSDP gathers one group ahead; the plan gathers none.");
}

/// The mesh of the plan's workers, where the text makes one.
ordered_json mesh_json(const Mesh& mesh) {
  return {{"sizes", mesh.sizes},
          {"names", mesh.names},
          {"spanned", mesh.spanned.empty() ? mesh.names : mesh.spanned}};
}

ordered_json calls_json(const std::vector<Wrap>& calls) {
  ordered_json out = ordered_json::array();
  for (const Wrap& call : calls) out.push_back(call.modules);
  return out;
}

/// The first release that has all functions of the text.
std::string_view least_pytorch(const EmitRequest& request, const Behaviour& behaviour) {
  if (behaviour.options.scatters_in_flight > 1U) return "2.13";
  return request.division != nullptr && request.division->expert > 1 ? "2.8" : "2.6";
}

Emission emit_fsdp(const EmitRequest& request) {
  Report report(target(), request);
  const ModuleGroups made = module_groups(report);
  report.made(made.groups, made.whys);
  add_notes(report, made);
  const Behaviour& behaviour = report.behaviour();
  const std::uint32_t ahead = behaviour.options.prefetch.value_or(1);
  ordered_json json = {{"fully_shard", calls_json(made.calls)},
                       {"groups", groups_json(request, behaviour, made.groups)},
                       {"reshards", reshards_of(behaviour, request.workload, made.groups)},
                       {"prefetch", ahead},
                       {"backward_prefetch", behaviour.options.backward_prefetch.value_or(ahead)},
                       {"scatters_in_flight", behaviour.options.scatters_in_flight.value_or(1)},
                       {"micro_batches", request.accumulation_steps},
                       {"kept_between_micro_batches", keeps_between_batches(request, behaviour)}};
  if (const std::optional<Tied> shared = tied(request.workload))
    json["tied"] = {{"weight", tensor_name(request.workload, shared->weight)}, {"modules", shared->modules}};
  if (const auto mesh = mesh_of(request, behaviour)) json["mesh"] = mesh_json(*mesh);
  json["least_pytorch"] = least_pytorch(request, behaviour);
  Python lines = python(made, behaviour, request);
  if (request.division != nullptr)
    return {.text = report.heading() + lines.text + report.own_remarks(),
            .setup = std::move(lines.setup),
            .closing = report.closing(),
            .json = report.json(json)};
  return {.text = fmt::format("{}{}{}{}", report.heading(), fmt::join(lines.setup, ""), lines.text,
                              report.remarks()),
          .json = report.json(json)};
}

}  // namespace

Emitter fsdp_emitter() { return {"fsdp", "PyTorch FSDP2: modules to fully_shard()", emit_fsdp, target}; }

}  // namespace planner
