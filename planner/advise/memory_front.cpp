#include "planner/advise/memory_front.hpp"

#include <algorithm>
#include <cassert>
#include <future>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "planner/advise/memory_bound.hpp"
#include "planner/choose/fusion/optimal.hpp"
#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/choose/iteration_models.hpp"
#include "planner/pipeline/whole_segments.hpp"
#include "planner/run/memory.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"
#include "planner/schedule/choice.hpp"

namespace planner {
namespace {

/// What groups consist of, from coarse to fine.
enum class Unit : std::uint8_t { block, layer, tensor };

/// A plan before it is simulated. Groups are given by the units in each, in backward order.
struct Shape {
  Unit unit = Unit::layer;
  std::vector<std::uint32_t> units;
  std::uint32_t prefetch = 1;
  std::uint32_t backward_prefetch = 1;
  std::uint32_t kept = 1;

  auto key() const { return std::tie(unit, units, prefetch, backward_prefetch, kept); }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

/// Joins neighbours that have parts of the same range.
Groups joined(const Groups& units, const Groups& ranges) {
  Groups out;
  auto range = ranges.begin();
  for (const Group& unit : units) {
    while (range != ranges.end() && range->end <= unit.begin) ++range;
    if (!out.empty() && range != ranges.end() && range->begin < unit.begin)
      out.back().end = unit.end;
    else
      out.push_back(unit);
  }
  return out;
}

/// The units of each kind, in backward order. None divides a segment of layers that are computed again; there
/// are no blocks where the names of layers do not tell them.
struct Units {
  Groups blocks;
  Groups layers;
  Groups tensors;

  const Groups& of(Unit unit) const {
    return unit == Unit::block ? blocks : unit == Unit::layer ? layers : tensors;
  }
};

Units units_of(const Setting& setting, const Schedule& schedule) {
  const Workload& workload = setting.workload;
  const Groups whole = undivided(setting, schedule.pipeline->program(workload.gradient_count(), {}));
  Groups layers = layers_with_tensors(workload);
  std::ranges::reverse(layers);
  Groups tensors;
  for (std::uint32_t i = 0; i < workload.gradient_count(); ++i) tensors.push_back({.begin = i, .end = i + 1});
  Units out = {.blocks = {}, .layers = joined(layers, whole), .tensors = joined(tensors, whole)};
  if (const std::optional<Groups> blocks = blocks_of(workload)) out.blocks = joined(*blocks, whole);
  return out;
}

std::string_view name_of(Unit unit) {
  return unit == Unit::block ? "blocks" : unit == Unit::layer ? "layers" : "tensors";
}

Conditions one_iteration(const Setting& setting) {
  Conditions out = setting.conditions;
  out.iterations = 1;  // all are alike, as the channel drains in between
  return out;
}

/// Why there is no front.
std::optional<Unsupported> obstacle(const Setting& setting, const Schedule& schedule) {
  if (!schedule.pipeline->shards_parameters(schedule.options))
    return Unsupported("a schedule that shards parameters", std::string(schedule.pipeline->name),
                       "/schedules");
  if (!schedule.options.reshard_after_backward)
    return Unsupported("parameters that are released after backward", "reshard_after_backward false",
                       "/schedules");
  if (!setting.conditions.memory) return Unsupported("the key memory", "none", "/memory");
  if (setting.conditions.workers_differ())
    return Unsupported("workers that are alike", "jitter, failures or collectives rank by rank", "/memory");
  if (setting.costs.workers() == 1) return Unsupported("at least 2 workers", "1");
  return {};
}

/// Tensors of which the fastest groups are looked for; of more that takes too long.
constexpr std::size_t kMaxOptimal = 2000;

/// A lower bound for groups of any tensors, without a cap.
double bound_of_all_us(const Setting& setting, const Schedule& schedule) {
  Schedule keeping = schedule;
  keeping.options.reshard_after_forward = false;
  keeping.options.kept_groups.reset();
  const FusionRequest request = request_of(setting, keeping);
  const double any_us = lower_bound_us(request);
  if (request.slows() || setting.workload.gradient_count() > kMaxOptimal) return any_us;
  // gathered once, under a forward pass that never waits for what it has not reached
  const OptimalGroups relaxed = two_phase_model(request, true)->optimal(GroupRules());
  const Workload& workload = setting.workload;
  const sim::Time further =
      (setting.conditions.accumulation_steps - 1) * (workload.forward_total + workload.backward_total);
  return std::max(any_us, sim::to_us(relaxed.value - relaxed.optimality_gap + further));
}

class Search {
 public:
  Search(const Setting& setting, const Schedule& schedule)
      : setting_(*setting.workload.profile, *setting.network, setting.costs.workers(),
                 setting.costs.algorithm(), one_iteration(setting)),
        schedule_(schedule),
        transfers_(make_transfers(setting_, schedule)) {
    units_ = units_of(setting_, schedule);
    if (units_.layers.size() > kAllOf && !units_.blocks.empty()) coarse_ = Unit::block;
  }

