// Parameters gathered before passes (sharded).
//
// Groups are added in backward order. The rest of an iteration depends on the groups added so far through the
// times of ShardedProblem, each of which is a sum or maximum of times before it, so none falls when another
// grows: a partial grouping that is no better in any of them than another one can be dropped. They
// describe whole layers exactly where 0 or 1 groups are gathered ahead in each kind of pass, or 2 in forward,
// and at most one reduce-scatter may be in flight, or any number. Otherwise they are lower bounds, and so is
// the value.

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/choose/fusion/whole_layers.hpp"
#include "planner/choose/iteration_models.hpp"
#include "planner/choose/local_search.hpp"
#include "planner/choose/model_parts.hpp"
#include "planner/choose/simulate_iteration.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// How many groups are gathered ahead of compute; two only in forward passes.
enum class Ahead { none, one, two, several };

/// An early gather of forward begins as if one more were gathered ahead.
Ahead ahead_in_forward(const Program& program) {
  const std::uint64_t groups = program.prefetch.value_or(UINT32_MAX);
  const std::uint64_t number = groups + (program.gathers_early && groups > 0 ? 1 : 0);
  return number > 2 ? Ahead::several : static_cast<Ahead>(number);
}

Ahead ahead_in_backward(const Program& program) {
  const std::uint32_t number =
      (program.backward_prefetch ? program.backward_prefetch : program.prefetch).value_or(UINT32_MAX);
  return number > 1 ? Ahead::several : static_cast<Ahead>(number);
}

struct ShardedStep {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  Time gather{};
  Time scatter{};
  Time sum{};  ///< over shard groups
};

/// The times of backward count from its start. An iteration that gathers in several micro-batches has several
/// forward passes, all alike, and backward passes before the last, all alike, that scatter nothing.
class ShardedProblem {
 public:
  static constexpr std::size_t kStates = 12;
  using State = ParetoState<kStates>;
  using Step = ShardedStep;

  explicit ShardedProblem(const IterationSpec& spec)
      : spec_(spec),
        workload_(spec.workload),
        program_(spec.program(kProbed)),
        forward_ahead_(ahead_in_forward(program_)),
        backward_ahead_(ahead_in_backward(program_)),
        early_(program_.gathers_early && backward_ahead_ != Ahead::none),
        sums_(program_.has_channel_between() &&
              std::ranges::any_of(spec.transfers, &TransferCost::is_replicated)),
        kept_(kept_groups()),
        keeps_last_(kept_ < count() && !gathers_last_again()),
        forward_(workload_.gradients.size() + 1),
        starts_(workload_.gradients.size() + 1, workload_.backward_total) {
    std::vector<Time> layer_starts(workload_.forward.size());
    Time begin = workload_.backward_total;
    for (auto step = workload_.backward.size(); step-- > 0;) {
      begin -= workload_.backward[step].duration;
      layer_starts[workload_.backward[step].layer] = begin;
    }
    for (std::uint32_t i = 0; i < count(); ++i) {
      forward_[i + 1] = forward_from(workload_, workload_.gradients[i].first_layer);
      starts_[i] = layer_starts[workload_.gradients[i].last_layer];
    }
  }

  void prepare_bounds() {
    min_gathers_ = min_channel_time(spec_, CollectiveKind::all_gather);
    min_scatters_ = min_channel_time(spec_, CollectiveKind::reduce_scatter);
    min_sums_ = sums_ ? min_channel_time(spec_, CollectiveKind::all_reduce)
                      : std::vector<Time>(workload_.gradients.size() + 1);
    min_next_gather_ = min_next(CollectiveKind::all_gather);
    const std::vector<Time> min_next_scatter = min_next(CollectiveKind::reduce_scatter);
    min_last_sum_ = sums_ ? min_next(CollectiveKind::all_reduce)[count() - 1] : Time::zero();
    drained_.resize(min_gathers_.size());
    // Only if longer groups do not take less: those that hold gradient n may begin before it.
    const bool scatters = planner::longer_costs_more(spec_, CollectiveKind::reduce_scatter);
    const bool sums = sums_ && planner::longer_costs_more(spec_, CollectiveKind::all_reduce);
    for (std::uint32_t n = count(); n-- > 0;) {
      drained_[n] = drained_[n + 1];
      const Time ready = workload_.gradients[n].ready;
      if (scatters) drained_[n] = std::max(drained_[n], ready + min_scatters_[n] + min_last_sum_);
      if (sums) drained_[n] = std::max(drained_[n], ready + min_next_scatter[n] + min_sums_[n]);
    }
  }

