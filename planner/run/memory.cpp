#include "planner/run/memory.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "planner/run/group_memory.hpp"

namespace planner {
namespace {

using core::CollectiveKind;
using sim::Time;
using Kind = TaskLabel::Kind;

/// The buffers of one part, each with a number. A buffer is held from when it is needed until the last time
/// at which it still is, and then begins anew.
class Buffers {
 public:
  Buffers(MemoryPart part, std::size_t count, std::vector<MemoryChange>& changes)
      : part_(part), held_(count), changes_(changes) {}

  /// Returns false if the buffer is still held.
  bool hold(std::size_t number, std::int64_t bytes, Time from) {
    std::optional<Held>& held = held_[number];
    if (held && (!held->until || *held->until > from)) return false;
    if (held) release(*held, *held->until);
    held = Held{.bytes = bytes, .from = from};
    return true;
  }
  /// Another buffer beside the one that is held, for as long as both are needed.
  void hold_another(std::size_t number, std::int64_t bytes, Time from) {
    std::optional<Held>& held = held_[number];
    if (held) release(*held, held->until.value_or(from));
    held = Held{.bytes = bytes, .from = from};
  }
  /// The buffer is needed up to this time, or later if it was told so.
  void until(std::size_t number, Time time) {
    if (std::optional<Held>& held = held_[number]) held->until = std::max(held->until.value_or(time), time);
  }
  /// The buffer, if it is held, is needed no longer.
  void end(std::size_t number, Time time) {
    if (held_[number]) release(*held_[number], time);
    held_[number].reset();
  }
  void all_until(Time time) {
    for (std::size_t number = 0; number < held_.size(); ++number) until(number, time);
  }
  /// Releases all at the end of the run.
  void finish(Time end) {
    for (const std::optional<Held>& held : held_)
      if (held) release(*held, held->until.value_or(end));
  }

 private:
  struct Held {
    std::int64_t bytes = 0;
    Time from{};
    std::optional<Time> until;
  };

  void release(const Held& held, Time until) {
    changes_.push_back({held.from, part_, held.bytes});
    changes_.push_back({std::max(held.from, until), part_, -held.bytes});
  }

  MemoryPart part_;
  std::vector<std::optional<Held>> held_;
  std::vector<MemoryChange>& changes_;
};

/// Goes through the tasks in the order in which they were written, which is the order of compute.
class Accounts {
 public:
  Accounts(const Setting& setting, const Executable& executable, const sim::Timeline& timeline)
      : setting_(setting),
        executable_(executable),
        timeline_(timeline),
        element_(setting.conditions.data_types, setting.workload.profile->dtype),
        gradient_bytes_(gradient_bytes(
            element_, sharding(),
            setting.conditions.accumulation_steps > 1 && !executable.program.reduces_each_batch)),
        shares_(executable.transfers.front().workers()),
        gradients_(MemoryPart::gradients, workload().gradients.size(), changes_),
        added_(MemoryPart::gradients, workload().gradients.size(), changes_),
        shards_(MemoryPart::gradients, groups().size(), changes_),
        gathered_(MemoryPart::gathered, groups().size(), changes_),
        buffers_(MemoryPart::buffers, groups().size(), changes_),
        activations_(MemoryPart::activations, workload().forward.size(), changes_) {
    has_activations_ = has_activations(*workload().profile);
    check_activations(*workload().profile);
    find_segments();
    find_steps();
    find_ops();
  }

  Memory work_out() && {
    add_lasting();
    const auto tasks = executable_.lowered.graph.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      pass_marks(i);
      const sim::StreamId stream = tasks[i].stream;
      if (executable_.lowered.is_shared(stream) || Lowered::worker_of(stream) == 0)
        add(TaskLabel::unpack(tasks[i].label), timeline_.spans[i]);
    }
    pass_marks(tasks.size());
    for (Buffers* each : {&gradients_, &added_, &shards_, &gathered_, &buffers_, &activations_})
      each->finish(timeline_.makespan);
    return summed(std::move(changes_), has_activations_);
  }

