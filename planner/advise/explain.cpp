#include "planner/advise/explain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/scaled.hpp"
#include "planner/cost/derived.hpp"
#include "planner/job/names.hpp"

namespace planner {
namespace {

using sim::Span;
using sim::Time;
using Kind = TaskLabel::Kind;

/// Called before a step, which it names.
using OnStep = std::function<void(const std::string& what)>;

// ---- what happened

/// A collective of a group.
struct Sent {
  Span span;
  sim::StreamId stream{};
  core::CollectiveKind kind{};
};

/// One iteration in the middle of the run.
struct Observed {
  Time backward_begins{};
  std::vector<std::vector<Sent>> collectives;  ///< of this iteration, by group
  std::vector<std::optional<Sent>> first;      ///< by group: that of its gradients, of the last micro-batch
  std::vector<Time> sendable;                  ///< by group
  std::vector<Span> computing;                 ///< of the first worker, in order, over all iterations
  std::multimap<Time, Sent> communicating;     ///< by end, over all iterations
  std::set<Time> ticks;                        ///< over all iterations
  bool gathers = false;                        ///< what is no gradients, in all-gathers
};

/// The collective that a group's gradients wait for the channel to run, before any other one of the group.
core::CollectiveKind first_kind(const Program& program) {
  const auto is_for_gradients = [](const Op& op) {
    return op.issue == Issue::gradients || op.issue == Issue::backward_end;
  };
  return std::ranges::find_if(program.ops, is_for_gradients)->kind;
}

Observed observe(const Setting& setting, const Simulated& simulated) {
  const std::uint32_t iteration = setting.conditions.iterations > 1 ? 1 : 0;
  const core::CollectiveKind first = first_kind(simulated.program);
  Observed out;
  out.gathers = !simulated.program.has_all_reduces_alone();
  out.backward_begins = Time::max();
  out.collectives.resize(simulated.groups.size());
  out.first.resize(simulated.groups.size());
  out.sendable.resize(simulated.groups.size());
  std::vector<Time> step_ends(setting.workload.backward.size());
  const auto tasks = simulated.lowered.graph.tasks();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskLabel label = TaskLabel::unpack(tasks[i].label);
    const Span& span = simulated.timeline.spans[i];
    const auto collective = TaskLabel::collective(label.kind);
    if (tasks[i].stream == Lowered::kCompute && span.start < span.end) out.computing.push_back(span);
    if (label.kind == Kind::tick) out.ticks.insert(span.end);
    if (collective)
      out.communicating.emplace(span.end, Sent{.span = span, .stream = tasks[i].stream, .kind = *collective});
    if (label.iteration != iteration) continue;
    if (collective) {
      const std::size_t group = label.item % simulated.groups.size();
      const Sent sent = {.span = span, .stream = tasks[i].stream, .kind = *collective};
      out.collectives[group].push_back(sent);
      // compressed gradients may travel in an all-gather
      if (*collective == first || simulated.program.has_all_reduces_alone()) out.first[group] = sent;
    }
    if (tasks[i].stream != Lowered::kCompute) continue;
    if (label.kind == Kind::encode) out.sendable[label.item] = span.end;
    if (label.kind != Kind::backward || label.item >= step_ends.size()) continue;
    step_ends[label.item] = span.end;
    out.backward_begins = std::min(out.backward_begins, span.start);
  }
  std::ranges::sort(out.computing, {}, &Span::start);
  const bool after_backward = simulated.program.ops.front().issue == Issue::backward_end;
  for (std::size_t g = 0; g < simulated.groups.size(); ++g) {
    const std::uint32_t step = setting.workload.gradients[simulated.groups[g].end - 1].backward_step;
    const Time ready = after_backward ? step_ends.back() : step_ends[step];
    out.sendable[g] = std::max(out.sendable[g], ready);
  }
  return out;
}

/// What ended when a collective started, which could be sent from `sendable` on.
std::string waited_for(const Observed& seen, const Sent& sent, Time sendable) {
  const Time start = sent.span.start;
  if (start == sendable) return "gradients";
  const auto [begin, end] = seen.communicating.equal_range(start);
  for (auto earlier = begin; earlier != end; ++earlier) {
    if (earlier->second.stream != sent.stream) continue;
    const bool is_other_gather = seen.gathers && earlier->second.kind == core::CollectiveKind::all_gather &&
                                 sent.kind != core::CollectiveKind::all_gather;
    return is_other_gather ? "gather" : "channel";
  }
  if (seen.ticks.contains(start)) return "tick";
  return begin != end ? "scatters" : "workers";
}

// ---- what would happen

/// The iteration time if two neighbouring groups are merged, with the better of their transfers.
std::optional<double> merged_us(const Groups& groups, std::size_t g, const IterationOf& iteration_of) {
  std::optional<double> best;
  for (const std::size_t keeps : {g, g + 1}) {
    if (keeps != g && groups[keeps].transfer == groups[g].transfer) break;
    Groups other = groups;
    other[g] = {.begin = groups[g].begin,
                .end = groups[g + 1].end,
                .tick = groups[g + 1].tick,
                .transfer = groups[keeps].transfer};
    other.erase(other.begin() + static_cast<std::ptrdiff_t>(g) + 1);
    const std::optional<double> us = iteration_of(other);
    if (us && (!best || *us < *best)) best = us;
  }
  return best;
}

void add_split(const Workload& workload, const Groups& groups, std::size_t g, double planned_us,
               const IterationOf& iteration_of, GroupReason& reason) {
  for (std::uint32_t cut = groups[g].begin + 1; cut < groups[g].end; ++cut) {
    Groups other = groups;
    other[g].end = cut;
    Group rest = groups[g];
    rest.begin = cut;
    other.insert(other.begin() + static_cast<std::ptrdiff_t>(g) + 1, rest);
    const std::optional<double> us = iteration_of(other);
    if (!us || (reason.splitting_costs_us && *us - planned_us >= *reason.splitting_costs_us)) continue;
    reason.splitting_costs_us = *us - planned_us;
    reason.split_after = tensor_name(workload, cut - 1);
  }
}

std::vector<GroupReason> reasons(const Setting& setting, const FusionRequest& request,
                                 const Simulated& simulated, const OnStep& on_step) {
  const Observed seen = observe(setting, simulated);
  const double planned_us = iteration_us(request, simulated.groups);
  std::vector<GroupReason> out;
  for (std::size_t g = 0; g < simulated.groups.size(); ++g) {
    const Group& group = simulated.groups[g];
    on_step(fmt::format("boundaries of group {}", g + 1));
    GroupReason reason = {.first_tensor = tensor_name(setting.workload, group.begin),
                          .last_tensor = tensor_name(setting.workload, group.end - 1),
                          .bytes = bytes_of(setting.workload, group)};
    const auto since = [&](Time time) { return sim::to_us(time - seen.backward_begins); };
    reason.sendable_us = since(seen.sendable[g]);
    if (const std::optional<Sent>& first = seen.first[g]) {
      reason.start_us = since(first->span.start);
      reason.end_us = since(first->span.end);
      reason.waited_for = waited_for(seen, *first, seen.sendable[g]);
    }
    for (const Sent& sent : seen.collectives[g]) {
      const double us = sim::to_us(sent.span.end - sent.span.start - overlap(sent.span, seen.computing));
      reason.exposed_us += us;
      reason.exposed_by_kind[sent.kind] += us;
    }
    add_boundary_costs(
        request.workload, simulated.groups, g, planned_us,
        [&](const Groups& other) { return iteration_us(request, other); }, reason);
    out.push_back(std::move(reason));
  }
  return out;
}

/// Replaces profile or network; everything else stays.
struct Inputs {
  core::Profile profile;
  core::Network network;
};

double best_us(const Setting& setting, const Schedule& schedule) {
  const Schedule best = with_optimal_fusion(schedule);
  const FusionRequest request = request_of(setting, best);
  return iteration_us(request, request.model().optimal({}).groups);
}

WhatIf what_if(const std::string& change, const Setting& setting, const Schedule& schedule,
               const Groups& groups, const Inputs& inputs) {
  Conditions conditions = setting.conditions;
  conditions.jitter = {};
  const Setting other(inputs.profile, inputs.network, setting.costs.workers(), setting.costs.algorithm(),
                      conditions);
  const FusionRequest request = request_of(other, schedule);
  return {.change = change,
          .this_plan_us = iteration_us(request, groups),
          .best_plan_us = best_us(other, schedule)};
}

/// A schedule and the groups of its plan.
struct Grouped {
  Schedule schedule;
  Groups groups;
};

/// The plan if coding costs nothing.
Grouped with_free_coding(const Setting& setting, const Schedule& schedule, const CommunicationPlan& plan) {
  Grouped out = {.schedule = schedule, .groups = plan.groups};
  const auto make_free = [](Compressor& compressor) {
    compressor.encode = compressor.decode = compressor.in_transit = {};
    if (compressor.sparse) compressor.sparse->recompute_selection = {};
  };
  make_free(out.schedule.compressor);
  for (TransferChoice& choice : out.schedule.fusion.choices)
    if (choice.compressor) make_free(*choice.compressor);
  if (request_of(setting, out.schedule).transfers.size() != plan.transfers.size())
    for (Group& group : out.groups) group.transfer = 0;  // some transfers have become equal
  return out;
}

bool codes(const CommunicationPlan& plan) {
  return std::ranges::any_of(
      plan.transfers, [](const TransferCost& transfer) { return transfer.encodes() || transfer.decodes(); });
}

constexpr std::size_t kWhatIfs = 9;      ///< without that of coding
constexpr double kNearlyNothing = 1e-6;  ///< keeps times positive so that ratios are defined

/// An input and its values: what they are called, and the factors of its times.
struct ChangedInput {
  CombinedWhatIfs::Input input;
  std::vector<double> factors;
};

std::vector<ChangedInput> changed_inputs() {
  return {{{"startups", {"as given", "free", "half as long", "twice as long"}}, {1, 0, 0.5, 2}},
          {{"bandwidth", {"as given", "bytes free", "twice", "half"}}, {1, 0, 0.5, 2}},
          {{"compute", {"as given", "free", "twice as fast", "twice as slow"}}, {1, kNearlyNothing, 0.5, 2}}};
}

void add_what_ifs(const Setting& setting, const Schedule& schedule, const CommunicationPlan& plan,
                  bool combines, const OnStep& on_step, Explanation& out) {
  const core::Profile& profile = *setting.workload.profile;
  const core::Network network =
      with_derived(*setting.network, setting.costs.workers(), setting.costs.algorithm());
  const Grouped given = {.schedule = schedule, .groups = plan.groups};
  std::optional<Grouped> free;
  if (codes(plan)) free = with_free_coding(setting, schedule, plan);
  const auto with = [&](const std::string& change, const InputFactors& factors) {
    on_step("what if: " + change);
    const Grouped& grouped = factors.is_other_free ? *free : given;
    return what_if(change, setting, grouped.schedule, grouped.groups,
                   {.profile = core::scaled(profile, factors.compute),
                    .network = core::scaled(network, factors.startup, factors.per_byte)});
  };
  out.free.push_back(with("startups", {.startup = 0}));
  out.free.push_back(with("bytes", {.per_byte = 0}));
  out.free.push_back(with("forward and backward", {.compute = kNearlyNothing}));
  if (free) out.free.push_back(with("encoding and decoding", {.is_other_free = true}));
  const auto gains_max = std::ranges::min_element(out.free, {}, &WhatIf::best_plan_us);
  out.bound_by = gains_max->change;
  out.other.push_back(with("startups twice as long", {.startup = 2}));
  out.other.push_back(with("startups half as long", {.startup = 0.5}));
  out.other.push_back(with("half the bandwidth", {.per_byte = 2}));
  out.other.push_back(with("twice the bandwidth", {.per_byte = 0.5}));
  out.other.push_back(with("compute twice as slow", {.compute = 2}));
  out.other.push_back(with("compute twice as fast", {.compute = 0.5}));
  if (combines) out.combined = combined_what_ifs(free ? "encoding and decoding" : "", with);
}

// ---- bounds

/// The least time per byte in messages of at most this many bytes, whatever their number.
double least_us_per_byte(const core::CostCurve& curve, double bytes) {
  double out = curve.us(bytes) / bytes;
  const auto look = [&](double size) {
    if (size > 0 && size <= bytes) out = std::min(out, curve.us(size) / size);
  };
  constexpr double kJustBelow = 1 - 1e-9;
  for (const auto& [size, us] : curve.points()) look(size);
  for (const core::CostCurve::Segment& segment : curve.segments()) {
    look(segment.from_bytes);
    look(kJustBelow * segment.to_bytes);
  }
  return out;
}

/// The least time in which the bytes of gradients can be sent, whatever the number of messages.
double least_us(const TransferCost& transfer, core::CollectiveKind kind, const Payload& all) {
  const double sent = transfer.wire_bytes(kind, all);
  return least_us_per_byte(transfer.costs().of(kind).curve, sent) * sent;
}

/// The least time for which all bytes keep the channel longer than compute can hide. Reduce-scatters hide
/// under backward and all-gathers under forward alone, as in equation 6 of DeAR; an all-reduce hides under
/// both.
double least_exposed_us(const CommunicationPlan& plan, const Payload& all, double micro_batches,
                        double forward_us, double backward_us) {
  using core::CollectiveKind;
  const auto least = [&](CollectiveKind kind) {
    double out = std::numeric_limits<double>::infinity();
    for (const TransferCost& transfer : plan.transfers) out = std::min(out, least_us(transfer, kind, all));
    return out;
  };
  const CollectiveKind first = plan.program.ops.front().kind;
  if (plan.program.has_all_reduces_alone())
    return std::max(0.0, least(CollectiveKind::all_reduce) - forward_us - backward_us);
  const double reducing = (plan.program.reduces_each_batch ? micro_batches : 1) *
                          least(first == CollectiveKind::all_reduce ? first : CollectiveKind::reduce_scatter);
  const double gathering = least(CollectiveKind::all_gather);
  if (first == CollectiveKind::all_gather)
    return std::max(0.0, reducing + gathering - forward_us - backward_us);
  return std::max(0.0, reducing - backward_us) + std::max(0.0, gathering - forward_us);
}

/// The speed-up with the least exposed communication that the costs in use allow, so that no schedule with
/// these transfers exceeds it. None if bytes travel encoded, or if more workers share the update.
std::optional<double> s_max(const Setting& setting, const CommunicationPlan& plan) {
  const Conditions& conditions = setting.conditions;
  if (conditions.parallel_tensor_operator) return std::nullopt;
  for (const TransferCost& transfer : plan.transfers)
    if (!transfer.transfer().compressor.is_none() || transfer.is_sparse()) return std::nullopt;
  const auto workers = static_cast<double>(setting.costs.workers());
  if (setting.costs.workers() == 1) return 1;
  const auto passes = static_cast<double>(conditions.accumulation_steps);
  const double forward = passes * sim::to_us(setting.workload.forward_total);
  const double backward = passes * sim::to_us(setting.workload.backward_total);
  const double all = forward + backward + conditions.optimizer_us + conditions.lars_us + conditions.lamb_us +
                     (conditions.read_is_overlapped ? 0 : conditions.read_us);
  return workers * all /
         (all + least_exposed_us(plan, payload_of_all(setting.workload), passes, forward, backward));
}

// ---- compression

/// Built-in compressors that the pipeline supports, without duplicates under other names.
std::vector<Compressor> candidates(const Setting& setting, const Schedule& schedule) {
  if (setting.costs.workers() == 1) return {};
  if (!schedule.pipeline->takes_compression || schedule.options.all_reduces ||
      has_types_of_its_own(setting, schedule))
    return {};
  const Program program = schedule.pipeline->program(1, schedule.options);
  const bool halves = !program.has_all_reduces_alone();
  const bool wide = setting.workload.profile->dtype == core::Dtype::float32;
  std::vector<Compressor> out;
  for (const BuiltInCompressor& known : built_in_compressors()) {
    const Compressor compressor = built_in_compressor(known.name);
    const bool summable = compressor.collective == core::CollectiveKind::all_reduce;
    if ((halves && !summable) || (summable && !wide)) continue;
    if (compressor.low_rank && (halves || !has_shapes(*setting.workload.profile))) continue;
    const bool is_known = std::ranges::any_of(out, [&](Compressor other) {
      other.name = compressor.name;
      return other == compressor;
    });
    if (!is_known) out.push_back(compressor);
  }
  return out;
}

/// The iteration time of the best plan on a network that is `times_slower` as slow per byte.
double best_on(const Setting& setting, const Schedule& schedule, double times_slower) {
  Conditions conditions = setting.conditions;
  conditions.jitter = {};
  const core::Network network = core::scaled(
      with_derived(*setting.network, setting.costs.workers(), setting.costs.algorithm()), 1, times_slower);
  const Setting other(*setting.workload.profile, network, setting.costs.workers(), setting.costs.algorithm(),
                      conditions);
  return best_us(other, schedule);
}

/// The slow-down from which compression pays, to 1 %, where savings grow with slower networks. On much faster
/// ones it may pay again, by fewer messages; so the search goes from this network, on which it `pays_here` or
/// not, one way only.
std::optional<double> pays_from(const Setting& setting, const Schedule& dense, const Schedule& compressed,
                                bool pays_here) {
  const auto pays = [&](double log2) {
    const double times_slower = std::exp2(log2);
    return best_on(setting, compressed, times_slower) < best_on(setting, dense, times_slower);
  };
  constexpr double kFurthest = 10;  // log2 of the limit, about 1,000 times slower or faster
  double no = pays_here ? -kFurthest : 0;
  double yes = pays_here ? 0 : kFurthest;
  if (pays_here && pays(no)) return 0;
  if (!pays_here && !pays(yes)) return std::nullopt;
  while (yes - no > 0.02) {
    const double middle = (yes + no) / 2;
    (pays(middle) ? yes : no) = middle;
  }
  return std::exp2(yes);
}

void add_compressors(const Setting& setting, const Schedule& schedule,
                     const std::vector<Compressor>& compressors, const OnStep& on_step, Explanation& out) {
  Schedule dense = schedule;
  dense.compressor = {};
  dense.selective = false;
  dense.fusion.choices.clear();
  out.best_uncompressed_us = best_us(setting, dense);
  const auto value_bytes = static_cast<double>(core::bytes_per_element(setting.workload.profile->dtype));
  for (const Compressor& compressor : compressors) {
    on_step("compression: " + compressor.name);
    Schedule compressed = dense;
    compressed.compressor = compressor;
    const double iteration_us = best_us(setting, compressed);
    out.compressors.push_back(
        {.name = compressor.name,
         .described = described(compressor, value_bytes),
         .density = kept_share(compressor, value_bytes),
         .iteration_us = iteration_us,
         .pays_from = pays_from(setting, dense, compressed, iteration_us < out.best_uncompressed_us)});
  }
}

}  // namespace