  std::uint32_t count() const { return workload_.gradient_count(); }
  std::uint32_t transfers() const { return static_cast<std::uint32_t>(spec_.transfers.size()); }
  State start() const {
    State out = min(0);
    out[kScattered] = Time::zero();
    out[kArrival] = out[kEarlierArrival] = starts_[0];
    return out;
  }
  State min(std::uint32_t /*cut*/) const {
    State out{};
    if (early_)
      for (const std::size_t i : {kNextGather, kScattered, kChannel, kSummedChannel, kEarlierNextGather})
        out[i] = -workload_.forward_total;
    return out;
  }
  static bool longer_costs_more() { return false; }

  Step step(std::uint32_t begin, std::uint32_t end, std::uint32_t transfer, Time /*tick*/ = {}) const {
    const TransferCost& cost = spec_.transfers[transfer];
    const Payload payload = payload_between(workload_, begin, end);
    return {
        .begin = begin,
        .end = end,
        .gather = cost.time(CollectiveKind::all_gather, payload),
        .scatter = cost.time(CollectiveKind::reduce_scatter, payload),
        .sum = sums_ && cost.is_replicated() ? cost.time(CollectiveKind::all_reduce, payload) : Time::zero()};
  }

  State extend(State state, const Step& step) const {
    if (early_ && step.begin == 0) begin_early(state, step);
    State out{};
    add_forward(state, step, out);
    add_backward(state, step, out);
    if (batches() > 1) add_earlier(state, step, out);
    const Time groups(1 + state[kGroups].count());
    out[kGroups] = std::min(groups, Time(kept_ == kAll ? 0 : std::max(kept_, 1U)));
    if (step.end < count()) settle(out, step.end);
    return out;
  }

  Time bound(const State& state, std::uint32_t cut) const {
    const Extras& extras = spec_.extras;
    const std::int64_t gathering = program_.releases_between_batches ? batches() : 1;
    const Time earlier =
        batches() > 1 ? earlier_backward(state, cut) - workload_.backward_total : Time::zero();
    return extras.read + gathering * (forward(state, cut) - workload_.forward_total) +
           workload_.forward_total + (batches() - 1) * earlier + backward(state, cut) + extras.lars +
           extras.lars_gather + extras.update;
  }

 private:
  static constexpr std::uint32_t kProbed = 2;
  static constexpr std::uint32_t kAll = UINT32_MAX;

  // These two last from the first layer of the last group to the end of a forward pass that comes to it in
  // time.
  static constexpr std::size_t kForwardGathered = 0;  ///< ... from the issue of its gather; see add_forward()
  static constexpr std::size_t kForward = 1;          ///< ... from compute on
  // The next six are times in the last backward pass.
  static constexpr std::size_t kNextGather = 2;  ///< when the channel may begin the next group's gather
  static constexpr std::size_t kArrival = 3;     ///< when compute comes to the next group
  static constexpr std::size_t kScattered = 4;   ///< the last group's reduce-scatter ends, if compute decides
  static constexpr std::size_t kChannel = 5;     ///< ... if the next gather, less its own length, decides
  static constexpr std::size_t kSummed = 6;      ///< its sum over shard groups ends, if compute decides
  static constexpr std::size_t kSummedChannel = 7;  ///< ... if the next gather, less its own length, decides
  // The next two are times in the backward passes before the last, which are alike.
  static constexpr std::size_t kEarlierNextGather = 8;
  static constexpr std::size_t kEarlierArrival = 9;
  static constexpr std::size_t kGroups = 10;  ///< their number, up to that of kept groups
  /// From the end of the gather before the last group's; only if two are gathered ahead.
  static constexpr std::size_t kForwardChannel = 11;