  MemoryFront run() && {
    out_.workers = setting_.costs.workers();
    out_.is_exact = units_.layers.size() <= kAllOf;
    of_all_us_ = bound_of_all_us(setting_, schedule_);
    if (out_.is_exact) {
      begin_fastest();
      try_all();
      try_fastest();
    } else {
      search();
    }
    leave_out_alike();
    for (auto& [shape, plan] : front_) {
      plan.lower_bound_us = out_.is_exact && shape.unit != Unit::tensor
                                ? plan.iteration_us
                                : bound_us(shape.unit, plan.iteration_us, plan.peak_bytes, 0);
      out_.plans.push_back(std::move(plan));
    }
    choose_plan();
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kAllKept = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t kAllOf = 6;                 // units of which all plans are tried, 3456 with 6
  static constexpr std::int64_t kMaxLooks = 600;           // at plans of the coarse units
  static constexpr std::int64_t kMaxFineLooks = 200;       // more of them to improve plans of finer units
  static constexpr std::size_t kMaxBounded = 500;          // units of which all ranges are priced
  static constexpr std::int64_t kFewSteps = 200'000;       // of the relaxation, to tell which plans to change
  static constexpr std::int64_t kManySteps = 400'000;      // likewise, to find plans
  static constexpr std::int64_t kMostSteps = 16'000'000;   // likewise, for bounds that are printed
  static constexpr std::int64_t kStepsInAll = 40'000'000;  // likewise, for all bounds
  static constexpr std::size_t kAtOnce = 2;                // bounds, on threads of their own
  static constexpr double kNear = 1.01;                    // times a bound: not worth many steps
  static constexpr std::size_t kMaxSearched = 64;          // units of which the relaxation makes plans

  std::uint32_t unit_count(Unit unit) const { return static_cast<std::uint32_t>(units_.of(unit).size()); }

  /// First what the relaxation of the coarse units leads to; then groups of single layers and the fastest
  /// groups without a cap, of which few are near a bound that says something.
  void search() {
    begin_fastest();
    const PipelineOptions options = for_model(schedule_.options, setting_.workload);
    for (const Unit unit : {coarse_, Unit::layer}) {
      if (units_.of(unit).size() > kMaxBounded) continue;
      bounds_.try_emplace(unit, setting_, transfers_.front(), units_.of(unit), options);
      const Groups runs = runs_of(units_.of(unit));
      relaxations_.try_emplace(unit, Relaxation{MemoryBound(setting_, transfers_.front(), runs, options),
                                                units_in(runs, units_.of(unit))});
    }
    max_looks_ = kMaxLooks;
    try_plain();
    try_relaxed(coarse_);
    fill(coarse_);
    improve(coarse_);
    max_looks_ = std::numeric_limits<std::int64_t>::max();
    if (coarse_ != Unit::layer) try_relaxed(Unit::layer);
    try_runs_of_layers();
    try_buckets();
    try_fastest();
    max_looks_ = out_.looked_at + kMaxFineLooks;
    if (coarse_ != Unit::layer) {
      fill(Unit::layer);
      improve(Unit::layer);
    }
    improve(Unit::tensor);
    max_looks_ = std::numeric_limits<std::int64_t>::max();
    settle();
  }

  /// The units themselves; if they are too many, runs of them that have about as many bytes each.
  Groups runs_of(const Groups& units) const {
    if (units.size() <= kMaxSearched) return units;
    const std::int64_t most = 2 * setting_.workload.bytes() / static_cast<std::int64_t>(kMaxSearched);
    Groups out;
    for (const Group& unit : units) {
      if (!out.empty() && payload_between(setting_.workload, out.back().begin, unit.end).bytes <= most)
        out.back().end = unit.end;
      else
        out.push_back(unit);
    }
    return out;
  }

  void try_all() {
    const std::uint32_t count = unit_count(Unit::layer);
    for (std::uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
      std::vector<std::uint32_t> units = {1};
      for (std::uint32_t unit = 1; unit < count; ++unit) {
        if ((cuts >> (unit - 1)) % 2 == 1)
          units.push_back(1);
        else
          ++units.back();
      }
      const auto groups = static_cast<std::uint32_t>(units.size());
      for (std::uint32_t ahead = 0; ahead <= groups; ++ahead)
        for (std::uint32_t behind = 0; behind <= groups; ++behind)
          for (std::uint32_t kept = 0; kept <= groups; ++kept)
            look({Unit::layer, units, ahead, behind, kept});
    }
  }

  /// A time that no plan of some units beats within some memory.
  struct Bound {
    double us = 0;           ///< 0 if it was not worked out yet
    std::int64_t steps = 0;  ///< of the relaxation with which it was worked out
  };

  /// What the relaxation says of plans of some units within some memory.
  struct Relaxed {
    double us = 0;           ///< of its fastest plan, or of one that is known; 0 if that takes too many steps
    std::int64_t steps = 0;  ///< that it took
    std::vector<std::pair<Shape, GathersAhead>> plans = {};
  };

  /// No plan of such units within this memory is faster than this, as far as so many steps of the relaxation
  /// tell. A plan is known that takes `known_us`.
  double bound_us(Unit unit, double known_us, std::int64_t memory, std::int64_t steps) {
    Bound& known = known_bounds_[{unit, memory}];
    const auto bound = bounds_.find(unit);
    if (known.us == 0) {
      known.us = of_all_us_;
      if (bound != bounds_.end())
        if (const auto channel = bound->second.least_channel_time(memory))
          known.us = std::max(known.us, sim::to_us(*channel));
    }
    if (is_worth(unit, known_us, known, steps))
      add_bound(known, relaxed(unit, known_us, memory, steps), steps);
    assert(known.us <= known_us * (1 + 1e-9));
    return std::min(known_us, known.us);  // equal times may be rounded differently
  }

  bool is_worth(Unit unit, double known_us, const Bound& known, std::int64_t steps) const {
    return bounds_.contains(unit) && known.us * kNear < known_us && known.steps < steps;
  }

  static void add_bound(Bound& known, const Relaxed& relaxed, std::int64_t steps) {
    known.us = std::max(known.us, relaxed.us);
    known.steps = steps;
  }

  /// The fastest plans of the relaxation. They change nothing here, so that other threads may ask for others.
  Relaxed relaxed(Unit unit, double known_us, std::int64_t memory, std::int64_t steps) const {
    Relaxed out = {.us = known_us};
    for (const GathersAhead ahead : kGathersAhead) {
      RelaxationLimits limits = {.below = sim::from_us(out.us), .steps = steps};
      const auto found = bounds_.at(unit).best(memory, ahead, limits);
      out.steps += steps - std::max<std::int64_t>(limits.steps, 0);
      if (!found) {
        out.us = 0;
        return out;
      }
      if (!*found) continue;
      out.us = std::min(out.us, sim::to_us((*found)->time));
      out.plans.emplace_back(Shape{unit, (*found)->units, 1, 1, (*found)->kept}, ahead);
    }
    return out;
  }

  /// Works out the bounds of the best plans in more steps, those that are farthest above theirs first, and
  /// looks at the plans that these come from.
  void settle() {
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      const std::int64_t before = out_.looked_at;
      std::vector<std::pair<Shape, ShardedPlan>> plans = front_;
      const auto above = [&](const auto& each) {
        const ShardedPlan& plan = each.second;
        return plan.iteration_us / bound_us(each.first.unit, plan.iteration_us, plan.peak_bytes, 0);
      };
      std::ranges::for_each(plans, above);  // a bound for each, also for a plan that has no other to compare
      std::ranges::stable_sort(plans, [&](const auto& a, const auto& b) { return above(a) > above(b); });
      for (std::size_t i = 0; i < plans.size(); i += kAtOnce)
        settle(std::span(plans).subspan(i, std::min(kAtOnce, plans.size() - i)));
      if (out_.looked_at == before) return;
    }
  }

