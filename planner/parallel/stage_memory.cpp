#include "planner/parallel/stage_memory.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "planner/run/held_memory.hpp"

namespace planner {
namespace {

using sim::Time;
using Kind = StageTask::Kind;

/// A gradient that is held from the first backward pass which yields it.
struct HeldGradient {
  std::int64_t bytes = 0;
  std::int64_t bytes_of_pass = 0;  ///< as a backward pass yields it
  std::optional<Time> from = {};
  std::optional<Time> until = {};  ///< if absent, the end of the iteration
  std::optional<Time> added =
      {};  ///< since when one of another type is there beside it, which is added to it
};

/// The gradients of one process group in a part; or those that no group sums, without `groups`.
struct GroupAccount {
  const PartGroups* groups = nullptr;
  std::int64_t workers = 1;
  Sharding sharding = Sharding::nothing;
  bool drops_gradients = false;  ///< whole ones, once they are reduced
  bool is_in_buffers = false;    ///< whether gradients are held all the time
  std::int64_t frozen = 0;       ///< elements that are not trained and are not divided into shares
  std::vector<HeldGradient> gradients = {};
  std::vector<std::vector<std::size_t>> yielded = {};  ///< gradients by step of backward
  /// Groups of tensors, by the step of backward that uses their parameters last; likewise by the layer of
  /// forward, those that are released then.
  std::vector<std::vector<std::size_t>> last_in_backward = {};
  std::vector<std::vector<std::size_t>> last_in_forward = {};
  std::vector<std::optional<Time>> gathered = {};  ///< by group of tensors: since when
  std::vector<Time> reduced = {};                  ///< the ends of its collectives so far
};

/// The activations of one micro-batch in a part.
struct ActivationAccount {
  std::vector<std::int64_t> bytes;                  ///< by layer
  std::vector<std::optional<std::int64_t>> inside;  ///< by layer that ends a segment: of the layers before it
  std::int64_t kept = 0;                            ///< between the passes
  std::int64_t passing = 0;                         ///< beside it in a pass: the most of a segment
};

ActivationAccount activations_of(const core::Profile& profile, const std::optional<Recompute>& recompute) {
  ActivationAccount out;
  for (const core::ProfileLayer& layer : profile.layers) {
    out.bytes.push_back(*layer.activation_bytes);
    out.kept += out.bytes.back();
  }
  out.inside.resize(out.bytes.size());
  if (!recompute) return out;
  for (const Segment& segment : segments_of(profile, *recompute)) {
    std::int64_t inside = 0;
    for (std::uint32_t layer = segment.first; layer < segment.last; ++layer) inside += out.bytes[layer];
    out.inside[segment.last] = inside;
    out.kept -= inside;
    out.passing = std::max(out.passing, inside);
  }
  return out;
}

struct PartAccount {
  std::vector<GroupAccount> groups;
  std::optional<ActivationAccount> activations;
};

class StageAccounts {
 public:
  StageAccounts(const RanStages& ran, std::int64_t stage)
      : ran_(ran),
        stage_(stage),
        dtype_(ran.parts.front().workload.profile->dtype),
        element_(ran.conditions.data_types, dtype_),
        has_activations_(std::ranges::all_of(
            ran.parts, [](const ModelPart& part) { return has_activations(*part.workload.profile); })),
        accounts_(ran.parts.size()) {
    for (const std::int64_t part : ran.parallel.parts_on(stage)) open(static_cast<std::size_t>(part));
  }

  Memory work_out() && {
    const auto tasks = ran_.graph.graph.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const sim::StreamId stream = tasks[i].stream;
      const bool is_compute = stream == JobGraph::compute(stage_);
      if (!is_compute && stream != JobGraph::channel(stage_) && stream != JobGraph::between(stage_)) continue;
      add(ran_.graph.tasks[i], ran_.timeline.spans[i]);
      if (is_compute) computed_ = ran_.timeline.spans[i].end;
    }
    for (const PartAccount& part : accounts_)
      for (const GroupAccount& group : part.groups)
        for (const HeldGradient& each : group.gradients)
          if (each.from)
            hold(MemoryPart::gradients, each.bytes, *each.from, each.until.value_or(ran_.timeline.makespan));
    return summed(std::move(changes_), has_activations_);
  }

 private:
  void hold(MemoryPart part, std::int64_t bytes, Time from, Time until) {
    changes_.push_back({from, part, bytes});
    changes_.push_back({std::max(from, until), part, -bytes});
  }

  // ---- what is there from the beginning

