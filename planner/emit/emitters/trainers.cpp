// Libraries that wrap DistributedDataParallel and pass one number to it: accelerate, transformers and
// Lightning. Its type is a whole number of MiB. Since pull request 121640 PyTorch applies it to the first
// bucket too.

#include <algorithm>

#include <fmt/format.h>

#include "planner/emit/emitters/gradient_types.hpp"
#include "planner/emit/emitters/report.hpp"

namespace planner {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kDefaultMib = 25;  // of PyTorch, accelerate and transformers

Behaviour behaves(const PlanFile& /*plan*/, const Workload& /*workload*/) {
  return all_reduces("one all-reduce for each bucket of DistributedDataParallel, under backward");
}

/// The rule in whole MiB of the job's own gradients.
CapRule rule(const Workload& workload, const Behaviour& /*behaviour*/, const DataTypes& types) {
  const GradientTypes held = gradient_types(types, workload.profile->dtype);
  return [bytes = gradient_bytes_in(held.own, workload)](std::int64_t mib) {
    Capped out = close_at(bytes, mib * kMiB);
    if (out.next_cap > 0) out.next_cap = (out.next_cap + kMiB - 1) / kMiB;
    return out;
  };
}

const Target& target() {
  static const Target target = {
      .name = "trainers",
      .framework = "accelerate, transformers, Lightning",
      .behaves = behaves,
      .verified = {"PyTorch 2.13 made the buckets of one number (--emit ddp)."},
      .read_only =
          {"the options, of accelerate 1.15, transformers 5.24 and Lightning 2.6, which pass the number "
           "to DistributedDataParallel."},
      .does_not = {"take a list of caps.",
                   "apply the number to the first bucket before PyTorch pull request 121640: "
                   "there it holds 1 MiB."},
      .forms = Forms::one_number,
      .rule = rule};
  return target;
}

Emission emit_trainers(const EmitRequest& request) {
  Report report(target(), request);
  const core::Dtype dtype = request.workload.profile->dtype;
  const GradientTypes types = gradient_types(request.types, dtype);
  const BestCap best = best_cap(rule(request.workload, report.behaviour(), request.types),
                                [&](const Groups& groups) { return report.iteration_us(groups); });
  const std::int64_t most = best.max > 0 ? best.max : std::max(2 * best.min, kDefaultMib);
  const bool is_default = best.min <= kDefaultMib && kDefaultMib <= most;
  const std::int64_t number = is_default ? kDefaultMib : roundest(best.min, most, 10);
  report.made(best.groups);
  report.note(
      fmt::format("{} MiB{} is {}.", number, is_default ? ", the default," : "", Report::tried_text(best)));
  if (const std::string note = types_note("DistributedDataParallel", types, dtype); !note.empty())
    report.note(note);
  if (types.converts())
    report.note(fmt::format(
        "Gradients of {} are only reduced in {} with a communication hook: comm_hook of "
        "DistributedDataParallelKwargs, ddp_comm_hook of DDPStrategy; TrainingArguments has none.",
        core::name(types.own), core::name(types.sent)));
  return {
      .text = report.heading() +
              fmt::format("# transformers:\n"
                          "TrainingArguments(..., ddp_bucket_cap_mb={0})\n"
                          "# accelerate:\n"
                          "Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(bucket_cap_mb={0})])\n"
                          "# Lightning:\n"
                          "Trainer(..., strategy=DDPStrategy(bucket_cap_mb={0}))\n",
                          number) +
              report.remarks(),
      .json = report.json({{"groups", sizes_json(request.workload, best.groups)},
                           {"best_single_cap", report.best_cost("bucket_cap_mb", number, best)}})};
}

}  // namespace

Emitter trainers_emitter() {
  return {"trainers", "accelerate, transformers, Lightning: one bucket_cap_mb", emit_trainers, target};
}

}  // namespace planner