  /// Works out the bounds of these plans, each on a thread of its own, and looks at the plans that they come
  /// from.
  void settle(std::span<const std::pair<Shape, ShardedPlan>> plans) {
    const std::int64_t steps = std::min(kMostSteps, steps_left_);
    std::vector<std::future<Relaxed>> found(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const ShardedPlan& plan = plans[i].second;
      const Unit unit = plans[i].first.unit;
      if (is_worth(unit, plan.iteration_us, known_bounds_.at({unit, plan.peak_bytes}), steps))
        found[i] = std::async(
            i + 1 < plans.size() ? std::launch::async : std::launch::deferred,
            [this, unit, &plan, steps] { return relaxed(unit, plan.iteration_us, plan.peak_bytes, steps); });
    }
    for (std::size_t i = plans.size(); i-- > 0;) {
      if (!found[i].valid()) continue;
      const Relaxed bound = found[i].get();
      add_bound(known_bounds_.at({plans[i].first.unit, plans[i].second.peak_bytes}), bound, steps);
      steps_left_ -= bound.steps;
      for (const auto& [shape, ahead] : bound.plans) look_at(shape, ahead);
    }
  }

  /// Plans that are best if nothing but the relaxation counts, for caps from none to what the least plan
  /// takes, ever closer to one another; but not where they are not found in time.
  void try_relaxed(Unit unit) {
    constexpr double kSteps = 0.75;
    constexpr double kLast = 0.01;
    const auto found = relaxations_.find(unit);
    if (found == relaxations_.end()) return;
    const std::int64_t least = found->second.bound.least_memory();
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (double share = 1; share > kLast; share *= kSteps) {
      const std::int64_t cap =
          share == 1 ? most : least + static_cast<std::int64_t>(share * static_cast<double>(most - least));
      for (const GathersAhead ahead : kGathersAhead) look_at_relaxed(unit, cap, ahead, kManySteps);
      if (share == 1) most = front_.back().second.peak_bytes;
    }
  }