  void open(std::size_t part) {
    const ModelPart& of = ran_.parts[part];
    PartAccount& account = accounts_[part];
    std::set<std::pair<std::uint32_t, std::uint32_t>> summed_by_groups;
    for (const PartGroups& groups : of.groups) {
      for (const Gradient& each : groups.workload.gradients)
        summed_by_groups.emplace(each.layer, each.tensor);
      account.groups.push_back(open_group(groups));
    }
    GroupAccount rest = {.is_in_buffers = ran_.conditions.memory->gradients_in_buffers};
    rest.yielded.resize(of.workload.backward.size());
    if (of.workload.gradients.empty()) rest.frozen = core::frozen_count(*of.workload.profile);
    for (const Gradient& each : of.workload.gradients)
      if (!summed_by_groups.contains({each.layer, each.tensor})) {
        add_gradient(rest, each);
        rest.frozen += elements(each.frozen_bytes);
      }
    account.groups.push_back(std::move(rest));
    for (const GroupAccount& group : account.groups) add_lasting(group);
    if (has_activations_)
      account.activations = activations_of(*of.workload.profile, ran_.conditions.recompute);
  }

  /// Whether gradients of several micro-batches are added up.
  bool adds_up() const { return ran_.parallel.stages.micro_batches > 1; }

  void add_gradient(GroupAccount& account, const Gradient& gradient) const {
    account.yielded[gradient.backward_step].push_back(account.gradients.size());
    account.gradients.push_back(
        {.bytes = elements(gradient.bytes) * gradient_bytes(element_, account.sharding, adds_up()),
         .bytes_of_pass = elements(gradient.bytes) * element_.gradients});
  }

  GroupAccount open_group(const PartGroups& groups) const {
    GroupAccount out = {.groups = &groups,
                        .workers = groups.transfers.front().workers(),
                        .sharding = groups.program.sharding};
    out.drops_gradients = out.workers > 1 && out.sharding >= Sharding::gradients;
    out.is_in_buffers = ran_.conditions.memory->gradients_in_buffers && !out.drops_gradients;
    const Workload& workload = groups.workload;
    out.yielded.resize(workload.backward.size());
    for (const Gradient& each : workload.gradients) add_gradient(out, each);
    std::vector<std::uint32_t> last_step(workload.forward.size());
    for (std::uint32_t step = 0; step < workload.backward.size(); ++step)
      last_step[workload.backward[step].layer] = step;
    out.last_in_backward.resize(workload.backward.size());
    out.last_in_forward.resize(workload.forward.size());
    const std::vector<bool> is_released = released_after_forward(groups.program, groups.groups.size());
    for (std::size_t i = 0; i < groups.groups.size(); ++i) {
      const Group& group = groups.groups[i];
      const Gradient& last = workload.gradients[group.begin];
      const Gradient& first = workload.gradients[group.end - 1];
      const bool is_sharded = out.sharding == Sharding::parameters;
      out.last_in_backward[last_step[is_sharded ? first.first_layer : first.layer]].push_back(i);
      if (is_released[i]) out.last_in_forward[is_sharded ? last.last_layer : last.layer].push_back(i);
    }
    out.gathered.resize(groups.groups.size());
    if (out.sharding != Sharding::parameters || out.workers == 1)
      out.frozen = elements(workload.frozen_before.back());
    return out;
  }

  std::int64_t elements(std::int64_t bytes) const { return bytes / element_.profile; }
  /// The elements of a group's gradients, and of their parameters, as they are divided into shares.
  std::int64_t elements(const GroupAccount& account, std::int64_t group) const {
    const Group& own = group_of(account, group);
    return elements(
        account.groups->transfers[own.transfer].padded_bytes(payload_of(account.groups->workload, own)));
  }
  /// The elements of its parameters that are not trained and are gathered with them.
  std::int64_t frozen(const GroupAccount& account, std::int64_t group) const {
    const Group& own = group_of(account, group);
    return elements(
        account.groups->transfers[own.transfer].frozen_bytes(payload_of(account.groups->workload, own)));
  }
  static std::int64_t share_of(const GroupAccount& account, std::int64_t elements) {
    return (elements + account.workers - 1) / account.workers;
  }
  std::int64_t share(const GroupAccount& account, std::int64_t group) const {
    return share_of(account, elements(account, group));
  }
  static const Group& group_of(const GroupAccount& account, std::int64_t group) {
    return account.groups->groups[static_cast<std::size_t>(group)];
  }

