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
#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/pipeline/whole_segments.hpp"
#include "planner/run/memory.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"

namespace planner {
namespace {

/// A plan before it is simulated. Groups are given by the units in each, in backward order.
struct Shape {
  std::vector<std::uint32_t> units;
  std::uint32_t prefetch = 1;
  std::uint32_t backward_prefetch = 1;
  std::uint32_t kept = 1;

  auto key() const { return std::tie(units, prefetch, backward_prefetch, kept); }
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

/// The parts that no group divides, in backward order: whole layers, or `blocks` if there are too many layers
/// to try everything; and whole segments of layers that are computed again.
struct Units {
  Groups all;
  std::string_view name;
};

Units units_of(const Setting& setting, const Schedule& schedule, std::size_t max_layers) {
  const Workload& workload = setting.workload;
  Groups layers = layers_with_tensors(workload);
  std::reverse(layers.begin(), layers.end());
  const Groups whole = undivided(setting, schedule.pipeline->program(workload.gradient_count(), {}));
  Groups units = joined(layers, whole);
  if (units.size() > max_layers)
    if (const std::optional<Groups> blocks = blocks_of(workload)) return {joined(*blocks, whole), "blocks"};
  return {std::move(units), "layers"};
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

/// A lower bound for groups of any tensors, without a cap.
double bound_of_all_us(const Setting& setting, const Schedule& schedule) {
  Schedule keeping = schedule;
  keeping.options.reshard_after_forward = false;
  keeping.options.kept_groups.reset();
  return lower_bound_us(request_of(setting, keeping));
}

class Search {
 public:
  Search(const Setting& setting, const Schedule& schedule)
      : setting_(*setting.workload.profile, *setting.network, setting.costs.workers(),
                 setting.costs.algorithm(), one_iteration(setting)),
        schedule_(schedule),
        transfers_(make_transfers(setting_, schedule)) {
    Units units = units_of(setting_, schedule, kAllOf);
    units_ = std::move(units.all);
    out_.units = units.name;
  }

  MemoryFront run() && {
    out_.workers = setting_.costs.workers();
    out_.is_exact = units_.size() <= kAllOf;
    if (out_.is_exact) {
      try_all();
    } else {
      if (units_.size() <= kMaxBounded) bound_.emplace(setting_, transfers_.front(), units_);
      of_all_us_ = bound_of_all_us(setting_, schedule_);
      if (bound_) try_relaxed();
      try_plain();
      improve();
    }
    leave_out_alike();
    for (auto& [shape, plan] : front_) {
      plan.lower_bound_us = out_.is_exact ? plan.iteration_us : bound_us(plan);
      out_.plans.push_back(std::move(plan));
    }
    choose_plan();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kAllOf = 6;  // units of which all plans are tried, 3456 with 6
  static constexpr std::int64_t kMaxLooks = 600;
  static constexpr std::size_t kMaxBounded = 100;  // units for which the relaxation is solved

  std::uint32_t unit_count() const { return static_cast<std::uint32_t>(units_.size()); }

  void try_all() {
    for (std::uint32_t cuts = 0; cuts < 1U << (unit_count() - 1); ++cuts) {
      std::vector<std::uint32_t> units = {1};
      for (std::uint32_t unit = 1; unit < unit_count(); ++unit) {
        if ((cuts >> (unit - 1)) % 2 == 1)
          units.push_back(1);
        else
          ++units.back();
      }
      const auto groups = static_cast<std::uint32_t>(units.size());
      for (std::uint32_t ahead = 0; ahead <= groups; ++ahead)
        for (std::uint32_t behind = 0; behind <= groups; ++behind)
          for (std::uint32_t kept = 0; kept <= groups; ++kept) look({units, ahead, behind, kept});
    }
  }

  double bound_us(const ShardedPlan& plan) {
    const auto [at, is_new] = bounds_us_.emplace(plan.peak_bytes, of_all_us_);
    if (is_new && bound_) {
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
          look({plan.units, plan.gathers_ahead ? ahead : 0, plan.gathers_ahead_in_backward ? ahead : 0,
                plan.kept});
      if (share == 1) most = front_.back().second.peak_bytes;
    }
  }

  /// Groups of equal numbers of units.
  void try_plain() {
    for (std::uint32_t size = 1; size <= unit_count(); size *= 2)
      for (const std::uint32_t ahead : {0U, 1U})
        for (const std::uint32_t kept : {0U, 1U}) look(in_runs(size, ahead, kept));
    look(in_runs(unit_count(), 1, 1));  // whose shares are rounded up least
  }

  /// Changes those of the best so far that are farthest above their bound, until all are near it, nothing is
  /// new, or the looks are used up.
  void improve() {
    constexpr double kNear = 1.002;
    std::set<Shape> changed;
    while (out_.looked_at < kMaxLooks) {
      const Shape* farthest = nullptr;
      double most = kNear;
      for (const auto& [shape, plan] : front_) {
        const double above = plan.iteration_us / bound_us(plan);
        if (above <= most || changed.contains(shape)) continue;
        most = above;
        farthest = &shape;
      }
      if (farthest == nullptr) return;
      changed.insert(*farthest);
      for (const Shape& other : changes(*farthest)) look(other);
    }
  }

  /// Groups of this many units, from the input side; the remainder is used last in forward.
  Shape in_runs(std::uint32_t size, std::uint32_t ahead, std::uint32_t kept) const {
    Shape out = {{}, ahead, ahead, 0};
    if (unit_count() % size != 0) out.units.push_back(unit_count() % size);
    out.units.insert(out.units.end(), unit_count() / size, size);
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
    for (const std::uint32_t count : shape.units) {
      out.push_back({.begin = units_[unit].begin, .end = units_[unit + count - 1].end});
      unit += count;
    }
    return out;
  }

  void look(const Shape& shape) {
    if (!seen_.insert(shape).second || (!out_.is_exact && out_.looked_at >= kMaxLooks)) return;
    ++out_.looked_at;
    ShardedPlan plan = {.groups = groups_of(shape), .options = schedule_.options};
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
                                    out_.plans.front().peak_bytes, out_.units,
                                    out_.is_exact ? "that there is" : "that was found"),
                        fmt::to_string(cap), "/memory/cap_bytes");
    out_.chosen = fitting - 1;
  }

  Setting setting_;
  const Schedule& schedule_;
  std::vector<TransferCost> transfers_;
  Groups units_;
  MemoryFront out_;
  std::vector<std::pair<Shape, ShardedPlan>> front_;  // by growing memory
  std::set<Shape> seen_;
  std::optional<MemoryBound> bound_;
  double of_all_us_ = 0;
  std::map<std::int64_t, double> bounds_us_;  // by memory
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