  /// Looks at the best plan of the relaxation, if it is faster than what is known; returns what it takes in
  /// truth.
  std::optional<std::int64_t> look_at_relaxed(Unit unit, std::int64_t cap, GathersAhead ahead,
                                              std::int64_t steps) {
    const Relaxation& relaxation = relaxations_.at(unit);
    sim::Time known = sim::Time::max();  // of the fastest plan within the cap
    for (const auto& [shape, plan] : front_)
      if (plan.peak_bytes <= cap) known = sim::from_us(plan.iteration_us);
    const auto [at, is_new] =
        relaxed_.try_emplace({unit, cap, ahead.in_forward, ahead.in_backward, known, steps});
    std::optional<RelaxedPlan>& plan = at->second;
    if (is_new) {
      RelaxationLimits limits = {.below = known, .steps = steps};
      plan = relaxation.bound.best(cap, ahead, limits).value_or(std::nullopt);
    }
    if (!plan) return {};
    Shape shape = {.unit = unit, .units = {}, .kept = plan->kept};
    std::size_t run = 0;
    for (const std::uint32_t runs : plan->units) {
      shape.units.push_back(0);
      for (std::uint32_t i = 0; i < runs; ++i) shape.units.back() += relaxation.sizes[run++];
    }
    return look_at(std::move(shape), ahead);
  }