  void add_lasting(const GroupAccount& account) {
    std::int64_t gradients = 0;
    for (const HeldGradient& each : account.gradients) gradients += each.bytes;
    const std::int64_t all = gradients / gradient_bytes(element_, account.sharding, adds_up());
    std::int64_t own = account.groups == nullptr ? all : 0;
    std::int64_t frozen_share = account.frozen;
    for (std::size_t i = 0; i < account.gathered.size(); ++i) {
      const auto group = static_cast<std::int64_t>(i);
      own += share(account, group);
      frozen_share += share_of(account, frozen(account, group));
    }
    const MemoryBytes lasting =
        lasting_memory(ran_.conditions, dtype_, account.sharding, all, own, frozen_share);
    for (std::size_t part = 0; part < lasting.size(); ++part)
      changes_.push_back({Time::zero(), static_cast<MemoryPart>(part), lasting[part]});
    if (account.is_in_buffers) changes_.push_back({Time::zero(), MemoryPart::gradients, gradients});
  }

  // ---- what tasks take and release

  void add(const StageTask& task, const sim::Span& span) {
    PartAccount& part = accounts_[static_cast<std::size_t>(task.part)];
    switch (task.kind) {
      case Kind::forward: forward(part, task, span); break;
      case Kind::backward:
      case Kind::weight_gradients: backward(part, task, span); break;
      case Kind::gather: gather(account_of(part, task), task.item, span); break;
      case Kind::reduce: reduce(account_of(part, task), task.item, task.collective, span); break;
      case Kind::tie: tie(span); break;
      case Kind::input_gradients:  // what weight gradients need is held until then
      case Kind::sum:              // of shares, in place
      case Kind::message: break;
    }
  }

  static GroupAccount& account_of(PartAccount& part, const StageTask& task) {
    return part.groups[static_cast<std::size_t>(task.process_group)];
  }

  void activations(std::int64_t bytes, Time at) { changes_.push_back({at, MemoryPart::activations, bytes}); }

  /// Parameters that were gathered, if any, are released with the end of this task.
  void release(GroupAccount& account, std::size_t group, Time at) {
    if (!account.gathered[group]) return;
    const auto number = static_cast<std::int64_t>(group);
    hold(MemoryPart::gathered, (elements(account, number) + frozen(account, number)) * element_.gather,
         *account.gathered[group], at);
    account.gathered[group].reset();
  }

  void forward(PartAccount& part, const StageTask& task, const sim::Span& span) {
    for (GroupAccount& account : part.groups)
      if (task.item != StageTask::kWholePass && account.groups != nullptr)
        for (const std::size_t group : account.last_in_forward[static_cast<std::size_t>(task.item)])
          release(account, group, span.end);
    if (!part.activations) return;
    const ActivationAccount& of = *part.activations;
    if (task.item == StageTask::kWholePass) {
      activations(of.kept + of.passing, span.start);
      activations(-of.passing, span.end);
      return;
    }
    const auto layer = static_cast<std::size_t>(task.item);
    activations(of.bytes[layer], span.start);
    if (of.inside[layer]) activations(-*of.inside[layer], span.end);
  }

  void backward(PartAccount& part, const StageTask& task, const sim::Span& span) {
    const bool is_whole = task.item == StageTask::kWholePass;
    const auto step = static_cast<std::uint32_t>(task.item);
    for (GroupAccount& account : part.groups) {
      const bool releases = account.groups != nullptr &&
                            (task.is_last || releases_after_backward(ran_.parallel, account.groups->program));
      const std::size_t first = is_whole ? 0 : step;
      const std::size_t end = is_whole ? account.yielded.size() : step + 1;
      for (std::size_t of = first; of < end; ++of) {
        for (const std::size_t gradient : account.yielded[of])
          if (!account.is_in_buffers) yield(account.gradients[gradient], span.start);
        if (account.groups == nullptr) continue;
        for (const std::size_t group : account.last_in_backward[of]) {
          if (!is_whole) add_up(account, group, span.end);
          if (releases) release(account, group, span.end);
        }
      }
      if (is_whole) add_up_largest(account, span);
    }
    if (!part.activations) return;
    if (is_whole) {
      activations(part.activations->passing, span.start);
      activations(-part.activations->kept - part.activations->passing, span.end);
      return;
    }
    backward_step(*part.activations, ran_.parts[static_cast<std::size_t>(task.part)].workload, step, span);
  }

  static void yield(HeldGradient& gradient, Time at) {
    if (!gradient.from)
      gradient.from = at;
    else if (gradient.bytes != gradient.bytes_of_pass)
      gradient.added = at;
  }

