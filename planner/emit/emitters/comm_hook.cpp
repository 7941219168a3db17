// Communication hooks of PyTorch's DistributedDataParallel, which compress every bucket alike
// (torch/distributed/algorithms/ddp_comm_hooks/, default_hooks.py and powerSGD_hook.py). A bucket is encoded
// when it is ready, all-reduced, and decoded when it has arrived.

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/emit/emitters/ddp_caps.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {
namespace {

struct Hook {
  std::string_view compressor;
  std::string_view module;
  std::string_view function;
};

constexpr std::array<Hook, 3> kHooks = {{{"fp16", "default_hooks", "fp16_compress_hook"},
                                         {"bf16", "default_hooks", "bf16_compress_hook"},
                                         {"power-sgd", "powerSGD_hook", "powerSGD_hook"}}};

const Hook* hook_for(const Compressor& compressor) {
  const auto found = std::ranges::find_if(kHooks, [&](const Hook& hook) {
    return hook.compressor == compressor.name &&
           (hook.module == "powerSGD_hook") == compressor.low_rank.has_value();
  });
  return found == kHooks.end() ? nullptr : &*found;
}

Behaviour behaves(const PlanFile& /*plan*/, const Workload& /*workload*/) {
  return {
      .pipeline = &pipeline("wfbp"),
      .compresses = true,
      .words =
          "every bucket is encoded, all-reduced under backward, and decoded, all by the same compressor, in "
          "the last micro-batch, if the others run under no_sync()"};
}

bool has_hook(const Compressor& compressor) { return hook_for(compressor) != nullptr; }

const Target& target() {
  static const Target target = {
      .name = "comm-hook",
      .framework = "DDP with a communication hook",
      .behaves = behaves,
      .verified =
          {"PyTorch 1.13 and 2.13 made the buckets and, with fp16, sent them in half the bytes; 2.13, with "
           "PowerSGD and one bucket, sent what is priced."},
      .read_only = {"the hook of bf16, which needs NCCL 2.10 or later."},
      .does_not =
          {"compress some buckets and others not.",
           "have hooks for other compressors than fp16, bf16 and PowerSGD.",
           "use PowerSGD before iteration start_powerSGD_iter (1000): buckets travel as they are until then.",
           "finish reliably with PowerSGD and several buckets over Gloo, where its hook can hang.",
           "make these buckets under torch.compile, unless torch._dynamo.config.optimize_ddp = False."},
      .forms = Forms::any_alike,
      .has = has_hook};
  return target;
}

/// The plan's groups, all with one transfer.
Groups all_with(Groups groups, std::uint32_t transfer) {
  for (Group& group : groups) group.transfer = transfer;
  return in_order(groups);
}

/// One choice for all groups: a hook, or none.
struct Choice {
  const Hook* hook = nullptr;
  const Compressor* compressor = nullptr;  ///< the hook's
  bool has_hook = false;                   ///< whether there was any to try
  Groups groups;
  double iteration_us = 0;
};

const Compressor& compressor_of(const PlanFile& plan, std::size_t group) {
  return group < plan.groups.size() && plan.groups[group].transfer.compressor
             ? *plan.groups[group].transfer.compressor
             : plan.compressor;
}

/// The fastest of sending all groups uncompressed and by each hook that the plan uses anywhere.
Choice best_choice(const Report& report) {
  const EmitRequest& request = report.request();
  Behaviour plain = report.behaviour();
  plain.compresses = false;
  Choice best = {.groups = in_order(request.groups), .iteration_us = 0};
  best.iteration_us = request.iteration_us(plain, best.groups);
  std::vector<std::uint32_t> tried;
  for (std::size_t i = 0; i < request.groups.size(); ++i) {
    const std::uint32_t transfer = request.groups[i].transfer;
    const Compressor& compressor = compressor_of(request.plan, i);
    const Hook* const hook = hook_for(compressor);
    if (hook == nullptr || std::ranges::find(tried, transfer) != tried.end()) continue;
    tried.push_back(transfer);
    Groups groups = all_with(request.groups, transfer);
    const double us = report.iteration_us(groups);
    if (us < best.iteration_us)
      best = {.hook = hook, .compressor = &compressor, .groups = std::move(groups), .iteration_us = us};
  }
  best.has_hook = !tried.empty();
  return best;
}

/// The options of PowerSGDState, by their names in PyTorch; empty for other hooks.
nlohmann::ordered_json options_json(const Choice& choice) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (choice.compressor == nullptr || !choice.compressor->low_rank) return out;
  out["matrix_approximation_rank"] = choice.compressor->low_rank->rank;
  out["min_compression_rate"] = choice.compressor->low_rank->min_compression_rate;
  return out;
}

/// The lines that register the hook.
std::string registration(const Choice& choice) {
  if (choice.hook == nullptr) return {};
  std::string state;
  const nlohmann::ordered_json options = options_json(choice);
  for (const auto& [key, value] : options.items()) state += fmt::format(", {}={}", key, value.dump());
  if (!state.empty()) state = fmt::format("state = {}.PowerSGDState(None{})\n", choice.hook->module, state);
  return fmt::format("{}model.register_comm_hook({}, {}.{})\n", state, state.empty() ? "None" : "state",
                     choice.hook->module, choice.hook->function);
}

std::string name_of(const Compressor& compressor) {
  return compressor.is_none() ? "uncompressed" : fmt::format("compressed by {}", described(compressor));
}

/// Why groups of the plan that have another compressor are not made, by group.
std::vector<std::string> whys(const EmitRequest& request, const Choice& best) {
  const std::string made = name_of(best.compressor == nullptr ? Compressor{} : *best.compressor);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < request.groups.size(); ++i) {
    const std::string planned = name_of(compressor_of(request.plan, i));
    out.push_back(planned == made ? "" : fmt::format("{}, not {}", made, planned));
  }
  return out;
}