  /// Looks at a plan of the relaxation; returns what it takes at least.
  std::optional<std::int64_t> look_at(Shape shape, GathersAhead ahead) {
    std::optional<std::int64_t> out;
    for (const std::uint32_t distance : {1U, 2U}) {
      shape.prefetch = ahead.in_forward ? distance : 0;
      shape.backward_prefetch = ahead.in_backward ? distance : 0;
      const std::optional<std::int64_t> peak = look(shape);
      if (peak) out = std::min(out.value_or(*peak), *peak);
    }
    return out;
  }

  /// Plans of the relaxation that take no more than this in truth: what it overlooks is taken off its cap.
  void try_within(Unit unit, std::int64_t memory) {
    constexpr int kTries = 4;
    if (!relaxations_.contains(unit)) return;
    for (const GathersAhead ahead : kGathersAhead) {
      std::int64_t cap = memory;
      for (int i = 0; i < kTries; ++i) {
        const std::optional<std::int64_t> peak = look_at_relaxed(unit, cap, ahead, kFewSteps);
        if (!peak || *peak <= memory) break;
        cap -= *peak - memory;
      }
    }
  }

  /// Groups of equal numbers of units.
  void try_plain() {
    for (std::uint32_t size = 1; size <= unit_count(coarse_); size *= 2)
      for (const std::uint32_t ahead : {0U, 1U})
        for (const std::uint32_t kept : {0U, 1U, kAllKept}) look(in_runs(coarse_, size, ahead, kept));
    look(in_runs(coarse_, unit_count(coarse_), 1, 1));  // whose shares are rounded up least
    look_under(in_runs(coarse_, 1, 1, 1), schedule_.options);
  }

  /// The groups of fusion `layers`: each number of layers up to some, then some of the larger ones.
  void try_runs_of_layers() {
    constexpr std::uint32_t kEach = 16;
    const std::uint32_t count = unit_count(Unit::layer);
    for (std::uint32_t size = 1; size <= count; size += size < kEach ? 1 : size / 4) {
      for (const std::uint32_t ahead : {0U, 1U})
        for (const std::uint32_t kept : {0U, 1U, kAllKept}) look(in_runs(Unit::layer, size, ahead, kept));
      look_under(in_runs(Unit::layer, size, 1, 1), schedule_.options);
    }
  }

  /// Options under which the fastest groups are looked for: the schedule's own, without resharding, and
  /// gathered two ahead.
  std::vector<PipelineOptions> options_for_fastest() const {
    std::vector<PipelineOptions> out(3, schedule_.options);
    out[1].reshard_after_forward = false;
    out[1].kept_groups.reset();
    out[2].reshard_after_forward = true;
    out[2].kept_groups.reset();
    out[2].prefetch = out[2].backward_prefetch = 2;
    return out;
  }

  /// The fastest groups if nothing but time counts; of many tensors nearly, as far as a bound tells.
  Groups fastest(const PipelineOptions& options) const {
    constexpr std::size_t kFew = 200;
    constexpr std::size_t kMaxFront = 8;  // more take ten times as long, and seldom lead to other fronts
    Schedule own = schedule_;
    own.options = options;
    own.fusion = {.kind = "optimal", .fuse = OptimalFusion()};
    if (units_.tensors.size() <= kFew) return choose(setting_, own).groups;
    const FusionRequest request = request_of(setting_, own);
    return sharded_bound(request, kMaxFront)->optimal(rules_of(request, {})).groups;
  }

  /// Begins to look for the fastest groups on other threads, as that needs nothing that the search finds.
  void begin_fastest() {
    if (units_.tensors.size() > kMaxOptimal) return;
    for (const PipelineOptions& options : options_for_fastest())
      fastest_.push_back(std::async(std::launch::async, [this, options] { return fastest(options); }));
  }

  /// Each of the fastest groupings is simulated under all of their options.
  void try_fastest() {
    for (std::future<Groups>& each : fastest_) {
      const Groups groups = each.get();
      const Shape shape = {.unit = Unit::tensor, .units = units_in(groups, units_.tensors)};
      if (shape.units.empty()) continue;
      for (const PipelineOptions& options : options_for_fastest()) look_under(shape, options);
    }
  }