Time overlap(const Span& span, const std::vector<Span>& others) {
  Time out{};
  for (const Span& other : others)
    out += std::max(Time::zero(), std::min(span.end, other.end) - std::max(span.start, other.start));
  return out;
}

Schedule with_optimal_fusion(const Schedule& schedule) {
  Schedule best = schedule;
  best.fusion = read_fusion(core::Field::parse(R"("optimal")", "explain"));
  best.fusion.choices = schedule.fusion.choices;
  return best;
}

void add_boundary_costs(const Workload& workload, const Groups& groups, std::size_t group, double planned_us,
                        const IterationOf& iteration_of, GroupReason& reason) {
  if (group + 1 < groups.size())
    if (const std::optional<double> us = merged_us(groups, group, iteration_of))
      reason.merging_costs_us = *us - planned_us;
  add_split(workload, groups, group, planned_us, iteration_of, reason);
}

std::size_t combinations(bool has_other) {
  std::size_t out = has_other ? 2 : 1;
  for (const ChangedInput& each : changed_inputs()) out *= each.factors.size();
  return out;
}

CombinedWhatIfs combined_what_ifs(
    const std::string& other,
    const std::function<std::optional<WhatIf>(const std::string& change, const InputFactors&)>& what_if) {
  std::vector<ChangedInput> inputs = changed_inputs();
  if (!other.empty()) inputs.push_back({{other, {"as given", "free"}}, {1, 0}});
  CombinedWhatIfs out;
  for (const ChangedInput& each : inputs) out.inputs.push_back(each.input);
  const std::size_t total = combinations(!other.empty());
  for (std::size_t row = 0; row < total; ++row) {
    std::vector<double> factors(inputs.size());
    std::vector<std::string> changes;
    std::size_t rest = row;
    for (std::size_t i = inputs.size(); i-- > 0; rest /= inputs[i].factors.size()) {
      const std::size_t value = rest % inputs[i].factors.size();
      factors[i] = inputs[i].factors[value];
      if (value > 0)
        changes.insert(changes.begin(),
                       fmt::format("{} {}", inputs[i].input.name, inputs[i].input.values[value]));
    }
    out.rows.push_back(what_if(fmt::format("{}", fmt::join(changes, ", ")),
                               {.startup = factors[0],
                                .per_byte = factors[1],
                                .compute = factors[2],
                                .is_other_free = factors.back() == 0 && !other.empty()}));
  }
  return out;
}

