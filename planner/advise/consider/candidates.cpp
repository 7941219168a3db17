#include "planner/advise/consider/candidates.hpp"

#include <algorithm>
#include <utility>

#include "core/field.hpp"
#include "planner/schedule/choice.hpp"

namespace planner::considered {
namespace {

bool takes_optimal(const Pipeline& pipeline) {
  return pipeline.takes_fusion == nullptr || pipeline.takes_fusion("optimal");
}

double sent_per_worker(const FusionRequest& request, const Groups& groups) {
  const Setting& setting = request.setting;
  if (setting.costs.workers() == 1) return 0;
  const auto steps = static_cast<std::uint32_t>(setting.conditions.accumulation_steps);
  double sent = 0;
  const Program program = request.program(groups.size());
  for (const Op& op : program.ops) {
    const Group& group = groups[op.group];
    const Payload payload = payload_of(setting.workload, group);
    sent += program.runs(op, steps) * request.transfers[group.transfer].sent_bytes(op.kind, payload);
  }
  if (setting.extras.lars_gather > sim::Time::zero())
    sent += setting.costs.of(core::CollectiveKind::all_gather).sent_per_byte * 4 *
            static_cast<double>(setting.workload.forward.size());
  return sent;
}

/// The same groups in a request that also offers their transfers.
Groups carried_over(const Plan& plan, const FusionRequest& request) {
  Groups out = plan.groups;
  for (Group& group : out) {
    const auto same = std::ranges::find_if(request.transfers, [&](const TransferCost& cost) {
      return cost.transfer() == plan.transfers[group.transfer].transfer();
    });
    group.transfer = static_cast<std::uint32_t>(same - request.transfers.begin());
  }
  return out;
}

}  // namespace

std::vector<TransferChoice> collective_choices(const Schedule& schedule) {
  std::vector<TransferChoice> out;
  for (const TransferChoice& choice : schedule.fusion.choices) {
    const TransferChoice plain = {.all_reduce = choice.all_reduce, .compressor = {}};
    if (plain.all_reduce && std::ranges::find(out, plain) == out.end()) out.push_back(plain);
  }
  return out;
}

Schedule dense_of(const Schedule& schedule) {
  Schedule dense = schedule;
  dense.compressor = {};
  dense.selective = false;
  dense.fusion.choices = collective_choices(schedule);
  if (schedule.fusion.kind == "optimal" || !takes_optimal(*schedule.pipeline)) return dense;
  dense.fusion.kind = "optimal";
  dense.fusion.searches = true;
  dense.fusion.fuse = read_fusion(core::Field::parse(R"("optimal")", "consider")).fuse;
  return dense;
}

Schedule compressed_of(const Schedule& dense, const Compressor& compressor, bool is_per_group) {
  Schedule out = dense;
  out.compressor = compressor;
  if (!is_per_group) return out;
  out.fusion.choices.push_back({.compressor = Compressor{}});
  for (const TransferChoice& choice : dense.fusion.choices)
    out.fusion.choices.push_back({.all_reduce = choice.all_reduce, .compressor = Compressor{}});
  return out;
}

Candidate described(const FusionRequest& request, const Schedule& schedule, const Groups& groups,
                    const Variant& variant, double factor) {
  Candidate out = {.compressor = variant.label,
                   .density = variant.density,
                   .schedule = schedule,
                   .groups = static_cast<std::int64_t>(groups.size()),
                   .iteration_us = iteration_us(request, groups),
                   .bytes_sent_per_worker = sent_per_worker(request, groups)};
  out.encoded_groups = std::ranges::count_if(groups, [&](const Group& group) {
    return request.transfers[group.transfer].is_encoded(payload_of(request.workload, group));
  });
  if (out.encoded_groups > 0) out.extra_iterations = factor;
  out.weighed_us = out.iteration_us * out.extra_iterations;
  return out;
}

Planned planned(const Setting& setting, const Schedule& schedule, const Variant& variant, double factor) {
  const FusionRequest request = request_of(setting, schedule);
  Grouping found = schedule.fusion.fuse(request);
  Planned out = {.candidate = described(request, schedule, found.groups, variant, factor)};
  if (found.proof) {
    out.candidate.optimality_gap_us = sim::to_us(found.proof->optimality_gap);
    const auto front = static_cast<double>(found.proof->largest_front);
    const double count = setting.workload.gradient_count();
    // truncated fronts are searched several times
    out.work = out.candidate.optimality_gap_us > 0 ? count * count * count : front * front * count / 10;
  }
  out.plan = {.groups = std::move(found.groups), .transfers = request.transfers};
  return out;
}

Groups with_better_transfers(const FusionRequest& request, Groups groups) {
  constexpr int kMaxEvaluations = 2000;
  sim::Time best = evaluate(request, groups);
  int evaluations = 0;
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (Group& group : groups) {
      const std::uint32_t before = group.transfer;
      std::uint32_t kept = before;
      for (std::uint32_t transfer = 0; transfer < request.transfers.size(); ++transfer) {
        if (transfer == before || ++evaluations > kMaxEvaluations) continue;
        group.transfer = transfer;
        const sim::Time value = evaluate(request, groups);
        if (value >= best) continue;
        best = value;
        kept = transfer;
        is_better = true;
      }
      group.transfer = kept;
    }
  }
  return groups;
}

Groups quick_choice(const FusionRequest& request, const Plan& dense, const Plan& compressed) {
  Groups first = with_better_transfers(request, carried_over(compressed, request));
  Groups second = with_better_transfers(request, carried_over(dense, request));
  return evaluate(request, second) < evaluate(request, first) ? second : first;
}

}  // namespace planner::considered