  /// Groups of tensors up to some bytes, as data-parallel jobs fill their buckets.
  void try_buckets() {
    constexpr double kFewest = 2;
    constexpr double kMost = 400;
    constexpr double kStep = 1.2;
    for (double count = kFewest; count <= kMost; count *= kStep) {
      const auto cap = static_cast<std::int64_t>(static_cast<double>(setting_.workload.bytes()) / count);
      Shape shape = {.unit = Unit::tensor, .units = {}};
      std::int64_t bytes = 0;  // of the last group
      for (const Group& tensor : units_.tensors) {
        const std::int64_t own = payload_between(setting_.workload, tensor.begin, tensor.end).bytes;
        if (shape.units.empty() || bytes + own > cap) {
          shape.units.push_back(0);
          bytes = 0;
        }
        ++shape.units.back();
        bytes += own;
      }
      for (const std::uint32_t ahead : {1U, 2U})
        for (const std::uint32_t kept : {0U, 1U, kAllKept}) {
          shape.prefetch = shape.backward_prefetch = ahead;
          shape.kept = std::min(kept, static_cast<std::uint32_t>(shape.units.size()));
          look(shape);
        }
    }
  }

  /// The number of units in each group; none if a group divides one.
  static std::vector<std::uint32_t> units_in(const Groups& groups, const Groups& units) {
    std::vector<std::uint32_t> out;
    std::size_t unit = 0;
    for (const Group& group : groups) {
      out.push_back(0);
      for (; unit < units.size() && units[unit].end <= group.end; ++unit) ++out.back();
      if (unit == 0 || units[unit - 1].end != group.end) return {};
    }
    return out;
  }

  void look_under(Shape shape, const PipelineOptions& options) {
    const auto groups = static_cast<std::uint32_t>(shape.units.size());
    shape.prefetch = std::min(groups, options.prefetch.value_or(1));
    shape.backward_prefetch = std::min(groups, options.backward_prefetch.value_or(shape.prefetch));
    shape.kept = std::min(groups, options.kept_groups.value_or(1));
    if (options.reshard_after_forward) shape.kept = *options.reshard_after_forward ? 0 : groups;
    look(shape);
  }

  /// Looks for faster plans that take no more than those so far, and for such between them.
  void fill(Unit unit) {
    constexpr int kRounds = 3;
    for (int round = 0; round < kRounds; ++round) {
      const std::int64_t before = out_.looked_at;
      std::vector<std::int64_t> caps;
      for (const auto& [shape, plan] : front_)
        caps.insert(caps.end(), {plan.peak_bytes - 1, plan.peak_bytes});
      for (const std::int64_t cap : caps) try_within(unit, cap);
      if (out_.looked_at == before) return;
    }
  }

  /// Changes those of the best so far, of these units, that are farthest above their bound, until all are
  /// near it, nothing is new, or the looks are used up.
  void improve(Unit unit) {
    constexpr double kNearest = 1.002;
    std::set<Shape> changed;
    while (out_.looked_at < max_looks_) {
      const Shape* farthest = nullptr;
      double most = kNearest;
      for (const auto& [shape, plan] : front_) {
        if (shape.unit != unit) continue;
        const double above =
            plan.iteration_us / bound_us(unit, plan.iteration_us, plan.peak_bytes, kFewSteps);
        if (above <= most || changed.contains(shape)) continue;
        most = above;
        farthest = &shape;
      }
      if (farthest == nullptr) return;
      const Shape from = *farthest;
      changed.insert(from);
      for (const Shape& other : changes(from)) look(other);
    }
  }

  /// Groups of this many units, from the input side; the remainder is used last in forward.
  Shape in_runs(Unit unit, std::uint32_t size, std::uint32_t ahead, std::uint32_t kept) const {
    Shape out = {unit, {}, ahead, ahead, 0};
    const std::uint32_t count = unit_count(unit);
    if (count % size != 0) out.units.push_back(count % size);
    out.units.insert(out.units.end(), count / size, size);
    out.kept = std::min(kept, static_cast<std::uint32_t>(out.units.size()));
    return out;
  }