  std::int64_t batches() const { return spec_.setting.conditions.accumulation_steps; }
  /// The number of groups that are kept after forward.
  std::uint32_t kept_groups() const {
    const PipelineOptions& options = spec_.options;
    return options.kept_groups.value_or(
        options.reshard_after_forward ? *options.reshard_after_forward ? 0 : kAll : 1);
  }
  /// Whether the last group of backward is gathered again, which FSDP2 leaves out where the model's input and
  /// output share it.
  bool gathers_last_again() const {
    const std::uint32_t groups = kept_ + 1;  // the fewest of which one is gathered again
    const Program program = spec_.program(groups);
    return std::ranges::any_of(
        program.ops, [&](const Op& op) { return op.issue == Issue::backward && op.group == groups - 1; });
  }
  bool is_gathered_next(const State& state) const { return state[kGroups].count() >= kept_; }
  bool is_gathered_again(const State& state, const Step& step) const {
    return is_gathered_next(state) && !(keeps_last_ && step.end == count());
  }

  /// Whether the cut divides a layer; the two groups are then waited for when compute comes to the layer.
  bool divides(std::uint32_t cut) const {
    return cut > 0 && cut < count() && workload_.gradients[cut - 1].layer == workload_.gradients[cut].layer;
  }
  /// The time between the last gradient before the cut and the start of the next group's layers; negative if
  /// the cut divides a layer.
  Time gap(std::uint32_t cut) const {
    return cut == 0 ? starts_[0] : starts_[cut] - workload_.gradients[cut - 1].ready;
  }

  /// The first gather of a backward pass may begin with the last group's forward pass, or with the whole one
  /// if that gathers nothing.
  void begin_early(State& state, const Step& step) const {
    const bool kept = !program_.releases_between_batches;  // from the first micro-batch on
    const Time of_group = -forward_[step.end];
    const Time whole = -workload_.forward_total;
    for (const std::size_t i : {kNextGather, kScattered, kChannel})
      state[i] = kept && batches() > 1 ? whole : of_group;
    state[kEarlierNextGather] = kept && batches() > 2 ? whole : of_group;
  }

  /// If one group is gathered ahead, that gather begins when the group's pass does, so from one group's pass
  /// to the next it takes the longer of compute and gather. If two are, let g be what remains from the end of
  /// a group's gather, f from the beginning of its pass. The next gather begins when this one has ended and
  /// the pass of the group before has begun; so for that group g is max(g, f) and a gather, and f is the
  /// longer of compute and f, and of g.
  void add_forward(const State& state, const Step& step, State& out) const {
    const Time compute = forward_[step.end] - forward_[step.begin];
    switch (forward_ahead_) {
      case Ahead::none: out[kForward] = state[kForward] + compute + step.gather; return;
      case Ahead::one:
        out[kForward] = std::max(state[kForwardGathered], state[kForward] + compute);
        out[kForwardGathered] = out[kForward] + step.gather;
        return;
      case Ahead::two:
        out[kForwardChannel] = state[kForwardGathered];
        out[kForward] = std::max(state[kForward] + compute, state[kForwardChannel]);
        out[kForwardGathered] = std::max(out[kForwardChannel], out[kForward]) + step.gather;
        return;
      case Ahead::several:
        out[kForwardGathered] = step.gather + std::max(forward_[step.end], state[kForwardGathered]);
    }
  }

