// The compiler of PyTorch (TorchInductor) under its manual overlap pass, as torchtitan's graph trainer uses
// it: the all-gathers and reduce-scatters of the modules of a bucket are joined, the gather of the next
// bucket is issued before that of this one is waited for, and a reduce-scatter is waited for when that of the
// next bucket has been issued (torch/_inductor/fx_passes/overlap_manual_scheduling.py). The pass that finds
// buckets by itself, which is off by default, takes estimates of collectives from a function
// (overlap_scheduling.py, estimate_collective_time). Both see only collectives that are traced.

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/cost/costs.hpp"
#include "planner/cost/placement.hpp"
#include "planner/emit/emitters/modules.hpp"

namespace planner {
namespace {

using nlohmann::ordered_json;

Program program(std::uint32_t groups, const PipelineOptions& options) {
  Program program = pipeline("sharded").program(groups, options);
  program.reduces_each_batch = true;
  return program;
}

const Pipeline kEachMicroBatch = {.name = "inductor",
                                  .summary = "as sharded, while each micro-batch reduces its gradients",
                                  .program = program,
                                  .gathers_parameters = true};

Behaviour behaves(const PlanFile& plan, const Workload& /*workload*/) {
  const bool gathers_again = plan.pipeline == "sharded";
  PipelineOptions options = {.prefetch = 1, .reshard_after_forward = false, .scatters_in_flight = 1};
  if (gathers_again) {
    options.reshard_after_forward = plan.options.reshard_after_forward;
    options.shard_workers = plan.options.shard_workers;
  }
  return {
      .pipeline = &kEachMicroBatch,
      .options = options,
      .words = gathers_again
                   ? "in each micro-batch, the parameters of a bucket are gathered before forward and "
                     "before backward, one bucket ahead; its gradients are reduce-scattered under backward, "
                     "which waits for the reduce-scatter before; the next micro-batch waits for all of them"
                   : "in each micro-batch, the parameters of a bucket are gathered under the forward pass, "
                     "one bucket ahead, and kept for backward; its gradients are reduce-scattered under "
                     "that, which waits for the reduce-scatter before; the next micro-batch waits for all of "
                     "them"};
}

const Target& target() {
  static const Target target = {
      .name = "inductor",
      .framework = "TorchInductor",
      .behaves = behaves,
      .verified = {"PyTorch 2.13 compiled a model on a CPU under these lines: the collectives of its graphs, "
                   "their order and waits.",
                   "PyTorch 2.13 took the estimates of its own nodes of functional collectives."},
      .read_only = {"what waits for what on a GPU."},
      .does_not = {"split the parameters that one module owns.",
                   "shard: the model needs a sharding whose collectives are traced, such as torchtitan's "
                   "SimpleFSDP; those of fully_shard() are not, as its hooks disable the compiler (2.13).",
                   "wait for the last micro-batch: the backward graph reduces gradients in each.",
                   "have a module in one bucket and a module below it in another.",
                   "join collectives of parameters that the model itself owns.",
                   "gather more than one bucket ahead.", "compress.",
                   "estimate collectives of groups of other sizes, or of other kinds, by these curves."},
      .forms = Forms::modules_apart};
  return target;
}

std::string python(const ordered_json& plans) {
  std::string out =
      "import torch._inductor.config\n"
      "from torch._inductor.fx_passes.overlap_manual_scheduling import manual_overlap_bucketing\n"
      "\n"
      "module_bucket_plans = [  # in forward order\n";
  for (const ordered_json& modules : plans)
    out += fmt::format("    {},\n", list_in_quotes(modules.get<std::vector<std::string>>()));
  return out +
         "]\n"
         "\n"
         "def bucket(graph):  # a pass over the forward graph, and over the backward graph\n"
         "    manual_overlap_bucketing(graph.owning_module, module_bucket_plans, insert_overlap_deps=True)\n"
         "\n"
         "# before torch.compile(model); another pass would move the collectives again\n"
         "torch._inductor.config.post_grad_custom_post_pass = bucket\n"
         "torch._inductor.config.reorder_for_peak_memory = False\n"
         "torch._inductor.config.reorder_for_compute_comm_overlap = False\n";
}

/// Returns the modules of each bucket in forward order. The pass knows no name for the model itself.
std::vector<std::vector<std::string>> plans_of(const ModuleGroups& made) {
  std::vector<std::vector<std::string>> forward(made.calls.size());
  for (const Wrap& call : made.calls) forward[forward.size() - 1 - call.group] = call.modules;
  std::erase_if(forward, [](const std::vector<std::string>& modules) { return modules.empty(); });
  return forward;
}

using core::CollectiveKind;

/// The straight pieces of a curve: from so many bytes on, the time there, and that of each further byte. The
/// first value holds below the first piece.
ordered_json pieces_of(const core::CostCurve& curve) {
  ordered_json out = ordered_json::array();
  for (const core::CostCurve::Segment& piece : curve.segments())
    out.push_back({piece.from_bytes, curve.us(piece.from_bytes), piece.us_per_byte});
  const auto& points = curve.points();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t line =
        std::min(i, std::max<std::size_t>(points.size(), 2) - 2);  // the last one goes on
    const bool is_flat = points.size() == 1;
    const double slope = is_flat ? 0
                                 : (points[line + 1].second - points[line].second) /
                                       (points[line + 1].first - points[line].first);
    out.push_back({points[i].first, points[i].second, slope});
  }
  if (!out.empty()) return out;
  constexpr double kMany = 1LL << 40;
  out.push_back({0.0, curve.us(0), (curve.us(kMany) - curve.us(0)) / kMany});
  return out;
}

/// The costs of collectives among neighbouring workers, or with a stride among every so many.
ordered_json costs_of(const core::Network& network, const Algorithm& algorithm, std::int64_t workers,
                      std::int64_t stride) {
  ordered_json out = ordered_json::array();
  for (const CollectiveKind kind :
       {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    try {
      const core::Network seen =
          stride > 1 ? as_seen_by(network, {.stride = stride, .size = workers}) : network;
      const Costs costs(seen, workers, algorithm);
      const ordered_json pieces = pieces_of(costs.of(kind).curve);
      out.push_back({{"collective", core::name(kind)}, {"workers", workers}, {"pieces", pieces}});
    } catch (const core::Unsupported&) {
      continue;  // the network does not say, so TorchInductor estimates
    }
  }
  return out;
}

/// Whether both dimensions of the mesh have the same size. TorchInductor's pass knows a group by its size
/// alone, and the two take different times.
bool has_equal_dimensions(const PlanFile& plan) {
  const std::int64_t shard = plan.options.shard_workers.value_or(plan.workers);
  return shard > 1 && shard < plan.workers && shard * shard == plan.workers;
}

/// The costs in groups of all workers, of those that a level of the network joins, and of a mesh of two
/// dimensions if their sizes differ.
ordered_json all_costs(const EmitRequest& request) {
  ordered_json out = ordered_json::array();
  if (request.network == nullptr) return out;
  std::set<std::int64_t> known = {1};
  const auto add = [&](std::int64_t workers, std::int64_t stride) {
    if (workers > request.plan.workers || !known.insert(workers).second) return;
    for (ordered_json& cost : costs_of(*request.network, request.plan.all_reduce, workers, stride))
      out.push_back(std::move(cost));
  };
  add(request.plan.workers, 1);
  const std::int64_t shard = request.plan.options.shard_workers.value_or(request.plan.workers);
  if (has_equal_dimensions(request.plan)) known.insert(shard);
  add(shard, 1);
  add(request.plan.workers / shard, shard);
  std::int64_t joined = 1;
  for (const core::Level& level : request.network->levels)
    if (level.size) add(joined *= *level.size, 1);
  return out;
}

std::string estimates(const ordered_json& costs) {
  if (costs.empty()) return "";
  std::string out =
      "\n"
      "# What collectives take, for the pass that finds buckets and overlap by itself.\n"
      "import bisect\n"
      "import torch\n"
      "from torch.distributed.distributed_c10d import _get_group_size_by_name\n"
      "from torch.fx.operator_schemas import normalize_function\n"
      "\n"
      "costs = {  # by workers of the group: from so many bytes on, us there, us for each further byte\n";
  for (const ordered_json& cost : costs) {
    out += fmt::format("    ({}, {}): [", in_quotes(cost["collective"].get<std::string>()),
                       cost["workers"].get<std::int64_t>());
    for (const ordered_json& piece : cost["pieces"])
      out += fmt::format("({}, {}, {}), ", piece[0].get<double>(), piece[1].get<double>(),
                         piece[2].get<double>());
    out += "],\n";
  }
  return out +
         "}\n"
         "kinds = {\"all_reduce\": \"all_reduce\", \"reduce_scatter_tensor\": \"reduce_scatter\",\n"
         "         \"all_gather_into_tensor\": \"all_gather\"}\n"
         "\n"
         "def runtime_ms(node, override_bytes=None):  # None: TorchInductor estimates by itself\n"
         "    if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "
         "\"_c10d_functional\":\n"
         "        return None\n"
         "    name = "
         "node.target.name().split(\"::\")[1].split(\".\")[0].removesuffix(\"_out\").rstrip(\"_\")\n"
         "    if name not in kinds:\n"
         "        return None\n"
         "    options = normalize_function(\n"
         "        node.target, node.args, node.kwargs, normalize_to_only_use_kwargs=True).kwargs\n"
         "    workers = _get_group_size_by_name(options[\"group_name\"])\n"
         "    pieces = costs.get((kinds[name], workers))\n"
         "    if pieces is None:\n"
         "        return None\n"
         "    size = override_bytes\n"
         "    if size is None:  # of the whole: all that is gathered\n"
         "        tensor = options[\"input\"].meta[\"val\"]\n"
         "        size = int(tensor.numel()) * tensor.element_size() * (workers if kinds[name] == "
         "\"all_gather\" else 1)\n"
         "    from_bytes, us, us_per_byte = pieces[max(0, bisect.bisect_right(pieces, size, key=lambda p: "
         "p[0]) - 1)]\n"
         "    return max(0, us + max(0, size - from_bytes) * us_per_byte) / 1000\n"
         "\n"
         "torch._inductor.config.aten_distributed_optimizations.custom_runtime_estimation = runtime_ms\n"
         "# That pass is off by default, and makes other buckets than the plan's. To use it instead of "
         "bucket():\n"
         "#   torch._inductor.config.post_grad_custom_post_pass = None\n"
         "#   torch._inductor.config.aten_distributed_optimizations.enable_overlap_scheduling = True\n";
}

Emission emit_inductor(const EmitRequest& request) {
  Report report(target(), request);
  const ModuleGroups made = module_groups(report, Nesting::none);
  report.made(made.groups, made.whys);
  report.note("Module names are the tensors' without their last part.");
  if (needs_policy(request))
    report.note(fmt::format(
        "The sharding has to gather in {0} and reduce in {1}, as with a MixedPrecisionPolicy(param_dtype="
        "torch.{0}, reduce_dtype=torch.{1}).",
        core::name(request.gather_type()), core::name(request.reduce_type())));
  if (const std::optional<Tied> shared = tied(request.workload))
    report.note(fmt::format(
        "{} has no weight in the profile, as if tied to {}: the pass was not tried with tied modules.",
        fmt::join(shared->modules, ", "), shared->owner));
  if (request.accumulation_steps > 1)
    report.note(
        fmt::format("Gradients are reduced in each of the {} micro-batches, which is priced; fully_shard() "
                    "(--emit fsdp) reduces them in the last alone.",
                    request.accumulation_steps));
  if (has_equal_dimensions(request.plan))
    report.note(
        "Both dimensions of the mesh have one size, so what collectives take in groups of it is left out.");
  const ordered_json plans = plans_of(made);
  const ordered_json costs = all_costs(request);
  return {.text = report.heading() + python(plans) + estimates(costs) + report.remarks(),
          .json = report.json({{"groups", sizes_json(request.workload, made.groups)},
                               {"module_bucket_plans", plans},
                               {"custom_runtime_estimation", costs}})};
}

}  // namespace

Emitter inductor_emitter() {
  return {"inductor", "TorchInductor's manual overlap pass: module_bucket_plans", emit_inductor, target};
}

}  // namespace planner
