// Writes the task graph of a job: streams, compute tasks in call order, and marks.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/graph/channel.hpp"
#include "planner/graph/lowered.hpp"
#include "sim/task_graph.hpp"

namespace planner {

/// The progress of one worker while its tasks are written.
struct WorkerTasks {
  std::size_t index = 0;
  std::optional<sim::TaskId> last;          ///< the last compute task
  std::vector<sim::TaskId> next_waits_for;  ///< the next compute task waits for these and for `last`
  std::vector<sim::TaskId> backward_begins_after;
  sim::TaskId backward_end{};
  std::vector<sim::TaskId> sendable;         ///< by group: the task after which its gradients can be sent
  std::optional<sim::TaskId> drained_after;  ///< the last compute task when the channel was required to be
                                             ///< empty
};

class GraphWriter {
 public:
  /// `job` must outlive this object.
  explicit GraphWriter(const Job& job);

  const Job& job() const { return job_; }
  const Program& program() const { return job_.program; }
  const Workload& workload() const { return job_.workload; }
  bool communicates() const { return job_.transfers.front().workers() > 1; }
  std::span<WorkerTasks> workers() { return workers_; }
  std::uint32_t iteration() const { return iteration_; }

  /// Later labels and costs belong to this iteration.
  void begin_iteration(std::uint32_t iteration);
  const TransferCost& transfer_of(std::uint32_t group) const {
    return transfers_[job_.groups[group].transfer];
  }
  Payload payload_of(std::uint32_t group) const {
    return planner::payload_of(job_.workload, job_.groups[group]);
  }

  /// Adds a dependency; does nothing if there is no earlier task.
  void depend(sim::TaskId task, std::optional<sim::TaskId> earlier);
  /// Adds a compute task that takes `duration` on a worker at the workload's speed.
  sim::TaskId compute(WorkerTasks& at, TaskLabel::Kind kind, std::uint32_t item, sim::Time duration);
  /// Adds an input task; it runs in order among the compute tasks.
  void read(WorkerTasks& at);
  sim::TaskId add_tick(std::uint32_t group, sim::Time duration);

  /// Adds a group's collective, after those added before unless the channel goes by layer.
  sim::TaskId collective(TaskLabel::Kind kind, std::uint32_t group, sim::Time duration,
                         std::uint32_t iteration);
  /// Adds a collective that always keeps its place in the order. `item` is the item of its label.
  sim::TaskId collective_in_order(TaskLabel::Kind kind, std::uint32_t item, sim::Time duration);
  /// Adds a group's collective between shard groups.
  sim::TaskId collective_between(TaskLabel::Kind kind, std::uint32_t group, sim::Time duration);
  ChannelWriter& channel() { return channel_; }
  /// The next compute task of each worker waits for all pending collectives.
  void await_channel();

  /// Adds a mark: all earlier tasks on compute streams and the dependencies of the next compute task.
  void mark();
  /// Adds a mark of all earlier compute tasks only; collectives may continue.
  void mark_compute();
  Lowered finish() &&;

 private:
  void add_streams();
  void add_slow_downs(const std::vector<sim::StreamId>& computing);
  sim::TaskId add(sim::StreamId stream, TaskLabel::Kind kind, std::uint32_t item, sim::Time duration);
  sim::TaskId in_order(WorkerTasks& at, sim::TaskId task);
  sim::Time sampled(const WorkerTasks& at, TaskLabel::Kind kind, std::uint32_t item,
                    sim::Time duration) const;
  void add_mark(std::vector<sim::TaskId> tasks);

  const Job& job_;
  sim::TaskGraphBuilder builder_;
  ChannelWriter channel_;
  std::vector<WorkerTasks> workers_;
  std::uint32_t iteration_ = 0;
  bool has_spikes_;  // costs differ between iterations
  std::span<const TransferCost> transfers_;
  std::vector<TransferCost> transfers_of_iteration_;
  std::vector<std::vector<sim::TaskId>> marks_;
  std::vector<sim::TaskId> after_marks_;
};

}  // namespace planner
