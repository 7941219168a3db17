// Iterations whose collectives are all issued for gradients: during the backward pass, after it, after the
// channel has drained, or after the update.

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/graph/iterations.hpp"
#include "planner/graph/under_next_forward.hpp"

namespace planner {
namespace {

using sim::Time;
using Kind = TaskLabel::Kind;

bool reaches_under_forward(const Program& program) {
  return std::ranges::any_of(program.ops, [](const Op& op) { return op.delivers == Delivers::own_layers; });
}

class ForGradients {
 public:
  explicit ForGradients(GraphWriter& writer)
      : writer_(writer),
        carries_(reaches_under_forward(writer.program())),
        update_(writer, carries_),
        collectives_(writer, update_),
        under_forward_(writer, collectives_, update_) {}

  void run() {
    const std::uint32_t iterations = writer_.job().iterations;
    if (!carries_) writer_.mark();
    for (std::uint32_t i = 0; i < iterations; ++i) {
      writer_.begin_iteration(i);
      forward_of_first_micro_batch();
      if (carries_) writer_.mark_compute();
      further_micro_batches();
      backward(0);
      communicate();
      if (!carries_) writer_.mark();
    }
    if (!carries_) return;
    writer_.begin_iteration(iterations);
    forward_of_first_micro_batch();
    writer_.mark_compute();
  }

 private:
  void forward_of_first_micro_batch() {
    for (WorkerTasks& at : writer_.workers()) writer_.read(at);
    for (std::uint32_t layer = 0; layer < writer_.workload().forward.size(); ++layer) {
      if (carries_ && writer_.iteration() > 0) under_forward_.come_to(layer);
      for (WorkerTasks& at : writer_.workers())
        writer_.compute(at, Kind::forward, layer, writer_.workload().forward[layer]);
    }
  }

  bool has_one_in_flight() const { return writer_.program().one_in_flight && writer_.communicates(); }

  /// The backward passes of all micro-batches but the last, each with the forward pass after it.
  void further_micro_batches() {
    for (std::uint32_t batch = 1; batch < writer_.job().micro_batches; ++batch) {
      if (writer_.program().reduces_each_batch) {
        backward(writer_.job().micro_batches - batch);
        reduce();
      } else {
        for (WorkerTasks& at : writer_.workers())
          writer_.compute(at, Kind::micro_batch_backward, batch - 1, writer_.workload().backward_total);
      }
      for (WorkerTasks& at : writer_.workers())
        writer_.compute(at, Kind::micro_batch_forward, batch, writer_.workload().forward_total);
    }
  }

  /// The last micro-batch has `before_last` 0.
  void backward(std::uint32_t before_last) {
    const auto first_item = before_last * static_cast<std::uint32_t>(writer_.workload().backward.size());
    collectives_.begin_backward();
    if (has_one_in_flight())
      backward_with_one_in_flight(first_item);
    else
      for (WorkerTasks& at : writer_.workers()) backward_of(at, first_item);
  }

  void backward_of(WorkerTasks& at, std::uint32_t first_item) {
    CollectiveWriter::note_backward_begin(at);
    for (std::uint32_t step = 0; step < writer_.workload().backward.size(); ++step) {
      collectives_.backward(at, step, first_item + step);
      for (const std::uint32_t group : collectives_.groups_after(step)) collectives_.encode(at, group);
    }
    for (const std::uint32_t group : collectives_.groups_after_backward()) collectives_.encode(at, group);
  }

  /// Backward waits for collectives, so these are written among its steps, all but the last group's.
  void backward_with_one_in_flight(std::uint32_t first_item) {
    std::optional<sim::TaskId> in_flight;
    const auto op = writer_.program().ops.begin();  // the collectives of gradients come first, group by group
    for (WorkerTasks& at : writer_.workers()) CollectiveWriter::note_backward_begin(at);
    for (std::uint32_t step = 0; step < writer_.workload().backward.size(); ++step) {
      for (WorkerTasks& at : writer_.workers()) collectives_.backward(at, step, first_item + step);
      for (const std::uint32_t group : collectives_.groups_after(step)) {
        for (WorkerTasks& at : writer_.workers()) {
          collectives_.encode(at, group);
          if (in_flight) at.next_waits_for.push_back(*in_flight);
        }
        in_flight = collectives_.add(op[group]);
      }
    }
    for (const std::uint32_t group : collectives_.groups_after_backward())
      for (WorkerTasks& at : writer_.workers()) collectives_.encode(at, group);
  }

  bool is_written(const Op& op) const {
    return has_one_in_flight() && op.issue == Issue::gradients &&
           writer_.job().groups[op.group].end < writer_.workload().gradient_count();
  }

  /// The collectives of gradients of a micro-batch before the last. The next one waits for them.
  void reduce() {
    if (!writer_.communicates()) return;
    for (const Op& op : writer_.program().ops)
      if ((op.issue == Issue::gradients || op.issue == Issue::backward_end) && !is_written(op))
        collectives_.add(op);
    writer_.await_channel();
  }

  void communicate() {
    if (writer_.program().by_layer) writer_.channel().forget();  // all earlier collectives have been awaited
    bool is_updated = false;
    std::uint32_t issued = 0;
    for (const Op& op : writer_.program().ops) {
      if (op.issue == Issue::updated && !std::exchange(is_updated, true)) update_.update_at_once();
      if (op.issue == Issue::drained && !std::exchange(is_updated, true)) update_.drain();
      if (!writer_.communicates() || is_written(op)) continue;
      if (op.issue == Issue::drained && issued++ >= writer_.program().prefetch.value_or(UINT32_MAX))
        under_forward_.defer(op);
      else
        add(op);
    }
    if (!is_updated && !updates_under_forward()) update_.update_at_once();
    if (!carries_ && writer_.communicates()) writer_.await_channel();
  }

  void add(const Op& op) {
    const sim::TaskId task = collectives_.add(op);
    if (op.delivers == Delivers::own_layers) under_forward_.deliver(op.group, task);
  }

  /// A channel that goes by layer has no point at which it drains, unless learning rates require one.
  bool updates_under_forward() const {
    const Extras& extras = writer_.job().extras;
    return writer_.program().by_layer && extras.lars == Time::zero() && extras.lars_gather == Time::zero();
  }

  GraphWriter& writer_;
  bool carries_;  // whether collectives overlap the next forward pass
  UpdateWriter update_;
  CollectiveWriter collectives_;
  UnderNextForward under_forward_;
};

}  // namespace

void add_iterations_for_gradients(GraphWriter& writer) { ForGradients(writer).run(); }

}  // namespace planner