 private:
  const Workload& workload() const { return setting_.workload; }
  const Groups& groups() const { return executable_.groups; }
  Sharding sharding() const { return executable_.program.sharding; }
  bool communicates() const { return shares_ > 1; }
  const TransferCost& transfer_of(std::uint32_t group) const {
    return executable_.transfers[groups()[group].transfer];
  }
  /// The elements of a group's gradients, and of their parameters, as they are divided into shares.
  std::int64_t elements(std::uint32_t group) const {
    return transfer_of(group).padded_bytes(payload_of(workload(), groups()[group])) / element_.profile;
  }
  /// The elements of its parameters that are not trained and are gathered with them.
  std::int64_t frozen(std::uint32_t group) const {
    return transfer_of(group).frozen_bytes(payload_of(workload(), groups()[group])) / element_.profile;
  }
  std::int64_t share_of(std::int64_t elements) const { return (elements + shares_ - 1) / shares_; }
  std::int64_t share(std::uint32_t group) const { return share_of(elements(group)); }
  std::uint32_t group_of(const TaskLabel& label) const {
    return label.item % static_cast<std::uint32_t>(groups().size());
  }
  /// Whether whole gradients are dropped once they are reduced.
  bool drops_gradients() const { return communicates() && sharding() >= Sharding::gradients; }
  bool keeps_gradients_in_buffers() const {
    return setting_.conditions.memory->gradients_in_buffers && !drops_gradients();
  }

  void find_steps() {
    const auto steps = static_cast<std::uint32_t>(workload().backward.size());
    last_step_.resize(workload().forward.size());
    for (std::uint32_t step = 0; step < steps; ++step) last_step_[workload().backward[step].layer] = step;
    yielded_.resize(steps);
    for (std::uint32_t i = 0; i < workload().gradient_count(); ++i)
      yielded_[workload().gradients[i].backward_step].push_back(i);
    last_in_forward_.resize(workload().forward.size());
    last_in_backward_.resize(steps);
    for (std::uint32_t group = 0; group < groups().size(); ++group) {
      const Gradient& last = workload().gradients[groups()[group].begin];
      const Gradient& first = workload().gradients[groups()[group].end - 1];
      const bool is_sharded = sharding() == Sharding::parameters;
      last_in_forward_[is_sharded ? last.last_layer : last.layer].push_back(group);
      last_in_backward_[last_step_[is_sharded ? first.first_layer : first.layer]].push_back(group);
    }
  }

  void find_segments() {
    const auto layers = static_cast<std::uint32_t>(workload().forward.size());
    lasts_.assign(layers, true);
    dropped_from_.resize(layers);
    std::iota(dropped_from_.begin(), dropped_from_.end(), 0U);
    if (!has_activations_ || !setting_.conditions.recompute) return;
    std::int64_t most = -1;
    Segment largest;
    for (const Segment& segment : segments_of(*workload().profile, *setting_.conditions.recompute)) {
      dropped_from_[segment.last] = segment.first;
      std::int64_t bytes = 0;
      for (std::uint32_t layer = segment.first; layer < segment.last; ++layer) {
        lasts_[layer] = false;
        bytes += *workload().profile->layers[layer].activation_bytes;
      }
      if (bytes <= most) continue;
      most = bytes;
      largest = segment;
    }
    for (std::uint32_t layer = largest.first; layer < largest.last; ++layer) lasts_[layer] = true;
  }

  void find_ops() {
    ready_.resize(workload().backward.size());
    reducing_.resize(groups().size());
    for (const Op& op : executable_.program.ops) {
      carries_ = carries_ || op.delivers == Delivers::own_layers;
      if (op.issue != Issue::gradients && op.issue != Issue::backward_end) continue;
      reducing_[op.group] = op.kind;
      const Group& group = groups()[op.group];
      const std::uint32_t step = workload().gradients[group.end - 1].backward_step;
      (op.issue == Issue::gradients ? ready_[step] : ready_.back()).push_back(op.group);
    }
  }