Emission emit_comm_hook(const EmitRequest& request) {
  Report report(target(), request);
  const Choice best = best_choice(report);
  report.made(best.groups, best.iteration_us, whys(request, best));
  const GradientTypes types = gradient_types(request.types, request.workload.profile->dtype);
  const Sizes bytes = gradient_bytes_in(types.own, request.workload);
  const DdpCaps caps = ddp_caps(bytes, best.groups);
  Behaviour behaviour = report.behaviour();
  behaviour.compresses = best.hook != nullptr;
  const OlderReleases older = older_releases(report, bytes, [&](const Groups& groups) {
    return request.iteration_us(behaviour, all_with(groups, best.groups.front().transfer));
  });
  note_types(report, types);
  if (best.compressor != nullptr)
    if (const std::string estimated = estimated_low_rank_costs(*best.compressor); !estimated.empty())
      report.note(fmt::format("PowerSGD: {}.", estimated));
  if (best.hook == nullptr)
    report.note(best.has_hook ? "No hook makes the iteration of these groups shorter."
                              : "The plan has no compressor that has a hook.");
  std::string text = report.heading();
  if (best.hook != nullptr)
    text += fmt::format("from torch.distributed.algorithms.ddp_comm_hooks import {}\n\n", best.hook->module);
  text += ddp_lines(caps, request);
  return {
      .text = text + (best.hook == nullptr ? converting_hook(types) : registration(best)) + older.text +
              report.remarks(),
      .json = report.json({{"bucket_cap_mb_list", caps.json()},
                           {"hook", best.hook == nullptr ? nlohmann::ordered_json() : best.hook->function},
                           {"hook_options", options_json(best)},
                           {"least_pytorch", "2.11"},
                           {"best_single_cap", older.best_single_cap},
                           {"best_single_cap_after_1_mib", older.after_1_mib},
                           {"best_single_cap_before_1_mib", older.before_1_mib}})};
}

}  // namespace

Emitter comm_hook_emitter() {
  return {"comm-hook", "PyTorch DistributedDataParallel: buckets compressed by a hook", emit_comm_hook,
          target};
}

}  // namespace planner