  /// Raises times as far as that changes no later one, so that fewer states differ: the next group takes at
  /// least as long as the layer of its first gradient, and what follows its passes comes after that.
  void settle(State& state, std::uint32_t cut) const {
    const Time next_pass = state[kForward] + forward_[cut + 1] - forward_[cut];
    if (forward_ahead_ == Ahead::two) {
      state[kForwardGathered] = std::max({state[kForwardGathered], state[kForwardChannel], next_pass});
      state[kForwardChannel] = std::max(state[kForwardChannel], next_pass);
    }
    if (forward_ahead_ == Ahead::one) state[kForwardGathered] = std::max(state[kForwardGathered], next_pass);
    // An early gather behind a group that is kept begins with the end of the reduce-scatter.
    if (program_.scatters_in_flight == 0U || (early_ && !is_gathered_next(state))) return;
    state[kScattered] = std::max(state[kScattered], state[kArrival]);
    state[kSummed] = std::max(state[kSummed], state[kArrival]);
  }

  void add_backward(const State& state, const Step& step, State& out) const {
    const bool is_gathered = is_gathered_again(state, step);
    // Between groups that divide a layer, which both wait for it, only what holds in every order is counted.
    const bool divided = divides(step.begin);
    const Time gather = is_gathered ? step.gather : Time::zero();
    // The reduce-scatter of the group before comes after this group's gather, if that is ahead of compute.
    Time scattered = state[kScattered];
    if (backward_ahead_ == Ahead::one && !divided) scattered = std::max(scattered, state[kChannel] + gather);
    Time arrival = state[kArrival];
    if (program_.scatters_in_flight == 0U && step.begin > 0 && !divided)
      arrival = std::max(arrival, scattered + gap(step.begin));
    const Time gather_begins =
        backward_ahead_ != Ahead::none || divided ? state[kNextGather] : std::max(scattered, arrival);
    const Time gathered = gather_begins + gather;
    const Time begins = is_gathered ? std::max(arrival, gathered) : arrival;
    const Time ready = begins + workload_.gradients[step.end - 1].ready - starts_[step.begin];
    out[kNextGather] = gathered;
    if (backward_ahead_ == Ahead::one && !divided)
      out[kNextGather] = early_ && !is_gathered ? scattered : std::max(scattered, arrival);
    out[kArrival] = ready;
    if (program_.scatters_in_flight == 1U && !divides(step.end)) out[kArrival] = std::max(ready, scattered);
    out[kArrival] += gap(step.end);
    out[kScattered] = std::max(ready, scattered) + step.scatter;
    Time channel = out[kNextGather];
    if (divided || backward_ahead_ == Ahead::several) channel = std::max(channel, state[kChannel] + gather);
    out[kChannel] = channel + step.scatter;
    if (!sums_) return;
    const Time summed =
        std::max(state[kSummed],
                 backward_ahead_ == Ahead::one && !divided ? state[kSummedChannel] + gather : Time::zero());
    out[kSummed] = std::max(summed, out[kScattered]) + step.sum;
    out[kSummedChannel] = out[kChannel] + step.sum;
  }

  void add_earlier(const State& state, const Step& step, State& out) const {
    const bool is_gathered = is_gathered_again(state, step);
    const Time gather = is_gathered ? step.gather : Time::zero();
    Time begins = state[kEarlierArrival];
    if (backward_ahead_ == Ahead::none)
      begins += gather;
    else if (gather > Time::zero())
      begins = std::max(begins, state[kEarlierNextGather] + gather);
    const bool waits = backward_ahead_ == Ahead::one && (is_gathered || !early_);
    out[kEarlierNextGather] = waits ? begins : state[kEarlierNextGather] + gather;
    out[kEarlierArrival] = begins + starts_[step.end] - starts_[step.begin];
  }

  /// The least time of all further gathers before backward.
  Time min_further(const State& state, std::uint32_t cut) const {
    return is_gathered_next(state) && !keeps_last_ ? min_gathers_[cut] : Time::zero();
  }

  Time forward(const State& state, std::uint32_t cut) const {
    const Time compute = state[kForward] + workload_.forward_total - forward_[cut];
    if (forward_ahead_ == Ahead::none) return compute + rest(min_gathers_, cut);
    const Time gathered = state[kForwardGathered];
    const Time whole = forward_ahead_ != Ahead::several ? compute : workload_.forward_total;
    return std::max(whole, gathered + rest(min_gathers_, cut));
  }