  /// Adds the memory that is held from the beginning to the end.
  void add_lasting() {
    const std::int64_t all = workload().bytes() / element_.profile;
    std::int64_t own = 0;
    std::int64_t frozen_share = 0;
    for (std::uint32_t group = 0; group < groups().size(); ++group) {
      own += share(group);
      frozen_share += share_of(frozen(group));
    }
    const bool shares_frozen = communicates() && sharding() == Sharding::parameters;
    const auto add = [&](MemoryPart part, std::int64_t bytes) {
      changes_.push_back({Time::zero(), part, bytes});
    };
    const MemoryBytes lasting =
        lasting_memory(setting_.conditions, workload().profile->dtype, sharding(), all, own,
                       shares_frozen ? frozen_share : core::frozen_count(*workload().profile));
    for (std::size_t part = 0; part < lasting.size(); ++part)
      add(static_cast<MemoryPart>(part), lasting[part]);
    if (keeps_gradients_in_buffers()) add(MemoryPart::gradients, element_.gradients * all);
  }

  /// Gradients whose iteration has ended are released, unless they are used under the next forward pass.
  void pass_marks(std::size_t task) {
    const std::vector<sim::TaskId>& after = executable_.lowered.after_marks;
    for (; mark_ < after.size() && sim::index(after[mark_]) <= task; ++mark_) {
      if (carries_ || mark_ == 0) continue;
      const Time time = at_mark(executable_.lowered.marks[mark_], timeline_);
      shards_.all_until(time);
      if (!drops_gradients()) gradients_.all_until(time);
    }
  }

  void add(const TaskLabel& label, const sim::Span& span) {
    const auto layers = static_cast<std::uint32_t>(workload().forward.size());
    switch (label.kind) {
      case Kind::forward: forward(label.item % layers, span); break;
      case Kind::backward: {
        const auto steps = static_cast<std::uint32_t>(workload().backward.size());
        backward(label.item % steps, label.item < steps || executable_.program.reduces_each_batch, span);
        break;
      }
      case Kind::micro_batch_forward: hold_pass(span.start); break;
      case Kind::micro_batch_backward:
        hold_pass(span.start);
        hold_gradients_of_pass(span);
        activations_.all_until(span.end);
        break;
      case Kind::all_reduce:
      case Kind::reduce_scatter: reduce(*TaskLabel::collective(label.kind), group_of(label), span); break;
      case Kind::decode: buffers_.until(group_of(label), span.end); break;
      case Kind::all_gather: gather(group_of(label), span); break;
      case Kind::forward_gather:
      case Kind::backward_gather:
        // an early gather may begin while the group's forward pass still uses its parameters
        gathered_.hold_another(group_of(label),
                               (elements(group_of(label)) + frozen(group_of(label))) * element_.gather,
                               span.start);
        break;
      case Kind::group_update: used(group_of(label), span.end); break;
      default: break;
    }
  }

  void forward(std::uint32_t layer, const sim::Span& span) {
    hold_activation(layer, span.start);
    for (std::uint32_t i = dropped_from_[layer]; i < layer; ++i) activations_.until(i, span.end);
    for (const std::uint32_t group : last_in_forward_[layer]) gathered_.until(group, span.end);
  }

