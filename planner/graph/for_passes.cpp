// Iterations whose parameters are gathered for each pass, a number of groups ahead of the layers that use
// them.

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "planner/graph/collectives.hpp"
#include "planner/graph/copied_out.hpp"
#include "planner/graph/groups_by_layer.hpp"
#include "planner/graph/iterations.hpp"

namespace planner {
namespace {

using sim::TaskId;
using Kind = TaskLabel::Kind;

/// The groups of one pass in the order of use.
struct Pass {
  Issue issue = Issue::forward;
  std::uint32_t batch = 0;           ///< micro-batch, counted in the direction of the pass
  std::vector<bool> is_gathered;     ///< by group; the parameters of other groups are present
  std::vector<std::uint32_t> order;  ///< groups in the order of use
  std::size_t reached = 0;           ///< to how many of them compute has come
  std::size_t issued = 0;            ///< how many of them are reached or gathered ahead
};

/// The collectives of gradients, by group.
std::vector<std::vector<Op>> reducing_ops(const Program& program, std::size_t groups) {
  std::vector<std::vector<Op>> out(groups);
  for (const Op& op : program.ops)
    if (op.issue == Issue::gradients || op.issue == Issue::scattered) out[op.group].push_back(op);
  return out;
}

class ForPasses {
 public:
  explicit ForPasses(GraphWriter& writer)
      : writer_(writer),
        update_(writer, false),
        collectives_(writer, update_),
        by_first_layer_(
            groups_by_first_layer(writer.workload(), writer.job().groups, writer.program().sharding)),
        by_first_step_(
            groups_by_first_step(writer.workload(), writer.job().groups, writer.program().sharding)),
        reducing_(reducing_ops(writer.program(), writer.job().groups.size())),
        gathered_(writer.job().groups.size()),
        copied_out_(writer.workers().size()) {}

  void run() {
    writer_.mark();
    for (std::uint32_t i = 0; i < writer_.job().iterations; ++i) {
      writer_.begin_iteration(i);
      for (WorkerTasks& at : writer_.workers()) writer_.read(at);
      for (std::uint32_t batch = 0; batch < writer_.job().micro_batches; ++batch) {
        forward(batch);
        backward(writer_.job().micro_batches - 1 - batch);
      }
      update_.update_at_once();
      if (writer_.communicates()) writer_.await_channel();
      writer_.mark();
    }
  }

 private:
  void forward(std::uint32_t batch) {
    begin_pass(Issue::forward, batch);
    const auto layers = static_cast<std::uint32_t>(writer_.workload().forward.size());
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
      for (const std::uint32_t group : by_first_layer_[layer]) come_to(group);
      for (WorkerTasks& at : writer_.workers())
        writer_.compute(at, Kind::forward, batch * layers + layer, writer_.workload().forward[layer]);
      awaited_.clear();  // now compute has waited for them
    }
  }

  /// The last micro-batch has `before_last` 0.
  void backward(std::uint32_t before_last) {
    collectives_.begin_backward();
    scattering_.clear();
    in_flight_.clear();
    begin_pass(Issue::backward, before_last);
    const auto steps = static_cast<std::uint32_t>(writer_.workload().backward.size());
    for (std::uint32_t step = 0; step < steps; ++step) {
      for (const std::uint32_t group : by_first_step_[step]) come_to(group);
      for (WorkerTasks& at : writer_.workers()) {
        if (step == 0) CollectiveWriter::note_backward_begin(at);
        collectives_.backward(at, step, before_last * steps + step);
      }
      if (before_last > 0 && !writer_.program().reduces_each_batch) continue;
      for (const std::uint32_t group : collectives_.groups_after(step)) scatter(group);
    }
    if (before_last > 0) await_scatters();
  }

  /// The next micro-batch begins when the gradients that are in flight have arrived.
  void await_scatters() {
    for (WorkerTasks& at : writer_.workers())
      at.next_waits_for.insert(at.next_waits_for.end(), in_flight_.begin(), in_flight_.end());
    awaited_ = in_flight_;
  }

  void scatter(std::uint32_t group) {
    for (WorkerTasks& at : writer_.workers()) collectives_.encode(at, group);
    if (!writer_.communicates()) return;
    const std::optional<TaskId> awaited = oldest_scatter();
    for (WorkerTasks& at : writer_.workers())
      if (awaited) at.next_waits_for.push_back(*awaited);
    std::optional<TaskId> scattered;
    for (const Op& op : reducing_[group]) {
      if (op.issue == Issue::gradients) in_flight_.push_back(*(scattered = collectives_.add(op)));
      if (op.issue == Issue::gradients && awaited) writer_.depend(*scattered, awaited);
      if (op.issue == Issue::scattered && writer_.transfer_of(group).is_replicated())
        in_flight_.push_back(collectives_.add_between(op, *scattered));
    }
    if (writer_.program().scatters_in_flight != 0U)
      scattering_.push_back(*scattered);
    else
      for (WorkerTasks& at : writer_.workers()) at.next_waits_for.push_back(*scattered);
  }

