#include "planner/advise/memory_bound.hpp"

#include <algorithm>
#include <numeric>

#include "planner/choose/bounds.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;

/// What activations take, as the profile says; nothing if it does not say so of all layers.
struct Activations {
  std::vector<std::int64_t> until;  ///< by number of layers n: in the passes of layer n - 1
  std::vector<std::int64_t> kept;  ///< by number of layers n: before layer n runs, or after its backward pass

  explicit Activations(const Setting& setting)
      : until(setting.workload.forward.size() + 1), kept(setting.workload.forward.size() + 1) {
    const std::vector<core::ProfileLayer>& layers = setting.workload.profile->layers;
    for (const core::ProfileLayer& layer : layers)
      if (!layer.activation_bytes) return;
    std::vector<std::uint32_t> first(layers.size());  // of the layer's segment
    std::iota(first.begin(), first.end(), 0U);
    if (setting.conditions.recompute)
      for (const Segment& segment : segments_of(*setting.workload.profile, *setting.conditions.recompute))
        std::fill(first.begin() + segment.first, first.begin() + segment.last + 1, segment.first);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      until[i + 1] = (first[i] == i ? kept[i] : until[i]) + *layers[i].activation_bytes;
      const bool ends = i + 1 == layers.size() || first[i + 1] == i + 1;
      kept[i + 1] = ends ? kept[first[i]] + *layers[i].activation_bytes : until[i + 1];
    }
  }
};

/// What activations take in the first backward step from a layer on that takes time, by layer; 0 if none
/// does.
std::vector<std::int64_t> in_next_steps(const Workload& workload, const Activations& activations) {
  std::vector<std::int64_t> out(workload.forward.size());
  for (const BackwardStep& step : workload.backward)
    if (step.duration > Time::zero()) out[step.layer] = activations.until[step.layer + 1];
  for (std::size_t layer = 1; layer < out.size(); ++layer)
    if (out[layer] == 0) out[layer] = out[layer - 1];
  return out;
}

}  // namespace

/// Fills in the units and their ranges.
class MemoryBound::Builder {
 public:
  Builder(MemoryBound& out, const TransferCost& transfer, const Groups& units)
      : out_(out),
        workload_(out.setting_.workload),
        transfer_(transfer),
        units_(units),
        activations_(out.setting_),
        in_next_step_(in_next_steps(workload_, activations_)),
        step_starts_({Time::zero()}),
        first_step_(workload_.forward.size()) {
    for (const BackwardStep& step : workload_.backward)
      step_starts_.push_back(step_starts_.back() + step.duration);
    for (auto step = static_cast<std::uint32_t>(workload_.backward.size()); step-- > 0;)
      first_step_[workload_.backward[step].layer] = step;
  }

  void run() {
    for (std::size_t i = 0; i < units_.size(); ++i) add_unit(i);
    add_sums();
    add_what_lasts();
    for (std::size_t begin = 0; begin < units_.size(); ++begin) add_ranges(begin);
  }

 private:
  bool takes_time(std::uint32_t step) const { return workload_.backward[step].duration > Time::zero(); }
  std::int64_t activations_in(std::size_t step) const {
    return activations_.until[workload_.backward[step].layer + 1];
  }