  void backward(std::uint32_t step, bool is_reduced, const sim::Span& span) {
    for (const std::uint32_t gradient : yielded_[step])
      if (!hold_gradient(gradient, span.start)) hold_added(gradient, span.start);
    for (const std::uint32_t group : last_in_backward_[step])
      for (std::uint32_t i = groups()[group].begin; i < groups()[group].end; ++i) added_.end(i, span.end);
    const std::uint32_t layer = workload().backward[step].layer;
    if (step == 0 || workload().backward[step - 1].layer != layer)
      for (std::uint32_t i = dropped_from_[layer]; i < layer; ++i) hold_activation(i, span.start);
    activations_.until(layer, span.end);
    for (const std::uint32_t group : last_in_backward_[step]) gathered_.until(group, span.end);
    if (!is_reduced) return;
    for (const std::uint32_t group : ready_[step]) ready(group, span.end);
  }

  bool is_copied(std::uint32_t group) const {
    const Group& own = groups()[group];
    return planner::is_copied(element_, executable_.transfers[own.transfer], workload(), own,
                              keeps_gradients_in_buffers());
  }

  void ready(std::uint32_t group, Time time) {
    if (drops_gradients() ? is_copied(group) : carries_) gradients_until(group, time);
    if (!communicates() || !is_copied(group)) return;
    const double bytes = executable_.transfers[groups()[group].transfer].message_bytes(
        *reducing_[group], payload_of(workload(), groups()[group]));
    buffers_.hold(group, static_cast<std::int64_t>(bytes), time);
  }

  void reduce(CollectiveKind kind, std::uint32_t group, const sim::Span& span) {
    if (sharding() == Sharding::parameters && kind == CollectiveKind::all_reduce)
      return;  // of shares, in place
    buffers_.until(group, span.end);
    if (drops_gradients() ? !is_copied(group) : carries_) gradients_until(group, span.end);
    if (drops_gradients()) shards_.hold(group, share(group) * element_.parameters, span.start);
  }

  /// An all-gather after the reduce-scatters: of gradients, or of parameters. It is in place unless it
  /// converts parameters; then the next passes use what was gathered.
  void gather(std::uint32_t group, const sim::Span& span) {
    if (carries_) used(group, span.end);
    if (sharding() == Sharding::nothing || element_.gather == element_.parameters) return;
    gathered_.hold(group, elements(group) * element_.gather, span.start);
  }

  void hold_activation(std::uint32_t layer, Time from) {
    if (has_activations_) activations_.hold(layer, *workload().profile->layers[layer].activation_bytes, from);
  }

  /// The activations of a micro-batch whose pass is one task: what is kept, and the most that is computed
  /// again at once.
  void hold_pass(Time from) {
    for (std::uint32_t layer = 0; layer < workload().forward.size(); ++layer)
      if (lasts_[layer]) hold_activation(layer, from);
  }

  /// Returns false if the gradient is held already, by micro-batches before.
  bool hold_gradient(std::uint32_t gradient, Time from) {
    return keeps_gradients_in_buffers() ||
           gradients_.hold(gradient,
                           workload().gradients[gradient].bytes / element_.profile * gradient_bytes_, from);
  }

  /// A gradient of a further micro-batch lasts until all of its group are there, if it is then added to one
  /// of another type.
  void hold_added(std::uint32_t gradient, Time from) {
    if (gradient_bytes_ != element_.gradients)
      added_.hold(gradient, workload().gradients[gradient].bytes / element_.profile * element_.gradients,
                  from);
  }

  /// A pass that is one task holds what is added at once in the step that completes the most.
  void hold_gradients_of_pass(const sim::Span& span) {
    bool adds = false;
    for (std::uint32_t i = 0; i < workload().gradient_count(); ++i)
      adds = !hold_gradient(i, span.start) || adds;
    if (!adds) return;
    const auto bytes = [&](const std::vector<std::uint32_t>& completed) {
      std::int64_t out = 0;
      for (const std::uint32_t group : completed) out += payload_of(workload(), groups()[group]).bytes;
      return out;
    };
    const auto most = std::ranges::max_element(
        last_in_backward_, [&](const auto& a, const auto& b) { return bytes(a) < bytes(b); });
    for (const std::uint32_t group : *most)
      for (std::uint32_t i = groups()[group].begin; i < groups()[group].end; ++i) {
        hold_added(i, span.start);
        added_.end(i, span.end);
      }
  }