Explanation explain(const Setting& setting, const Schedule& schedule, const Run& run,
                    const std::function<void(std::size_t total, const std::string& what)>& progress,
                    bool combines) {
  Conditions steady = setting.conditions;
  steady.jitter = {};
  const Setting calm(*setting.workload.profile, *setting.network, setting.costs.workers(),
                     setting.costs.algorithm(), steady);
  const FusionRequest request = request_of(calm, schedule);
  const Metrics& predicted = run.metrics;
  Explanation out;
  out.iteration_us = predicted.iteration_us;
  out.lower_bound_us = lower_bound_us(request);
  out.compute_us = predicted.forward_us + predicted.backward_us + predicted.encode_us + predicted.decode_us +
                   predicted.update_us + predicted.read_us;
  out.speedup = predicted.speedup;
  const std::vector<Compressor> compressors = candidates(calm, schedule);
  const bool has_coding = codes(run);
  const std::size_t total = run.groups.size() + kWhatIfs + (has_coding ? 1 : 0) + compressors.size() +
                            (combines ? combinations(has_coding) : 0);
  const OnStep on_step = [&](const std::string& what) {
    if (progress) progress(total, what);
  };
  out.groups = reasons(calm, request, run, on_step);
  out.s_max = s_max(calm, run);
  out.line_rate_gbps = setting.network->line_rate_gbps;
  add_what_ifs(calm, schedule, run, combines, on_step, out);
  add_compressors(calm, schedule, compressors, on_step, out);
  return out;
}

}  // namespace planner