  std::vector<Shape> changes(const Shape& shape) const {
    std::vector<Shape> out;
    const auto groups = static_cast<std::uint32_t>(shape.units.size());
    const auto add = [&](auto change) {
      Shape other = shape;
      change(other);
      other.kept = std::min(other.kept, static_cast<std::uint32_t>(other.units.size()));
      out.push_back(std::move(other));
    };
    for (const std::uint32_t ahead : {shape.prefetch - 1, shape.prefetch + 1})
      if (ahead <= groups) add([&](Shape& other) { other.prefetch = ahead; });
    for (const std::uint32_t ahead : {shape.backward_prefetch - 1, shape.backward_prefetch + 1})
      if (ahead <= groups) add([&](Shape& other) { other.backward_prefetch = ahead; });
    for (const std::uint32_t kept :
         {shape.kept - 1, shape.kept + 1, shape.kept / 2, (shape.kept + groups) / 2})
      if (kept <= groups) add([&](Shape& other) { other.kept = kept; });
    constexpr std::uint32_t kChanged = 16;  // of more groups these many, evenly spread
    for (std::uint32_t i = 0; i < std::min(groups, kChanged); ++i)
      change_group(shape, groups <= kChanged ? i : i * (groups - 1) / (kChanged - 1), add);
    return out;
  }

  /// A group is halved, joined with the next, or gives a unit to it or takes one.
  template <typename Add>
  static void change_group(const Shape& shape, std::uint32_t group, const Add& add) {
    const auto at = static_cast<std::ptrdiff_t>(group);
    if (shape.units[group] > 1)
      add([&](Shape& other) {
        other.units.insert(other.units.begin() + at, shape.units[group] / 2);
        other.units[group + 1] -= shape.units[group] / 2;
      });
    if (group + 1 == shape.units.size()) return;
    add([&](Shape& other) {
      other.units[group + 1] += other.units[group];
      other.units.erase(other.units.begin() + at);
    });
    if (shape.units[group] > 1) add([&](Shape& other) { --other.units[group], ++other.units[group + 1]; });
    if (shape.units[group + 1] > 1)
      add([&](Shape& other) { ++other.units[group], --other.units[group + 1]; });
  }

  Groups groups_of(const Shape& shape) const {
    Groups out;
    std::size_t unit = 0;
    const Groups& units = units_.of(shape.unit);
    for (const std::uint32_t count : shape.units) {
      out.push_back({.begin = units[unit].begin, .end = units[unit + count - 1].end});
      unit += count;
    }
    return out;
  }

  /// The same groups as whole layers, if they divide none: more is known of those.
  Shape of_whole_layers(const Shape& shape) const {
    Shape out = shape;
    if (shape.unit != Unit::tensor) return out;
    const std::vector<std::uint32_t> layers = units_in(groups_of(shape), units_.layers);
    if (layers.empty()) return out;
    out.unit = Unit::layer;
    out.units = layers;
    return out;
  }

  /// Simulates the plan and keeps it if it is one of the best. Returns the memory that it takes, or nothing
  /// if enough plans were looked at.
  std::optional<std::int64_t> look(const Shape& given) {
    const Shape shape = of_whole_layers(given);
    if (const auto known = seen_.find(shape); known != seen_.end()) return known->second;
    if (!out_.is_exact && out_.looked_at >= max_looks_) return {};
    ++out_.looked_at;
    ShardedPlan plan = {
        .groups = groups_of(shape), .options = schedule_.options, .units = name_of(shape.unit)};
    plan.options.prefetch = shape.prefetch;
    plan.options.backward_prefetch = shape.backward_prefetch;
    plan.options.kept_groups = shape.kept;
    plan.options.reshard_after_forward.reset();
    Schedule own = schedule_;
    own.options = plan.options;
    const Simulated simulated = simulate_groups(setting_, own, plan.groups, transfers_, false);
    plan.iteration_us = std::max(sim::to_us(mean_iteration(simulated)), host_us(setting_));
    if (setting_.conditions.read_is_overlapped)
      plan.iteration_us = std::max(plan.iteration_us, setting_.conditions.read_us);
    const Memory memory = memory_of(setting_, simulated, simulated.timeline);
    plan.peak_bytes = total(memory.peak.bytes);
    out_.has_activations = memory.peak.has_activations;
    const std::int64_t peak = seen_[shape] = plan.peak_bytes;
    keep(shape, std::move(plan));
    return peak;
  }