  void add_unit(std::size_t i) {
    const Group& group = units_[i];
    const Gradient& first = workload_.gradients[group.begin];
    const Gradient& last = workload_.gradients[group.end - 1];
    Unit& unit = out_.units_[i];
    unit.starts = step_starts_[first_step_[first.last_layer]];
    unit.ready = last.ready;
    unit.forward_from = forward_from(workload_, last.first_layer);
    unit.forward_after = forward_from(workload_, first.last_layer + 1);
    unit.activations_in_forward = activations_.until[first.last_layer + 1];
    unit.ends_in_time = takes_time(last.backward_step);
    unit.activations_at_end =
        unit.ends_in_time ? activations_.until[last.layer + 1] : activations_.kept[last.layer];
    unit.is_forward_in_time = workload_.forward[first.last_layer] > Time::zero();
    const std::uint32_t first_step =
        first.last_layer == first.layer ? first.backward_step : first_step_[first.last_layer];
    unit.begins_in_time = takes_time(first_step);
    unit.activations = in_next_step_[first.last_layer];
    for (std::uint32_t gradient = group.begin; gradient < group.end; ++gradient) {
      const Gradient& yielded = workload_.gradients[gradient];
      if (!takes_time(yielded.backward_step)) continue;
      const std::int64_t so_far =
          group_memory(out_.setting_, transfer_, {.begin = group.begin, .end = gradient + 1}).gradients;
      if (yielded.backward_step == first_step) unit.first_gradients = so_far;
      unit.within = std::max(unit.within, so_far + activations_.until[yielded.layer + 1]);
      unit.activations_within = std::max(unit.activations_within, activations_.until[yielded.layer + 1]);
    }
    const auto next_unit = i + 1 < units_.size()
                               ? first_step_[workload_.gradients[units_[i + 1].begin].last_layer]
                               : static_cast<std::uint32_t>(workload_.backward.size());
    for (std::uint32_t step = last.backward_step + 1; step < next_unit; ++step)
      if (takes_time(step)) {
        unit.activations_after = activations_in(step);
        break;
      }
  }

  /// What the units before each one take.
  void add_sums() {
    const auto profile_bytes = core::bytes_per_element(workload_.profile->dtype);
    const std::int64_t parameter_bytes = core::bytes_per_element(
        out_.setting_.conditions.data_types.parameters.value_or(workload_.profile->dtype));
    GroupMemory before;
    for (std::size_t i = 0; i < out_.units_.size(); ++i) {
      const bool is_end = i == units_.size();
      const std::uint32_t begin = is_end ? workload_.gradient_count() : units_[i].begin;
      before.share = transfer_.padded_bytes(payload_between(workload_, 0, begin)) / profile_bytes /
                     transfer_.workers() * parameter_bytes;
      out_.units_[i].before = before;
      if (is_end) break;
      const GroupMemory own = group_memory(out_.setting_, transfer_, units_[i]);
      before.gathered += own.gathered;
      before.gradients += own.gradients;
    }
  }

  void add_what_lasts() {
    const std::int64_t elements =
        transfer_.padded_bytes(payload_of_all(workload_)) / core::bytes_per_element(workload_.profile->dtype);
    const std::int64_t frozen =
        transfer_.frozen_bytes(payload_of_all(workload_)) / core::bytes_per_element(workload_.profile->dtype);
    const auto share = [&](std::int64_t all) {
      return (all + transfer_.workers() - 1) / transfer_.workers();
    };
    out_.lasting_ = lasting_bytes(out_.setting_, share(elements), share(frozen));
    for (std::size_t layer = 0; layer < workload_.forward.size(); ++layer)
      if (workload_.forward[layer] > Time::zero()) out_.between_passes_ = activations_.until[layer + 1];
    out_.between_passes_ += out_.accumulated(0);
    if (!out_.keeps_last_) return;
    out_.last_kept_ = group_memory(out_.setting_, transfer_, units_.back()).gathered;
    out_.keeps_last_between_ = out_.units_[units_.size() - 1].forward_from > Time::zero();
    if (out_.keeps_last_between_) out_.least_memory_ = out_.lasting_ + out_.between_passes_ + out_.last_kept_;
  }

  void add_ranges(std::size_t begin) {
    std::int64_t most_within = 0;
    bool takes_time = false;
    for (std::size_t end = begin + 1; end <= units_.size(); ++end) {
      const Payload payload = payload_between(workload_, units_[begin].begin, units_[end - 1].end);
      Range& own = out_.ranges_[begin * units_.size() + end - 1];
      own.memory =
          group_memory(out_.setting_, transfer_, {.begin = units_[begin].begin, .end = units_[end - 1].end});
      own.gather = transfer_.time(CollectiveKind::all_gather, payload);
      own.reduce = transfer_.time(CollectiveKind::reduce_scatter, payload);
      if (transfer_.is_replicated()) own.sum = transfer_.time(CollectiveKind::all_reduce, payload);
      if (end < units_.size()) own.last_gathered = out_.last_kept_;
      const Unit& last = out_.units_[end - 1];
      if (last.within > 0)
        most_within = std::max(
            most_within, out_.accumulates_ ? last.activations_within : last.before.gradients + last.within);
      own.most_within = most_within;
      takes_time = takes_time || last.within > 0;
      add_memory(own, begin, end, takes_time);
      if (end < units_.size()) add_reduced(own, end);
    }
    out_.least_memory_ =
        std::max(out_.least_memory_, out_.lasting_ + out_.range(begin, begin + 1).in_backward);
  }

