#include "planner/advise/memory_front.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "planner/advise/memory_bound.hpp"
#include "planner/choose/fusion/blocks.hpp"
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
  std::reverse(layers.begin(), layers.end());
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

void check(const Setting& setting, const Schedule& schedule) {
  if (schedule.pipeline->program(1, schedule.options).sharding != Sharding::parameters)
    throw Unsupported("a schedule that shards parameters", std::string(schedule.pipeline->name),
                      "/schedules");
  if (!schedule.options.reshard_after_backward)
    throw Unsupported("parameters that are released after backward", "reshard_after_backward false",
                      "/schedules");
  if (!setting.conditions.memory) throw Unsupported("the key memory", "none", "/memory");
  check_activations(*setting.workload.profile);
  if (setting.conditions.workers_differ())
    throw Unsupported("workers that are alike", "jitter, failures or collectives rank by rank", "/memory");
  if (setting.costs.workers() == 1) throw Unsupported("at least 2 workers", "1");
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
      try_all();
      try_optimal();
    } else {
      search();
    }
    leave_out_alike();
    for (auto& [shape, plan] : front_) {
      plan.lower_bound_us =
          out_.is_exact && shape.unit != Unit::tensor ? plan.iteration_us : bound_us(shape.unit, plan);
      out_.plans.push_back(std::move(plan));
    }
    choose_plan();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kAllOf = 6;                // units of which all plans are tried, 3456 with 6
  static constexpr std::int64_t kMaxLooks = 600;          // at plans of the coarse units
  static constexpr std::int64_t kMaxFineLooks = 200;      // more of them to improve plans of finer units
  static constexpr std::size_t kMaxBounded = 100;         // units for which the relaxation is solved
  static constexpr std::size_t kMaxChannelBounded = 500;  // layers of which all ranges are priced

  std::uint32_t unit_count(Unit unit) const { return static_cast<std::uint32_t>(units_.of(unit).size()); }

  /// First what the relaxation of the coarse units leads to; then groups of single layers and the fastest
  /// groups without a cap, of which few are near a bound that says something.
  void search() {
    const Groups& coarse = units_.of(coarse_);
    const PipelineOptions options = for_model(schedule_.options, setting_.workload);
    if (coarse.size() <= kMaxBounded) bound_.emplace(setting_, transfers_.front(), coarse, options);
    if (units_.layers.size() <= kMaxChannelBounded)
      layer_bound_.emplace(setting_, transfers_.front(), units_.layers, options);
    max_looks_ = kMaxLooks;
    if (bound_) try_relaxed();
    try_plain();
    improve(coarse_);
    max_looks_ = std::numeric_limits<std::int64_t>::max();
    try_runs_of_layers();
    try_optimal();
    max_looks_ = out_.looked_at + kMaxFineLooks;
    if (coarse_ != Unit::layer) improve(Unit::layer);
    improve(Unit::tensor);
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

  /// No plan of such units that takes no more memory than this one is faster than this.
  double bound_us(Unit unit, const ShardedPlan& plan) {
    const auto [at, is_new] = bounds_us_.emplace(std::pair{unit, plan.peak_bytes}, of_all_us_);
    if (is_new && unit != Unit::tensor && layer_bound_)
      if (const auto channel = layer_bound_->least_channel_time(plan.peak_bytes))
        at->second = std::max(at->second, sim::to_us(*channel));
    if (is_new && unit == coarse_ && bound_) {
      double relaxed_us = std::numeric_limits<double>::max();
      for (const RelaxedPlan& each : bound_->best(plan.peak_bytes))
        relaxed_us = std::min(relaxed_us, sim::to_us(each.time));
      at->second = std::max(at->second, relaxed_us);
    }
    assert(at->second <= plan.iteration_us * (1 + 1e-9));
    return std::min(plan.iteration_us, at->second);  // equal times may be rounded differently
  }

  /// Plans that are best if nothing but the relaxation counts, for caps from none to what the least plan
  /// takes, ever closer to one another.
  void try_relaxed() {
    constexpr double kSteps = 0.8;
    constexpr double kLast = 0.01;
    const std::int64_t least = bound_->least_memory();
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    for (double share = 1; share > kLast; share *= kSteps) {
      const std::int64_t cap =
          share == 1 ? most : least + static_cast<std::int64_t>(share * static_cast<double>(most - least));
      const std::vector<RelaxedPlan> plans = bound_->best(cap);
      if (plans.empty()) break;
      for (const RelaxedPlan& plan : plans)
        for (const std::uint32_t ahead : {1U, 2U})
          look({coarse_, plan.units, plan.gathers_ahead ? ahead : 0,
                plan.gathers_ahead_in_backward ? ahead : 0, plan.kept});
      if (share == 1) most = front_.back().second.peak_bytes;
    }
  }

  /// Groups of equal numbers of units.
  void try_plain() {
    for (std::uint32_t size = 1; size <= unit_count(coarse_); size *= 2)
      for (const std::uint32_t ahead : {0U, 1U})
        for (const std::uint32_t kept : {0U, 1U}) look(in_runs(coarse_, size, ahead, kept));
    look(in_runs(coarse_, unit_count(coarse_), 1, 1));  // whose shares are rounded up least
    look_as_scheduled(in_runs(coarse_, 1, 1, 1));
  }

  /// The groups of fusion `layers`: each number of layers up to some, then some of the larger ones.
  void try_runs_of_layers() {
    constexpr std::uint32_t kEach = 16;
    const std::uint32_t count = unit_count(Unit::layer);
    for (std::uint32_t size = 1; size <= count; size += size < kEach ? 1 : size / 4) {
      for (const std::uint32_t ahead : {0U, 1U})
        for (const std::uint32_t kept : {0U, 1U}) look(in_runs(Unit::layer, size, ahead, kept));
      look_as_scheduled(in_runs(Unit::layer, size, 1, 1));
    }
  }

  /// The fastest groups under the schedule's own options, if nothing but time counts.
  void try_optimal() {
    if (units_.tensors.size() > kMaxOptimal) return;
    Schedule fastest = schedule_;
    fastest.fusion = {.kind = "optimal", .fuse = OptimalFusion()};
    const Choice choice = choose(setting_, fastest);
    Shape shape = {.unit = Unit::layer, .units = units_in(choice.groups, units_.layers)};
    if (shape.units.empty()) shape = {.unit = Unit::tensor, .units = units_in(choice.groups, units_.tensors)};
    if (!shape.units.empty()) look_as_scheduled(std::move(shape));
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

  /// Looks at these groups with the schedule's own options.
  void look_as_scheduled(Shape shape) {
    const PipelineOptions& options = schedule_.options;
    const auto groups = static_cast<std::uint32_t>(shape.units.size());
    shape.prefetch = std::min(groups, options.prefetch.value_or(1));
    shape.backward_prefetch = std::min(groups, options.backward_prefetch.value_or(shape.prefetch));
    shape.kept = std::min(groups, options.kept_groups.value_or(1));
    if (options.reshard_after_forward) shape.kept = *options.reshard_after_forward ? 0 : groups;
    look(shape);
  }

  /// Changes those of the best so far, of these units, that are farthest above their bound, until all are
  /// near it, nothing is new, or the looks are used up.
  void improve(Unit unit) {
    constexpr double kNear = 1.002;
    std::set<Shape> changed;
    while (out_.looked_at < max_looks_) {
      const Shape* farthest = nullptr;
      double most = kNear;
      for (const auto& [shape, plan] : front_) {
        if (shape.unit != unit) continue;
        const double above = plan.iteration_us / bound_us(unit, plan);
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

  void look(const Shape& shape) {
    if (!seen_.insert(shape).second || (!out_.is_exact && out_.looked_at >= max_looks_)) return;
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
    keep(shape, std::move(plan));
  }

  /// Keeps the plan unless one that is known is as good in both; drops those that it beats.
  void keep(const Shape& shape, ShardedPlan plan) {
    const auto beats = [](const ShardedPlan& a, const ShardedPlan& b) {
      return a.peak_bytes <= b.peak_bytes && a.iteration_us <= b.iteration_us;
    };
    if (std::any_of(front_.begin(), front_.end(),
                    [&](const auto& known) { return beats(known.second, plan); }))
      return;
    std::erase_if(front_, [&](const auto& known) { return beats(plan, known.second); });
    const auto place = std::find_if(front_.begin(), front_.end(), [&](const auto& known) {
      return known.second.peak_bytes > plan.peak_bytes;
    });
    front_.insert(place, {shape, std::move(plan)});
  }

  /// Leaves out plans that take longer and save less than a ten-thousandth of the memory, as shares that are
  /// rounded up do.
  void leave_out_alike() {
    constexpr std::int64_t kAlike = 10'000;
    if (out_.is_exact) return;
    for (std::size_t i = front_.size() - 1; i-- > 0;) {
      const std::int64_t bytes = front_[i + 1].second.peak_bytes;
      if (bytes - front_[i].second.peak_bytes < bytes / kAlike)
        front_.erase(front_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void choose_plan() {
    const std::int64_t cap =
        setting_.conditions.memory->cap_bytes.value_or(std::numeric_limits<std::int64_t>::max());
    std::size_t fitting = 0;
    while (fitting < out_.plans.size() && out_.plans[fitting].peak_bytes <= cap) ++fitting;
    if (fitting == 0)
      throw Unsupported(fmt::format("at least the {} bytes of the smallest plan of whole {} {}",
                                    out_.plans.front().peak_bytes, out_.plans.front().units,
                                    out_.is_exact ? "that there is" : "that was found"),
                        fmt::to_string(cap), "/memory/cap_bytes");
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
  std::set<Shape> seen_;
  std::optional<MemoryBound> bound_;        // of coarse units
  std::optional<MemoryBound> layer_bound_;  // for its channel time alone
  double of_all_us_ = 0;
  std::map<std::pair<Unit, std::int64_t>, double> bounds_us_;  // by units and memory
};

}  // namespace

MemoryFront memory_front(const Setting& setting, const Schedule& schedule) {
  check(setting, schedule);
  return within_clock([&] { return Search(setting, schedule).run(); });
}

Schedule schedule_of(const Schedule& schedule, const ShardedPlan& plan) {
  Schedule out = schedule;
  out.options = plan.options;
  out.fusion.fuse = [groups = plan.groups](const FusionRequest& /*request*/) { return Grouping(groups); };
  return out;
}

}  // namespace planner