  /// The reduce-scatter that must have ended before another one is issued, if there is one.
  std::optional<TaskId> oldest_scatter() {
    const std::optional<std::uint32_t> most = writer_.program().scatters_in_flight;
    if (!most || scattering_.empty() || scattering_.size() < *most) return {};
    const TaskId oldest = scattering_.front();
    scattering_.pop_front();
    return oldest;
  }

  /// The number of groups that are gathered ahead of compute in passes of this kind.
  std::uint32_t ahead(Issue issue) const {
    const Program& program = writer_.program();
    if (issue == Issue::backward && program.backward_prefetch) return *program.backward_prefetch;
    return program.prefetch.value_or(UINT32_MAX);
  }

  void begin_pass(Issue issue, std::uint32_t batch) {
    const auto groups = static_cast<std::uint32_t>(writer_.job().groups.size());
    pass_ = {.issue = issue, .batch = batch, .is_gathered = std::vector<bool>(groups), .order = {}};
    const bool is_kept = issue == Issue::forward && batch > 0 && !writer_.program().releases_between_batches;
    for (const Op& op : writer_.program().ops)
      if (op.issue == issue && !is_kept) pass_.is_gathered[op.group] = true;
    for (std::uint32_t i = 0; i < groups; ++i)
      pass_.order.push_back(issue == Issue::forward ? groups - 1 - i : i);
    if (issue == Issue::forward)
      for (std::size_t i = 0; i < copied_out_.size(); ++i)
        copied_out_[i].begin_forward(writer_.workers()[i].last);
    // FSDP2 issues further gathers when compute has come to the first group
    gather_until(is_early() ? 1 : ahead(issue));
  }

  bool is_early() const { return writer_.program().gathers_early && ahead(pass_.issue) > 0; }

  /// Issues the gathers of as many groups of the pass, or of all.
  void gather_until(std::uint64_t groups) {
    while (pass_.issued < std::min<std::uint64_t>(groups, pass_.order.size())) gather_next();
  }

  /// Issues the gather of the group that is `prefetch` groups ahead, possibly of the group itself.
  void come_to(std::uint32_t group) {
    if (pass_.is_gathered[group])
      for (std::size_t i = 0; i < copied_out_.size(); ++i) copied_out_[i].add(writer_.workers()[i].last);
    gather_until(++pass_.reached + std::uint64_t{ahead(pass_.issue)});
    if (!gathered_[group]) return;
    for (WorkerTasks& at : writer_.workers()) {
      // gathers that were waited for have ended by then; reduce-scatters may come later than this gather
      if (writer_.channel().is_in_order() && !writer_.program().scatters_in_flight) at.next_waits_for.clear();
      at.next_waits_for.push_back(*gathered_[group]);
    }
  }

  void gather_next() {
    const std::uint32_t group = pass_.order[pass_.issued++];
    gathered_[group].reset();
    if (!writer_.communicates() || !pass_.is_gathered[group]) return;
    const auto groups = static_cast<std::uint32_t>(writer_.job().groups.size());
    const TaskId task = writer_.collective_in_order(
        pass_.issue == Issue::forward ? Kind::forward_gather : Kind::backward_gather,
        pass_.batch * groups + group,
        writer_.transfer_of(group).time(core::CollectiveKind::all_gather, writer_.payload_of(group)));
    for (std::size_t i = 0; i < copied_out_.size(); ++i)
      writer_.depend(task, is_early() ? copied_out_[i].awaited(pass_.issue == Issue::forward)
                                      : writer_.workers()[i].last);
    for (const TaskId earlier : awaited_) writer_.depend(task, earlier);
    update_.wait_for_drained_channel(task);
    gathered_[group] = task;
  }

  GraphWriter& writer_;
  UpdateWriter update_;
  CollectiveWriter collectives_;
  std::vector<std::vector<std::uint32_t>> by_first_layer_;
  std::vector<std::vector<std::uint32_t>> by_first_step_;
  std::vector<std::vector<Op>> reducing_;  // by group
  Pass pass_;
  std::vector<std::optional<TaskId>> gathered_;  // by group: the task that its layers' pass waits for
  std::vector<CopiedOut> copied_out_;            // by worker
  std::deque<TaskId> scattering_;                // reduce-scatters that backward has not waited for
  std::vector<TaskId> in_flight_;                // all collectives of gradients of this micro-batch
  std::vector<TaskId> awaited_;                  // those of the one before, for which its first gathers wait
};

}  // namespace

void add_iterations_for_passes(GraphWriter& writer) { ForPasses(writer).run(); }

}  // namespace planner