  /// Keeps the plan unless one that is known is as good in both; drops those that it beats.
  void keep(const Shape& shape, ShardedPlan plan) {
    const auto beats = [](const ShardedPlan& a, const ShardedPlan& b) {
      return a.peak_bytes <= b.peak_bytes && a.iteration_us <= b.iteration_us;
    };
    if (std::ranges::any_of(front_, [&](const auto& known) { return beats(known.second, plan); })) return;
    std::erase_if(front_, [&](const auto& known) { return beats(plan, known.second); });
    const auto place = std::ranges::find_if(
        front_, [&](const auto& known) { return known.second.peak_bytes > plan.peak_bytes; });
    front_.insert(place, {shape, std::move(plan)});
  }

  std::int64_t cap() const {
    return setting_.conditions.memory->cap_bytes.value_or(std::numeric_limits<std::int64_t>::max());
  }

  /// Leaves out plans that take longer and save less than a ten-thousandth of the memory, as shares that are
  /// rounded up do; but not where only the slower one keeps to the cap.
  void leave_out_alike() {
    constexpr std::int64_t kAlike = 10'000;
    if (out_.is_exact) return;
    for (std::size_t i = front_.size() - 1; i-- > 0;) {
      const std::int64_t bytes = front_[i + 1].second.peak_bytes;
      if (bytes > cap() && front_[i].second.peak_bytes <= cap()) continue;
      if (bytes - front_[i].second.peak_bytes < bytes / kAlike)
        front_.erase(front_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void choose_plan() {
    std::size_t fitting = 0;
    while (fitting < out_.plans.size() && out_.plans[fitting].peak_bytes <= cap()) ++fitting;
    if (fitting == 0)
      throw Unsupported(fmt::format("at least the {} bytes of the smallest plan of whole {} {}",
                                    out_.plans.front().peak_bytes, out_.plans.front().units,
                                    out_.is_exact ? "that there is" : "that was found"),
                        fmt::to_string(cap()), "/memory/cap_bytes");
    out_.chosen = fitting - 1;
  }

  Setting setting_;
  const Schedule& schedule_;
  std::vector<TransferCost> transfers_;
  Units units_;
  Unit coarse_ = Unit::layer;  ///< those of which most plans are made
  std::int64_t max_looks_ = std::numeric_limits<std::int64_t>::max();
  MemoryFront out_;
  std::vector<std::pair<Shape, ShardedPlan>> front_;  // by growing memory
  std::map<Shape, std::int64_t> seen_;                // with the memory that each takes
  struct Relaxation {
    MemoryBound bound;
    std::vector<std::uint32_t> sizes;  ///< of its units
  };
  std::map<Unit, MemoryBound> bounds_;      // of coarse units and of layers
  std::map<Unit, Relaxation> relaxations_;  // likewise, of runs of these if they are many
  /// Plans of the relaxations, by what they were asked for.
  std::map<std::tuple<Unit, std::int64_t, bool, bool, sim::Time, std::int64_t>, std::optional<RelaxedPlan>>
      relaxed_;
  double of_all_us_ = 0;
  std::map<std::pair<Unit, std::int64_t>, Bound> known_bounds_;  // by units and memory
  std::int64_t steps_left_ = kStepsInAll;
  std::vector<std::future<Groups>> fastest_;
};

}  // namespace

bool has_memory_front(const Setting& setting, const Schedule& schedule) {
  return !obstacle(setting, schedule);
}

MemoryFront memory_front(const Setting& setting, const Schedule& schedule) {
  if (const auto none = obstacle(setting, schedule)) throw *none;
  check_activations(*setting.workload.profile);
  return within_clock([&] { return Search(setting, schedule).run(); });
}

Schedule schedule_of(const Schedule& schedule, const ShardedPlan& plan) {
  Schedule out = schedule;
  out.options = plan.options;
  out.fusion.searches = true;
  out.fusion.fuse = [groups = plan.groups](const FusionRequest& /*request*/) { return Grouping(groups); };
  return out;
}

}  // namespace planner
