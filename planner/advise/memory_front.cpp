#include "planner/advise/memory_front.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "planner/choose/fusion/blocks.hpp"
#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/cost/least_rate.hpp"
#include "planner/run/memory.hpp"
#include "planner/run/metrics.hpp"
#include "planner/run/simulated.hpp"

namespace planner {
namespace {

using core::CollectiveKind;

/// A plan before it is simulated. Groups are given by the units in each, in backward order.
struct Shape {
  std::vector<std::uint32_t> units;
  std::uint32_t prefetch = 1;
  std::uint32_t backward_prefetch = 1;
  std::uint32_t kept = 1;

  auto key() const { return std::tie(units, prefetch, backward_prefetch, kept); }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

/// The parts that no group divides, in backward order: whole layers, or blocks if there are too many layers
/// to try everything.
Groups units_of(const Workload& workload, std::size_t max_layers) {
  Groups layers = layers_with_tensors(workload);
  std::reverse(layers.begin(), layers.end());
  if (layers.size() <= max_layers) return layers;
  return blocks_of(workload).value_or(layers);
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
  if (!setting.conditions.memory) throw Unsupported("the key memory", "none", "/memory");
  if (setting.conditions.workers_differ())
    throw Unsupported("workers that are alike", "jitter, failures or collectives rank by rank", "/memory");
  if (setting.costs.workers() == 1) throw Unsupported("at least 2 workers", "1");
}

/// Lower bounds of the iteration by what may be held.
class Bound {
 public:
  Bound(const Setting& setting, const Schedule& schedule, std::int64_t lasting)
      : setting_(setting), transfers_(make_transfers(setting, schedule)), lasting_(lasting) {
    Schedule keeping = schedule;
    keeping.options.reshard_after_forward = false;
    keeping.options.kept_groups.reset();
    of_all_us_ = lower_bound_us(request_of(setting, keeping));
  }

  /// Kept parameters are all held when backward begins, so everything beyond this memory is gathered again.
  double us(std::int64_t memory) const {
    const TransferCost& transfer = transfers_.front();
    const std::int64_t dense = setting_.workload.bytes();
    const double gathered = transfer.wire_bytes(CollectiveKind::all_gather, dense);
    const double again = std::max(0.0, gathered - static_cast<double>(memory - lasting_));
    const auto batches = static_cast<double>(setting_.conditions.accumulation_steps);
    const Extras& extras = setting_.extras;
    const double channel_us =
        batches * per_byte(CollectiveKind::all_gather, gathered) * (gathered + again) +
        per_byte(CollectiveKind::reduce_scatter, transfer.wire_bytes(CollectiveKind::reduce_scatter, dense)) *
            transfer.wire_bytes(CollectiveKind::reduce_scatter, dense);
    return std::max(of_all_us_,
                    channel_us + sim::to_us(extras.read + extras.lars + extras.lars_gather + extras.update));
  }

 private:
  double per_byte(CollectiveKind kind, double bytes) const {
    return least_us_per_byte(transfers_.front().costs().of(kind).curve, bytes);
  }

  const Setting& setting_;
  std::vector<TransferCost> transfers_;
  std::int64_t lasting_;
  double of_all_us_ = 0;
};

class Search {
 public:
  Search(const Setting& setting, const Schedule& schedule)
      : setting_(*setting.workload.profile, *setting.network, setting.costs.workers(),
                 setting.costs.algorithm(), one_iteration(setting)),
        schedule_(schedule),
        transfers_(make_transfers(setting_, schedule)),
        units_(units_of(setting_.workload, kAllOf)) {}

  MemoryFront run() && {
    out_.workers = setting_.costs.workers();
    out_.is_exact = units_.size() <= kAllOf;
    if (out_.is_exact)
      try_all();
    else
      improve();
    const Bound bound(setting_, schedule_, lasting_);
    for (auto& [shape, plan] : front_) {
      plan.lower_bound_us = std::min(plan.iteration_us, bound.us(plan.peak_bytes));
      out_.plans.push_back(std::move(plan));
    }
    choose_plan();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kAllOf = 6;  // units of which all plans are tried, 3456 with 6
  static constexpr std::int64_t kMaxLooks = 600;

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

  /// Plain plans first, then changes of those that are the best so far, until nothing is new or the looks are
  /// used up.
  void improve() {
    for (std::uint32_t size = 1; size <= unit_count(); size = size < 8 ? size + 1 : 2 * size)
      for (const std::uint32_t ahead : {1U, 2U})
        for (const std::uint32_t kept : {0U, 1U, unit_count()}) look(in_runs(size, ahead, kept));
    look(in_runs(unit_count(), 1, 1));  // whose shares are rounded up least
    std::set<Shape> changed;
    for (bool is_new = true; is_new && out_.looked_at < kMaxLooks;) {
      is_new = false;
      const std::vector<std::pair<Shape, ShardedPlan>> best = front_;
      for (const auto& [shape, plan] : best) {
        if (!changed.insert(shape).second) continue;
        is_new = true;
        for (const Shape& other : changes(shape)) look(other);
      }
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
    for (const std::uint32_t group : {0U, groups / 2, groups - 1}) change_group(shape, group, add);
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
    lasting_ = std::min(lasting_, lasting_of(memory));
    keep(shape, std::move(plan));
  }

  static std::int64_t lasting_of(const Memory& memory) {
    const MemoryBytes& bytes = memory.peak.bytes;
    std::int64_t out = 0;
    for (const MemoryPart part : {MemoryPart::parameters, MemoryPart::master, MemoryPart::optimizer})
      out += bytes[static_cast<std::size_t>(part)];
    return out;
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

  void choose_plan() {
    const std::int64_t cap =
        setting_.conditions.memory->cap_bytes.value_or(std::numeric_limits<std::int64_t>::max());
    std::size_t fitting = 0;
    while (fitting < out_.plans.size() && out_.plans[fitting].peak_bytes <= cap) ++fitting;
    if (fitting == 0)
      throw Unsupported(
          fmt::format("at least the {} bytes of the smallest plan", out_.plans.front().peak_bytes),
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
  std::int64_t lasting_ = std::numeric_limits<std::int64_t>::max();
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
