#include "planner/consider/candidates.hpp"

#include <algorithm>
#include <utility>

#include "models/field.hpp"
#include "planner/predict.hpp"

namespace planner::considered {
namespace {

bool takes_optimal(const Pipeline& pipeline) {
  return pipeline.takes_fusion == nullptr || pipeline.takes_fusion("optimal");
}

double sent_per_worker(const Setting& setting, const FusionRequest& request, const Groups& groups) {
  if (setting.costs.workers() == 1) return 0;
  const auto steps = static_cast<std::uint32_t>(setting.conditions.accumulation_steps);
  double sent = 0;
  const Program program =
      request.pipeline.program(static_cast<std::uint32_t>(groups.size()), request.options);
  for (const Op& op : program.ops) {
    const Group& group = groups[op.group];
    const std::int64_t bytes = bytes_of(setting.workload, group);
    sent += Program::runs(op, steps) * request.ways[group.way].sent_bytes(op.kind, bytes);
  }
  if (setting.extras.lars_gather > sim::Time::zero())
    sent += setting.costs.of(traces::CollectiveKind::all_gather).sent_per_byte * 4 *
            static_cast<double>(setting.workload.forward.size());
  return sent;
}

/// The same groups in a request that offers their ways, too.
Groups carried_over(const Plan& plan, const FusionRequest& request) {
  Groups out = plan.groups;
  for (Group& group : out) {
    const auto same = std::find_if(request.ways.begin(), request.ways.end(), [&](const WayCost& cost) {
      return cost.way() == plan.ways[group.way].way();
    });
    group.way = static_cast<std::uint32_t>(same - request.ways.begin());
  }
  return out;
}

}  // namespace

std::vector<WayChoice> collective_choices(const Schedule& schedule) {
  std::vector<WayChoice> out;
  for (const WayChoice& choice : schedule.fusion.choices) {
    const WayChoice plain = {.all_reduce = choice.all_reduce, .compressor = {}};
    if (plain.all_reduce && std::find(out.begin(), out.end(), plain) == out.end()) out.push_back(plain);
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
  dense.fusion.fuse = read_fusion(models::Field::parse(R"("optimal")", "consider")).fuse;
  return dense;
}

Schedule compressed_of(const Schedule& dense, const Compressor& compressor, bool is_per_group) {
  Schedule out = dense;
  out.compressor = compressor;
  if (!is_per_group) return out;
  out.fusion.choices.push_back({.all_reduce = {}, .compressor = Compressor{}});
  for (const WayChoice& choice : dense.fusion.choices)
    out.fusion.choices.push_back({.all_reduce = choice.all_reduce, .compressor = Compressor{}});
  return out;
}

Candidate described(const Setting& setting, const FusionRequest& request, const Groups& groups,
                    const Variant& variant, double factor) {
  Candidate out = {.compressor = variant.label,
                   .density = variant.density,
                   .schedule = request.schedule,
                   .groups = static_cast<std::int64_t>(groups.size()),
                   .iteration_us = iteration_us(setting, request, groups),
                   .bytes_sent_per_worker = sent_per_worker(setting, request, groups)};
  out.encoded_groups = std::count_if(groups.begin(), groups.end(), [&](const Group& group) {
    return request.ways[group.way].is_encoded(bytes_of(setting.workload, group));
  });
  if (out.encoded_groups > 0) out.extra_iterations = factor;
  out.weighed_us = out.iteration_us * out.extra_iterations;
  return out;
}

Planned planned(const Setting& setting, const Schedule& schedule, const Variant& variant, double factor) {
  const FusionRequest request(setting, schedule);
  Groups groups = schedule.fusion.fuse(request);
  Planned out = {.candidate = described(setting, request, groups, variant, factor), .plan = {}};
  if (request.proof) {
    out.candidate.may_be_off_by_us = sim::to_us(request.proof->may_be_off_by);
    const auto front = static_cast<double>(request.proof->largest_front);
    const double count = setting.workload.gradient_count();
    // fronts that had to be cut short are gone through several times
    out.work = out.candidate.may_be_off_by_us > 0 ? count * count * count : front * front * count / 10;
  }
  out.plan = {.groups = std::move(groups), .ways = request.ways};
  return out;
}

Groups with_better_ways(const FusionRequest& request, Groups groups) {
  constexpr int kMostLooks = 2000;
  sim::Time best = evaluate(request, groups);
  int looks = 0;
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (Group& group : groups) {
      const std::uint32_t before = group.way;
      std::uint32_t kept = before;
      for (std::uint32_t way = 0; way < request.ways.size(); ++way) {
        if (way == before || ++looks > kMostLooks) continue;
        group.way = way;
        const sim::Time value = evaluate(request, groups);
        if (value >= best) continue;
        best = value;
        kept = way;
        is_better = true;
      }
      group.way = kept;
    }
  }
  return groups;
}

Groups quick_choice(const FusionRequest& request, const Plan& dense, const Plan& compressed) {
  Groups first = with_better_ways(request, carried_over(compressed, request));
  Groups second = with_better_ways(request, carried_over(dense, request));
  return evaluate(request, second) < evaluate(request, first) ? second : first;
}

}  // namespace planner::considered