  Time backward(const State& state, std::uint32_t cut) const {
    const Time scattered = std::max(state[kScattered], state[kChannel]);
    if (cut == count()) {
      const Time waits = program_.scatters_in_flight == 0U ? gap(cut) : Time::zero();
      return std::max({state[kArrival], scattered + waits, state[kSummed], state[kSummedChannel]});
    }
    const Time compute = workload_.backward_total - starts_[cut];
    const Time gathers = min_further(state, cut);
    const Time channel = std::max(state[kScattered], state[kChannel] + gathers) + min_scatters_[cut];
    Time out = std::max({channel + min_last_sum_, state[kArrival] - starts_[cut] + drained_[cut],
                         std::max(state[kSummed], state[kSummedChannel]) + min_sums_[cut]});
    if (backward_ahead_ == Ahead::none) return std::max(out, state[kArrival] + gathers + compute);
    const Time next = gathers > Time::zero() ? state[kNextGather] + min_next_gather_[cut] : Time::zero();
    return std::max(out, std::max(state[kArrival], next) + compute);
  }

  Time earlier_backward(const State& state, std::uint32_t cut) const {
    const Time compute = state[kEarlierArrival] + workload_.backward_total - starts_[cut];
    const Time gathers = cut < count() ? min_further(state, cut) : Time::zero();
    if (backward_ahead_ == Ahead::none) return compute + gathers;
    return std::max(compute, state[kEarlierNextGather] + gathers);
  }

  static Time rest(const std::vector<Time>& sums, std::uint32_t cut) {
    return sums.empty() ? Time::zero() : sums[cut];
  }

  /// By gradient: the least time of a group that begins there, if longer groups do not take less.
  std::vector<Time> min_next(CollectiveKind kind) const {
    std::vector<Time> out(workload_.gradients.size() + 1);
    if (!planner::longer_costs_more(spec_, kind)) return out;
    for (std::uint32_t n = 0; n < count(); ++n) {
      out[n] = Time::max();
      for (const TransferCost& transfer : spec_.transfers)
        out[n] = std::min(out[n], transfer.time(kind, payload_between(workload_, n, n + 1)));
    }
    return out;
  }

  const IterationSpec& spec_;
  const Workload& workload_;
  Program program_;
  Ahead forward_ahead_;
  Ahead backward_ahead_;
  bool early_;  ///< whether backward passes gather early
  bool sums_;   ///< whether there are several shard groups
  std::uint32_t kept_;
  bool keeps_last_;
  std::vector<Time> forward_;      // by cut: forward from the first layer of the groups before it
  std::vector<Time> starts_;       // by cut: when backward comes to what travels with the gradient after it
  std::vector<Time> min_gathers_;  // by cut: from there on; and the next two
  std::vector<Time> min_scatters_;
  std::vector<Time> min_sums_;
  std::vector<Time> min_next_gather_;
  Time min_last_sum_{};
  std::vector<Time> drained_;  // by cut: the least time to the end, if compute is never late
};

/// A lower bound of any grouping, and the value of those that ShardedProblem describes.
class Bound final : public IterationModel {
 public:
  Bound(const IterationSpec& spec, std::size_t max_front)
      : spec_(spec), problem_(spec), max_front_(max_front) {
    problem_.prepare_bounds();
  }

  Time value(const Groups& groups) const override {
    auto state = problem_.start();
    for (const Group& group : groups)
      state = problem_.extend(state, problem_.step(group.begin, group.end, group.transfer));
    return problem_.bound(state, problem_.count());
  }

  Time lower_bound() const override { return problem_.bound(problem_.start(), 0); }

  /// If these groups take longer than the bound, as they divide layers, good groups of whole layers.
  OptimalGroups optimal(const GroupRules& rules) const override {
    OptimalGroups found = search(rules, max_front());
    const GroupRules whole = of_whole_layers(rules);
    if (simulate_iteration(spec_, found.groups) > found.value &&
        Completions(whole, problem_.count()).possible())
      found.groups = search(whole, max_front()).groups;
    return found;
  }

