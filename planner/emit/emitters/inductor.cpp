// The compiler of PyTorch (TorchInductor) under its manual overlap pass, as torchtitan's graph trainer uses
// it: the all-gathers and reduce-scatters of the modules of a bucket are joined, the gather of the next
// bucket is issued before that of this one is waited for, and a reduce-scatter runs under the next bucket's
// backward (torch/_inductor/fx_passes/overlap_manual_scheduling.py).

#include <algorithm>

#include <fmt/format.h>

#include "planner/emit/emitters/modules.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

Behaviour behaves(const PlanFile& plan) {
  const bool gathers_again = plan.pipeline == "sharded";
  Behaviour out = {.pipeline = &pipeline(gathers_again ? "sharded" : "zero"),
                   .options = {},
                   .compresses = false,
                   .gathers_at_once = false,
                   .words = gathers_again
                                ? "the parameters of a bucket are gathered before forward and before "
                                  "backward, one bucket ahead; its gradients are reduce-scattered under "
                                  "backward"
                                : "a reduce-scatter for each bucket under backward; under the next "
                                  "forward pass an all-gather for each, one bucket ahead"};
  out.options.prefetch = 1;
  if (!gathers_again) return out;
  out.options.reshard_after_forward = plan.options.reshard_after_forward;
  out.options.shard_workers = plan.options.shard_workers;
  return out;
}

const Target& target() {
  static const Target target = {
      .name = "inductor",
      .framework = "TorchInductor",
      .behaves = behaves,
      .verified = {"by reading PyTorch 2.13, not by running it."},
      .does_not = {"split the parameters that one module owns.",
                   "shard: the model is sharded by fully_shard() or the like before it is compiled.",
                   "have a module in one bucket and a module below it in another.",
                   "join collectives of parameters that the model itself owns.",
                   "gather more than one bucket ahead.", "compress."}};
  return target;
}

std::string python(const ordered_json& plans) {
  std::string out =
      "from torch._inductor.fx_passes.overlap_manual_scheduling import manual_overlap_bucketing\n"
      "\n"
      "module_bucket_plans = [  # in forward order\n";
  for (const ordered_json& modules : plans)
    out += fmt::format("    {},\n", list_in_quotes(modules.get<std::vector<std::string>>()));
  return out +
         "]\n"
         "\n"
         "def bucket(graph_module):  # a pass over the forward graph, and over the backward graph\n"
         "    return manual_overlap_bucketing(graph_module, module_bucket_plans, insert_overlap_deps=True)\n";
}

/// Returns the modules of each bucket in forward order. The pass knows no name for the model itself.
std::vector<std::vector<std::string>> plans_of(const ModuleGroups& made) {
  std::vector<std::vector<std::string>> forward(made.calls.size());
  for (const Wrap& call : made.calls) forward[forward.size() - 1 - call.group] = call.modules;
  std::erase_if(forward, [](const std::vector<std::string>& modules) { return modules.empty(); });
  return forward;
}

Emission emit_inductor(const EmitRequest& request) {
  Report report(target(), request);
  const ModuleGroups made = module_groups(report, Nesting::none);
  report.made(made.groups, made.whys);
  report.note("Module names are the tensors' without their last part.");
  const ordered_json plans = plans_of(made);
  return {.text = report.heading() + python(plans) + report.remarks(),
          .json = report.json(
              {{"groups", sizes_json(request.workload, made.groups)}, {"module_bucket_plans", plans}})};
}

}  // namespace

Emitter inductor_emitter() {
  return {"inductor", "TorchInductor's manual overlap pass: module_bucket_plans", emit_inductor};
}

}  // namespace planner