  /// What a pass yielded of a group lasts until the group is complete.
  void add_up(GroupAccount& account, std::size_t group, Time until) {
    const Group& of = account.groups->groups[group];
    for (std::uint32_t i = of.begin; i < of.end; ++i) {
      HeldGradient& gradient = account.gradients[i];
      if (gradient.added) hold(MemoryPart::gradients, gradient.bytes_of_pass, *gradient.added, until);
      gradient.added.reset();
    }
  }

  /// A pass that is one task holds the most that one of its steps completes.
  void add_up_largest(GroupAccount& account, const sim::Span& span) {
    std::int64_t most = 0;
    for (const std::vector<std::size_t>& completed : account.last_in_backward) {
      std::int64_t bytes = 0;
      for (const std::size_t group : completed)
        for (std::uint32_t i = account.groups->groups[group].begin; i < account.groups->groups[group].end;
             ++i)
          if (std::exchange(account.gradients[i].added, {})) bytes += account.gradients[i].bytes_of_pass;
      most = std::max(most, bytes);
    }
    if (most > 0) hold(MemoryPart::gradients, most, span.start, span.end);
  }

  void backward_step(const ActivationAccount& of, const Workload& workload, std::uint32_t step,
                     const sim::Span& span) {
    const std::uint32_t layer = workload.backward[step].layer;
    const bool is_first = step == 0 || workload.backward[step - 1].layer != layer;
    const bool is_last = step + 1 == workload.backward.size() || workload.backward[step + 1].layer != layer;
    if (is_first && of.inside[layer]) activations(*of.inside[layer], span.start);
    if (is_last) activations(-of.bytes[layer], span.end);
  }

  /// An all-gather carries parameters, but in `dear` the gradients of the iteration before, which are held
  /// until then.
  void gather(GroupAccount& account, std::int64_t group, const sim::Span& span) {
    if (account.sharding == Sharding::nothing) {
      if (!account.is_in_buffers)
        hold(MemoryPart::gradients, elements(account, group) * element_.gradients, Time::zero(), span.end);
      return;
    }
    // in place unless it converts parameters
    if (account.sharding != Sharding::parameters && element_.gather == element_.parameters) return;
    account.gathered[static_cast<std::size_t>(group)] = span.start;
  }

  /// Gradients are sent when compute has got as far as the task before. They are copied as soon as fewer than
  /// the limit are on their way.
  void reduce(GroupAccount& account, std::int64_t group, core::CollectiveKind collective,
              const sim::Span& span) {
    const Group& of = group_of(account, group);
    const TransferCost& transfer = account.groups->transfers[of.transfer];
    const bool is_copied =
        planner::is_copied(element_, transfer, account.groups->workload, of, account.is_in_buffers);
    Time copied = computed_;
    if (const auto limit = account.groups->program.scatters_in_flight;
        limit && *limit < account.reduced.size())
      copied = std::max(copied, account.reduced[account.reduced.size() - 1 - *limit]);
    account.reduced.push_back(span.end);
    if (is_copied)
      hold(MemoryPart::buffers,
           static_cast<std::int64_t>(
               transfer.message_bytes(collective, payload_of(account.groups->workload, of))),
           copied, span.end);
    if (!account.drops_gradients) return;
    for (std::uint32_t i = of.begin; i < of.end; ++i)
      account.gradients[i].until = is_copied ? copied : span.end;
    hold(MemoryPart::gradients, share(account, group) * element_.parameters, span.start,
         ran_.timeline.makespan);
  }

  void tie(const sim::Span& span) {
    const PartGroups& tied = ran_.tied.value();
    const Group& all = tied.groups.front();
    const TransferCost& transfer = tied.transfers[all.transfer];
    if (!is_copied(element_, transfer, tied.workload, all, ran_.conditions.memory->gradients_in_buffers))
      return;
    const double bytes =
        transfer.message_bytes(core::CollectiveKind::all_reduce, payload_of(tied.workload, all));
    hold(MemoryPart::buffers, static_cast<std::int64_t>(bytes), span.start, span.end);
  }

  const RanStages& ran_;
  std::int64_t stage_;
  core::Dtype dtype_;
  ElementBytes element_;
  bool has_activations_;
  std::vector<PartAccount> accounts_;  // by part; those of other stages are empty
  Time computed_{};                    // when the compute task before ended
  std::vector<MemoryChange> changes_;
};

}  // namespace

Memory stage_memory(const RanStages& ran, std::int64_t stage) { return StageAccounts(ran, stage).work_out(); }

}  // namespace planner