 private:
  static constexpr std::size_t kFew = 8;

  /// Fronts are longer than in other models, as many groupings hide almost all communication.
  std::size_t max_front() const {
    constexpr std::size_t kWork = 33'000'000;
    const std::size_t count = problem_.count();
    return std::min(max_front_, std::max(kFew, std::min(max_kept(problem_.count(), problem_.transfers()),
                                                        kWork / count / count)));
  }

  /// There are even more ways to the simplest of the best. Where too many are dropped, simpler neighbours are
  /// looked for.
  OptimalGroups search(const GroupRules& rules, std::size_t most) const {
    constexpr std::size_t kShare = 40;
    OptimalGroups found = ParetoSearch(problem_, rules, most, std::max(kFew, most / kShare)).run();
    Improved near = improve({.rules = rules,
                             .transfers = problem_.transfers(),
                             .value = [this](const Groups& groups) { return value(groups); }},
                            std::move(found.groups));
    found.groups = std::move(near.groups);
    found.optimality_gap -= std::min(found.optimality_gap, found.value - near.value);
    found.value = near.value;
    return found;
  }

  GroupRules of_whole_layers(const GroupRules& rules) const {
    GroupRules out = rules.allow_everything() ? GroupRules(spec_.workload) : rules;
    for (const Group& layer : layers_with_tensors(spec_.workload))
      out.keep_together(layer.begin, layer.end - 1);
    return out;
  }

  const IterationSpec& spec_;
  ShardedProblem problem_;
  std::size_t max_front_;
};

/// Whole layers in `count` groups of about equal bytes.
Groups even_groups(const Workload& workload, const Groups& layers, std::int64_t count) {
  Groups out;
  std::int64_t filled = 0;  // number of groups filled so far, by bytes
  for (const Group& layer : layers) {
    const std::int64_t due =
        workload.bytes_before[layer.begin] / std::max<std::int64_t>(1, workload.bytes() / count);
    if (out.empty() || due > filled)
      out.push_back(layer);
    else
      out.back().end = layer.end;
    filled = due;
  }
  return out;
}

/// Runs of `length` layers from the input side; the remainder comes last.
Groups runs_of_layers(const Groups& layers, std::size_t length) {
  Groups out;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool begins = out.empty() || (layers.size() - i) % length == 0;
    if (begins)
      out.push_back(layers[i]);
    else
      out.back().end = layers[i].end;
  }
  return out;
}

/// Starts of the search. Few groups of whole layers are often best: two groups of any sizes, or more with
/// equal bytes or equal numbers of layers.
std::vector<Groups> starts(const Workload& workload) {
  constexpr std::size_t kMaxEven = 32;
  constexpr std::size_t kMaxLayers = 1000;  // each start takes one simulation
  Groups layers = layers_with_tensors(workload);
  std::ranges::reverse(layers);
  std::vector<Groups> out;
  for (std::size_t count = 3; count <= kMaxEven; ++count)
    out.push_back(even_groups(workload, layers, static_cast<std::int64_t>(count)));
  if (layers.size() > kMaxLayers) return out;
  for (std::size_t i = 1; i < layers.size(); ++i) {
    out.push_back(
        {{.begin = 0, .end = layers[i].begin}, {.begin = layers[i].begin, .end = workload.gradient_count()}});
    if (i * kMaxEven >= layers.size()) out.push_back(runs_of_layers(layers, i));
  }
  return out;
}

}  // namespace

std::unique_ptr<IterationModel> sharded_bound(const IterationSpec& spec, std::size_t max_front) {
  return std::make_unique<Bound>(spec, max_front);
}

std::unique_ptr<IterationModel> sharded_model(const IterationSpec& spec) {
  return simulated_model(spec, sharded_bound(spec), starts(spec.workload), two_phase_model(spec, true));
}

}  // namespace planner