  void add_memory(Range& own, std::size_t begin, std::size_t end, bool takes_time) const {
    const Unit& first = out_.units_[begin];
    const std::int64_t held = own.last_gathered + first.before.share;
    if (takes_time)
      own.in_backward = held + own.memory.gathered +
                        // with several micro-batches all gradients are there from the first one on
                        (out_.accumulates_ ? out_.accumulated(begin) + first.activations
                                           : own.most_within - first.before.gradients);
    const std::int64_t after = out_.units_[end - 1].activations_after;
    if (after > 0 && out_.sends_behind_)
      own.after_backward = held + own.memory.sent + out_.accumulated(end) + after;
  }

  void add_reduced(Range& own, std::size_t end) const {
    own.reduced = out_.units_[end].starts + own.reduce;
    const auto later = [&](const Unit& unit) { return unit.starts >= own.reduced; };
    const auto first = out_.units_.begin() + static_cast<std::ptrdiff_t>(end);
    own.next_reduced =
        static_cast<std::size_t>(std::find_if(first, out_.units_.end() - 1, later) - out_.units_.begin());
    const auto step = std::upper_bound(step_starts_.begin(), step_starts_.end(), own.reduced) - 1;
    if (step + 1 == step_starts_.end()) return;
    own.then = activations_in(static_cast<std::size_t>(step - step_starts_.begin()));
    if (!out_.accumulates_) own.then += out_.units_[std::max(own.next_reduced, end + 1) - 1].before.gradients;
  }

  MemoryBound& out_;
  const Workload& workload_;
  const TransferCost& transfer_;
  const Groups& units_;
  Activations activations_;
  std::vector<std::int64_t> in_next_step_;
  std::vector<Time> step_starts_;
  std::vector<std::uint32_t> first_step_;  // by layer
};

MemoryBound::MemoryBound(const Setting& setting, const TransferCost& transfer, const Groups& units,
                         const PipelineOptions& options)
    : setting_(setting),
      units_(units.size() + 1),
      ranges_(units.size() * units.size()),
      accumulates_(setting.conditions.accumulation_steps > 1),
      keeps_last_(options.keeps_last_group),
      is_early_(options.gathers_early),
      keeps_parameters_(!options.reshard_after_backward),
      is_steady_(!setting.conditions.overlap.slows()),
      sends_behind_(options.scatters_in_flight != 0U),
      awaits_scatters_(options.scatters_in_flight.value_or(2) < 2) {
  Builder(*this, transfer, units).run();
}

std::int64_t MemoryBound::neighbours(std::int64_t memory) const {
  const std::size_t count = units_.size() - 1;
  std::vector<std::int64_t> ending(count + 1);  // groups that fit, by where they end
  std::int64_t out = 0;
  for (std::size_t begin = 0; begin < count; ++begin)
    for (std::size_t end = begin + 1; end <= count; ++end) {
      if (lasting_ + range(begin, end).in_backward > memory) continue;
      ++ending[end];
      out += ending[begin];
    }
  return out;
}

std::optional<Time> MemoryBound::least_channel_time(std::int64_t memory) const {
  const std::size_t count = units_.size() - 1;
  const std::int64_t batches = setting_.conditions.accumulation_steps;
  std::vector<Time> least(count + 1, Time::max());  // by number of units
  least[0] = Time::zero();
  for (std::size_t begin = 0; begin < count; ++begin) {
    if (least[begin] == Time::max()) continue;
    for (std::size_t end = begin + 1; end <= count; ++end) {
      const Range& own = range(begin, end);
      if (lasting_ + std::max(own.in_backward, own.after_backward) > memory) continue;
      least[end] = std::min(least[end], least[begin] + batches * own.gather + own.reduce);
    }
  }
  if (least[count] == Time::max()) return {};
  const Extras& extras = setting_.extras;
  return extras.read + least[count] + extras.lars + extras.lars_gather + extras.update;
}

}  // namespace planner