  void gradients_until(std::uint32_t group, Time time) {
    for (std::uint32_t i = groups()[group].begin; i < groups()[group].end; ++i) gradients_.until(i, time);
  }

  /// Keeps the reduced gradients of a group up to this time.
  void used(std::uint32_t group, Time time) {
    shards_.until(group, time);
    if (!drops_gradients()) gradients_until(group, time);
  }

  const Setting& setting_;
  const Executable& executable_;
  const sim::Timeline& timeline_;
  ElementBytes element_;
  std::int64_t gradient_bytes_;  // of an element
  std::int64_t shares_;
  std::vector<MemoryChange> changes_;
  Buffers gradients_;  // by gradient; the next one likewise
  Buffers added_;      // of the micro-batch whose pass runs
  Buffers shards_;     // of gradients, by group; the next two likewise
  Buffers gathered_;
  Buffers buffers_;
  Buffers activations_;  // by layer
  bool has_activations_ = false;
  bool carries_ = false;  // whether collectives overlap the next forward pass
  std::size_t mark_ = 0;
  std::vector<std::uint32_t>
      dropped_from_;         // by layer: the first that is dropped with the end of its forward pass
  std::vector<bool> lasts_;  // by layer: whether its activations are there in a whole micro-batch
  std::vector<std::uint32_t> last_step_;                      // by layer
  std::vector<std::vector<std::uint32_t>> yielded_;           // gradients by step
  std::vector<std::vector<std::uint32_t>> last_in_forward_;   // groups by the layer that uses them last
  std::vector<std::vector<std::uint32_t>> last_in_backward_;  // groups by the step that uses them last
  std::vector<std::vector<std::uint32_t>> ready_;             // groups by the step after which they are sent
  std::vector<std::optional<CollectiveKind>> reducing_;       // by group
};

}  // namespace

GroupMemory group_memory(const Setting& setting, const TransferCost& transfer, const Group& group) {
  const ElementBytes element(setting.conditions.data_types, setting.workload.profile->dtype);
  const Payload payload = payload_of(setting.workload, group);
  const std::int64_t gradients =
      payload.bytes / element.profile *
      gradient_bytes(element, Sharding::parameters, setting.conditions.accumulation_steps > 1);
  const std::int64_t elements = transfer.padded_bytes(payload) / element.profile;
  const std::int64_t frozen = transfer.frozen_bytes(payload) / element.profile;
  GroupMemory out = {.gathered = (elements + frozen) * element.gather,
                     .gradients = gradients,
                     .sent = gradients,
                     .share = (elements + transfer.workers() - 1) / transfer.workers() * element.parameters};
  if (is_copied(element, transfer, setting.workload, group, false))
    out.sent = static_cast<std::int64_t>(transfer.message_bytes(CollectiveKind::reduce_scatter, payload));
  return out;
}

std::int64_t lasting_bytes(const Setting& setting, std::int64_t elements, std::int64_t frozen) {
  return total(lasting_memory(setting.conditions, setting.workload.profile->dtype, Sharding::parameters,
                              elements, elements, frozen));
}

void check_activations(const core::Profile& profile, std::int64_t micro_batches) {
  constexpr double kMaxInAll = 4e18;
  double all = 0;
  for (const core::ProfileLayer& layer : profile.layers)
    all += static_cast<double>(layer.activation_bytes.value_or(0)) * static_cast<double>(micro_batches);
  if (all > kMaxInAll)
    throw core::Unsupported(fmt::format("at most {:.0e} bytes of activations in all", kMaxInAll),
                            fmt::format("{:.6g}", all), "/profile");
}

Memory memory_of(const Setting& setting, const Executable& executable, const sim::Timeline& timeline) {
  return Accounts(setting, executable, timeline).work_out();
}

}  // namespace planner
